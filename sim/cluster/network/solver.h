// solver.h — sends queries to rehearse-network, the program that contains SimGrid, and caches its
// answers.
//
// Nothing is started before the first query that needs it. A query is first reduced by symmetry
// (reduce.h) and looked up on disk (cache.h). The helper receives the rest over a socket.
//
// Processes: after a fork the child starts its own helper and closes the inherited socket unused. A
// helper ends when its socket closes. A helper that dies is restarted once. A second death, a long
// silence or a missing helper gives an error value, never a hang.
//
// A Solver must not be used by two threads at the same time.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "sim/base/result.h"
#include "sim/cluster/network/cache.h"
#include "sim/cluster/network/packets.h"
#include "sim/cluster/network/query.h"

namespace sim::network {

struct SolverOptions {
  std::string helper;                           // "": $REHEARSE_NETWORK, else next to the program
  std::string cache = default_cache_folder();   // "": none
  std::chrono::milliseconds patience{120'000};  // for one answer
  bool reduce = true;                           // false: SimGrid receives every query unreduced
};

class Solver {
 public:
  explicit Solver(SolverOptions options = {});
  ~Solver();
  Solver(const Solver&) = delete;
  Solver& operator=(const Solver&) = delete;

  // Solves all queries at once; the helper works on several of them in parallel.
  Result<std::vector<Finish>> solve(std::span<const Query> queries);
  Result<Finish> solve(const Query& query);
  // Simulates packet by packet (packets.h).
  Result<Finish> simulate(const PacketQuery& query);

  // Queries sent to the helper, and helpers started, so far.
  int asked() const { return asked_; }
  int started() const { return started_; }
  pid_t helper() const { return helper_; }  // process id; -1: none

 private:
  // These return "" or an error message.
  std::string start();
  std::string ask(const std::vector<std::string>& texts, std::vector<Finish>& answers);
  std::string converse(std::string outgoing, std::vector<bool>& answered,
                       std::vector<Finish>& answers);
  void stop();

  SolverOptions options_;
  Cache cache_;
  int socket_ = -1;
  pid_t helper_ = -1;
  pid_t owner_ = -1;  // the process that started the helper
  int asked_ = 0;
  int started_ = 0;
};

}  // namespace sim::network
