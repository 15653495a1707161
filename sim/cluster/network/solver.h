// solver.h — asks rehearse-network, the program that holds SimGrid, and remembers what it said.
//
// Nothing is started before the first query that needs it: a query is first made as small as its
// symmetry allows (reduce.h), then looked up on disk (cache.h). What is left goes to the helper
// over a socket.
//
// Processes: after a fork the child has a helper of its own; it closes the inherited socket without
// speaking on it. A helper ends when its socket closes. A helper that dies is started once more;
// dead again, silent for too long or not there: an error value, never a hang.
//
// Not for two threads at the same time.
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
  std::string helper;                           // "": $REHEARSE_NETWORK, else beside the program
  std::string cache = default_cache_folder();   // "": none
  std::chrono::milliseconds patience{120'000};  // for one answer
  bool reduce = true;                           // false: SimGrid gets every query as it is
};

class Solver {
 public:
  explicit Solver(SolverOptions options = {});
  ~Solver();
  Solver(const Solver&) = delete;
  Solver& operator=(const Solver&) = delete;

  // All queries at once; the helper works on several of them at the same time.
  Result<std::vector<Finish>> solve(std::span<const Query> queries);
  Result<Finish> solve(const Query& query);
  // Packet by packet (packets.h).
  Result<Finish> simulate(const PacketQuery& query);

  // Queries that reached the helper, and helpers started, so far.
  int asked() const { return asked_; }
  int started() const { return started_; }
  pid_t helper() const { return helper_; }  // its process; -1: none

 private:
  // "" or what went wrong.
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
