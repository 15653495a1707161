// pool.h — answers many items on all cores. Worker processes are forked from a process that has
// loaded all data; each gets one item at a time.
//
// Invariants
// (1) Every item is answered exactly once or reported as failed exactly once, unless the run was
//     stopped (`abandon`: its running items are lost). A worker that dies affects only its own
//     item.
// (2) The answer to an item does not depend on the number of workers.
//
// Workers are processes instead of threads: SimGrid allows one engine per process, and a crash must
// not end other items.
#pragma once

#include <cstddef>
#include <functional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "sim/study/sweep/ranks.h"

namespace sim::study {

// A worker was killed from outside, as Linux does when the host is out of memory. A second try may
// succeed.
struct Killed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// No worker could be started, and none is running.
class NoWorker : public std::system_error {
 public:
  explicit NoWorker(int error);
};

struct PoolCalls {
  // Runs in a worker: the answer to an item.
  std::function<std::string(std::size_t item)> answer;
  // Runs in the parent for each answer. Return false to stop, for example if the answer cannot be
  // stored.
  std::function<bool(std::size_t item, const std::string& answer)> answered;
  // Runs in the parent if the answer threw or the worker crashed on this item. Return false to
  // stop.
  std::function<bool(std::size_t item, const std::string& why)> failed;
  // Runs in the parent between answers, at least ten times a second. False: no new items are
  // started; running ones are still answered, except with `abandon`.
  std::function<bool()> go_on;
  // Runs in the parent when all items are answered: returns further items, or none to end. May be
  // nullptr. Not used with ranks.
  std::function<std::vector<std::size_t>()> more = nullptr;
  // Whether running items are ended unanswered once go_on returns false. Not used with ranks.
  bool abandon = false;
  // Runs in the parent if the worker was killed from outside on this item. Return false to stop. If
  // nullptr, the pool stops and throws Killed.
  std::function<bool(std::size_t item, const std::string& why)> killed = nullptr;
};

// Starts `items` in order on `workers` processes. Returns true if all were answered or failed,
// false if stopped. Throws NoWorker if no process can be started. REQUIRES: workers >= 1; the
// caller has no other threads.
//
// With `ranks` the processes of a job step share the items. Rank 0 has the items and the parent's
// calls; every rank answers on `workers` processes. `items` of other ranks are ignored. Ranks ask
// for items, so fast ranks do more.
bool run_pool(const std::vector<std::size_t>& items, int workers, const PoolCalls& calls,
              Ranks* ranks = nullptr);

}  // namespace sim::study
