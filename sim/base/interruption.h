// interruption.h — lets a long computation stop early when its caller no longer wants the answer.
//
// Both engines call stay_interruptible() between events. The Python module (Ctrl-C) and the C++
// library register a question; the command-line program ends on signals instead.
#pragma once

namespace sim {

// Thrown out of a computation that is no longer wanted. It is not a std::exception: nothing failed.
struct Interrupted {};

// Registers `asked`, which returns whether to stop. It is called at most 20 times a second.
// nullptr: computations are never stopped.
void ask_in_computations(bool (*asked)());

namespace detail {
inline bool (*asked_in_computations)() = nullptr;
void ask_now_and_then();
}  // namespace detail

// Throws Interrupted if the registered question answers yes. The caller must destroy the state of
// the computation: it is incomplete.
inline void stay_interruptible() {
  if (detail::asked_in_computations != nullptr) detail::ask_now_and_then();
}

}  // namespace sim
