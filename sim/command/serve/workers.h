// workers.h — worker processes of the server. Each answers one request at a time, within limits of
// time and memory.
//
// A worker that is killed (too long, too much memory, a crash) ends only its own request, with a
// message; another worker takes its place. Workers stay alive between requests, so the data that
// they have read stay in memory.
//
// Unlike study/sweep/pool.h, requests arrive at any time and a request can report its progress.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/units.h"
#include "sim/command/serve/http.h"

namespace sim::command::web {

// Sends a text from a running request to the server.
using Tell = std::function<void(std::string_view text)>;
// Runs in a worker: answers a request with "STATUS\n" and the body of the reply.
using Work = std::function<std::string(const std::string& request, const Tell& tell)>;

struct Job {
  std::string request;
  std::function<void(std::string text)> told;  // for each text of the request; may be nullptr
  std::function<void(Reply)> done;             // once
  std::string replaces;  // removes a queued job with the same text, which gets a 409; "": none
};

struct WorkerLimits {
  int workers = 2;
  std::size_t queued = 64;
  std::chrono::seconds time{60};       // of one request
  Bytes memory{Bytes{4'294'967'296}};  // address space of a worker
};

class Workers {
 public:
  // Forks the workers. `begin` runs once in each of them. REQUIRES: the process has no other
  // threads.
  Workers(boost::asio::io_context& context, WorkerLimits limits, std::function<void()> begin,
          Work work);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Queues a job. Its `done` is called even if the queue is full or the server stops.
  // Returns the number of the job.
  std::uint64_t submit(Job job);
  // Asks a running job to end with what it has (SIGINT); a queued job is removed.
  void interrupt(std::uint64_t job);
  // Kills all workers; queued and running jobs are answered with 503.
  void stop();

 private:
  struct Worker;
  struct Queued {
    std::uint64_t number;
    Job job;
  };

  // Throws std::system_error without a process or a descriptor to spare.
  void start(Worker& worker);
  void start_after(Worker& worker, std::chrono::seconds pause);
  void hand_out();
  void give(Worker& worker, Queued queued);
  void listen(Worker& worker);
  void heard(Worker& worker, char kind, std::string text);
  void lost(Worker& worker);
  void end_job(Worker& worker, Reply reply);

  boost::asio::io_context& context_;
  WorkerLimits limits_;
  std::function<void()> begin_;
  Work work_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::deque<Queued> queue_;
  std::uint64_t numbers_ = 0;
  bool stopped_ = false;
};

}  // namespace sim::command::web
