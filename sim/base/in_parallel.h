// in_parallel.h — independent pieces of work on several threads of this process.
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

// Threads that work together again and again. The caller's is one of them; the others begin with
// the first work that they could share, and end with the team.
class Team {
 public:
  explicit Team(int threads) : wanted_(static_cast<std::size_t>(std::max(threads, 1))) {}
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  ~Team() {
    work_ = nullptr;
    begin_round();
  }

  // Runs work(0) ... work(count - 1), each once, in any order. Of what they throw the first that is
  // caught is thrown on, when all others have ended; what has not begun by then is left out.
  // REQUIRES: called by one thread at a time, and by no work of this team.
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
      wanted_ = others_.size() + 1;  // the system gives no more of them: these do it all
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
  void (*work_)(const void*, std::size_t) = nullptr;  // nullptr: end
  const void* working_on_ = nullptr;
  std::atomic<std::size_t> next_ = 0, busy_ = 0;
  std::atomic<std::uint32_t> round_ = 0;
  std::mutex throwing_;
  std::exception_ptr thrown_;
  std::vector<std::jthread> others_;  // last: they end before what they use
};

// The same for work that comes once.
template <class Work>
void in_parallel(std::size_t count, int threads, const Work& work) {
  Team(threads).in_parallel(count, work);
}

}  // namespace sim
