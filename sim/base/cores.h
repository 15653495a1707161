// cores.h — number of CPU cores of the machine we run on.
//
// Commands call it for the default number of threads.
#pragma once

#include <algorithm>
#include <thread>

namespace sim {

// At least 1, even if the operating system cannot tell.
inline int cores() {
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

}  // namespace sim
