// interruption.h — a long computation asks between its steps whether it is still wanted. Only where
// the process has somebody to ask: the program itself ends on signals, Python's process does not.
#pragma once

namespace sim {

// Thrown out of a computation that is no longer wanted; no std::exception, for nothing failed.
struct Interrupted {};

// `asked` says whether to stop; it is called about twenty times a second. nullptr: nobody.
void ask_in_computations(bool (*asked)());

namespace detail {
inline bool (*asked_in_computations)() = nullptr;
void ask_now_and_then();
}  // namespace detail

// Throws Interrupted where the answer is yes. What it leaves is destroyed, never read again.
inline void stay_interruptible() {
  if (detail::asked_in_computations != nullptr) detail::ask_now_and_then();
}

}  // namespace sim
