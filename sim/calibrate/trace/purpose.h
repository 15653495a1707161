// purpose.h — what a pass over memory is for, where its name says so: of an operation by its label,
// of a kernel by the functor, the operators of Triton's names, or a kernel that only one caller
// has.
//
// Families of passes stand for each other, and a layer has many that take as long: names tell them
// apart. A kernel that a compiler fused is for several purposes, most names say none.
#pragma once

#include <cstdint>
#include <string_view>

namespace sim::calibrate {

using Purposes = std::uint16_t;  // a bit for each; 0: nothing is said

Purposes purposes_of_label(std::string_view label);
Purposes purposes_of_kernel(std::string_view kernel);

}  // namespace sim::calibrate
