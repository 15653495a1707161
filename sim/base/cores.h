// cores.h — of this machine.
#pragma once

#include <algorithm>
#include <thread>

namespace sim {

// At least 1, also where the system does not say.
inline int cores() {
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

}  // namespace sim
