#include "sim/base/turn.h"

#include <pthread.h>

#include <atomic>
#include <mutex>
#include <stdexcept>
#include <thread>

namespace sim {

namespace {

std::mutex turn;
std::atomic<std::thread::id> holder;
bool torn = false;  // forked during a turn of another thread

void look_after_fork() {
  if (Turn::is_mine()) return;  // the thread goes on in the new process
  if (turn.try_lock())
    turn.unlock();
  else
    torn = true;
}

}  // namespace

Turn::Turn() {
  static const int watches = ::pthread_atfork(nullptr, nullptr, look_after_fork);
  static_cast<void>(watches);
  if (torn)
    throw std::runtime_error(
        "rehearse was at work in another thread when this process was forked; start processes "
        "before that, or as new programs (multiprocessing's \"spawn\")");
  turn.lock();
  holder = std::this_thread::get_id();
}

Turn::~Turn() {
  holder = std::thread::id();
  turn.unlock();
}

bool Turn::is_mine() {
  return holder == std::this_thread::get_id();
}

}  // namespace sim
