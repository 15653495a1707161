// router_load.h — a file of how a router shares its tokens out: numbers apart by commas or blanks,
// one for each expert, on one line for all layers with experts or on a line for each of them; what
// follows a # is left out. The shares of a line sum to 1 within a thousandth, and are made to.
#pragma once

#include <string>
#include <vector>

#include "sim/base/quantity.h"
#include "sim/model/architecture.h"

namespace sim::input {

// REQUIRES: the architecture has experts, its pattern of layers is one.
Parsed<std::vector<std::vector<double>>> read_router_load(const std::string& path,
                                                          const model::Architecture& a);

}  // namespace sim::input
