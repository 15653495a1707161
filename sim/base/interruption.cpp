#include "sim/base/interruption.h"

#include <chrono>

namespace sim {

void ask_in_computations(bool (*asked)()) {
  detail::asked_in_computations = asked;
}

void detail::ask_now_and_then() {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds between{50};
  constexpr unsigned steps = 64;  // between looks at the clock
  static unsigned step = 0;
  static Clock::time_point next{};
  if (++step % steps != 0) return;
  const Clock::time_point now = Clock::now();
  if (now < next) return;
  next = now + between;
  if (asked_in_computations()) throw Interrupted{};
}

}  // namespace sim
