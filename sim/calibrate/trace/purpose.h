// purpose.h — the purpose of a pass over memory, if its name has one. align.h uses it. An operation
// has a label. A kernel has a functor, the operators in Triton's names, or a name that only one
// caller uses.
//
// A layer has many passes of similar duration, and families of passes replace each other; the
// purpose tells them apart. A fused kernel may have several purposes; most names have none.
#pragma once

#include <cstdint>
#include <string_view>

namespace sim::calibrate {

using Purposes = std::uint16_t;  // one bit per purpose; 0: unknown

Purposes purposes_of_label(std::string_view label);
Purposes purposes_of_kernel(std::string_view kernel);

}  // namespace sim::calibrate
