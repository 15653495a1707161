// turn.h — lets one thread at a time into the program where it is part of another process: Python's
// module and the library.
//
// A process that is forked while a thread has its turn has that thread's half-finished state and no
// thread to finish it: no turn can begin there.
#pragma once

namespace sim {

class Turn {
 public:
  // Waits for the turns of other threads. Throws std::runtime_error in a process that was forked
  // during a turn of another thread. REQUIRES: this thread has no turn.
  Turn();
  ~Turn();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  static bool is_mine();  // whether this thread has its turn
};

}  // namespace sim
