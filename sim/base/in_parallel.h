// in_parallel.h — runs independent pieces of work on several threads of this process.
//
// The fast engine calls it for the memory of several rank classes, the campaign for its drawn runs.
// Every piece of work runs exactly once unless one throws. The order is open, so a piece of work
// must not depend on another.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace sim {

// A pool of threads that is used many times. The caller's thread is one of them. The others start
// with the first call that can use them and end with the Team.
class Team {
 public:
  explicit Team(int threads) : wanted_(static_cast<std::size_t>(std::max(threads, 1))) {}
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  ~Team() {
    work_ = nullptr;
    begin_round();
  }

  // Runs work(0) ... work(count - 1), each once, in any order, and waits for all of them. If one
  // throws, no further piece starts; the first exception is rethrown once the running ones ended.
  // REQUIRES: called by one thread at a time, and never from a piece of work of this team.
  template <class Work>
  void in_parallel(std::size_t count, const Work& work) {
    gather(std::min(wanted_, count));
    count_ = count;
    next_ = 0;
    working_on_ = &work;
    work_ = [](const void* on, std::size_t i) { (*static_cast<const Work*>(on))(i); };
    if (count > 1) begin_round();
    share();
    for (std::size_t busy = busy_; busy > 0; busy = busy_) busy_.wait(busy);
    if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
  }

 private:
  void gather(std::size_t size) {
    try {
      while (others_.size() + 1 < size)
        others_.emplace_back([this, seen = round_.load()] { take_part(seen); });
    } catch (const std::system_error&) {
      wanted_ = others_.size() + 1;  // the system starts no more threads: these do all the work
    }
  }
  void begin_round() {
    busy_ = others_.size();
    ++round_;
    round_.notify_all();
  }
  void take_part(std::uint32_t seen) {
    for (;; ++seen) {
      round_.wait(seen);
      if (work_ == nullptr) return;
      share();
      if (--busy_ == 0) busy_.notify_one();
    }
  }
  void share() {
    try {
      for (std::size_t i = next_++; i < count_; i = next_++) work_(working_on_, i);
    } catch (...) {
      next_ = count_;
      const std::scoped_lock lock(throwing_);
      if (!thrown_) thrown_ = std::current_exception();
    }
  }

  std::size_t wanted_;  // threads
  std::size_t count_ = 0;
  void (*work_)(const void*, std::size_t) = nullptr;  // nullptr: the threads end
  const void* working_on_ = nullptr;
  std::atomic<std::size_t> next_ = 0, busy_ = 0;
  std::atomic<std::uint32_t> round_ = 0;
  std::mutex throwing_;
  std::exception_ptr thrown_;
  std::vector<std::jthread> others_;  // last member: the threads end before the members they use
};

// The same for a single call, with threads of its own.
template <class Work>
void in_parallel(std::size_t count, int threads, const Work& work) {
  Team(threads).in_parallel(count, work);
}

}  // namespace sim
