// in_parallel.h — independent pieces of work on several threads of this process.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace sim {

// Runs work(0) ... work(count - 1), each once, in any order; the caller's thread is one of
// `threads`. Of what they throw the first that is caught is thrown on, when all others have ended;
// what has not begun by then is left out.
template <class Work>
void in_parallel(std::size_t count, int threads, const Work& work) {
  std::atomic<std::size_t> next = 0;
  std::exception_ptr thrown;
  std::mutex throwing;
  const auto share = [&] {
    try {
      for (std::size_t i = next++; i < count; i = next++) work(i);
    } catch (...) {
      next = count;
      const std::scoped_lock lock(throwing);
      if (!thrown) thrown = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    const std::size_t wanted = std::min(static_cast<std::size_t>(std::max(threads, 1)), count);
    try {
      for (std::size_t i = 1; i < wanted; ++i) others.emplace_back(share);
    } catch (const std::system_error&) {
      // The system gives no more of them: those that are there do it all.
    }
    share();
  }
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace sim
