// pool.h — many answers on all cores: worker processes, forked from one that has loaded
// everything, are handed one item at a time.
//
// Invariants
//  (1) Every item is answered exactly once, or reported as failed exactly once, unless the run was
//      stopped: a worker that dies takes its own item with it and nothing else.
//  (2) What an item's answer is does not depend on the number of workers.
//
// Processes, not threads: SimGrid allows one engine per process, and a crash must stay one item's.
#pragma once

#include <cstddef>
#include <functional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "sim/study/sweep/ranks.h"

namespace sim::study {

// A worker was killed from outside, as Linux does when the host is out of memory: nobody's fault
// here, and asking again may give the answer.
struct Killed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// No worker could be started, and none was there to go on with.
class NoWorker : public std::system_error {
 public:
  explicit NoWorker(int error);
};

struct PoolCalls {
  // In a worker: the answer to an item.
  std::function<std::string(std::size_t item)> answer;
  // In the parent, as answers arrive. False: stop (the caller cannot store it).
  std::function<bool(std::size_t item, const std::string& answer)> answered;
  // In the parent: the answer threw, or the worker crashed on this item. False: stop.
  std::function<bool(std::size_t item, const std::string& why)> failed;
  // In the parent, between answers and at least ten times a second. False: no new items are handed
  // out, those under way are still answered.
  std::function<bool()> go_on;
  // In the parent, when everything that was handed out is answered: further items, none to end. May
  // be missing. Without ranks.
  std::function<std::vector<std::size_t>()> more = nullptr;
  // In the parent: the worker was killed from outside on this item. False: stop. May be missing:
  // then nothing more is handed out, and run_pool ends by throwing Killed.
  std::function<bool(std::size_t item, const std::string& why)> killed = nullptr;
};

// Answers `items` in the order in which they are given, on `workers` processes. True when all were
// answered or failed; false when it was stopped before. Throws NoWorker when the system gives none.
// REQUIRES: workers >= 1; the caller has no other threads.
//
// With `ranks` the processes of a job step share the items: rank 0 has them and the calls of the
// parent, every rank answers on `workers` processes of its own, the others' `items` are not looked
// at. Items are handed out as they are wanted, so that fast ranks do more.
bool run_pool(const std::vector<std::size_t>& items, int workers, const PoolCalls& calls,
              Ranks* ranks = nullptr);

}  // namespace sim::study
