// kernel_family.h — what a kernel of a trace is for, by its name.
#pragma once

#include <cstdint>
#include <string_view>

namespace sim::calibrate {

enum class KernelFamily : std::uint8_t { communication, attention, product, triton, memory, other };
std::string_view name(KernelFamily family);

// Communication first: a collective that also adds is one.
KernelFamily family_of(std::string_view kernel);

}  // namespace sim::calibrate
