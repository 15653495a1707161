// router_load.h — reads the token shares of experts from a file, for plans with router: skewed.
//
// `resolve` calls it for plans with the field router_load. Format: one number for each expert,
// separated by commas or blanks; # starts a comment. A file has one line for all layers with
// experts, or one line for each of them.
#pragma once

#include <string>
#include <vector>

#include "sim/base/quantity.h"
#include "sim/model/architecture.h"

namespace sim::input {

// Rows of shares. Each row sums to 1: a row within 0.001 of 1 is normalized, any other one is an
// error. REQUIRES: the architecture has experts and a valid layer pattern.
Parsed<std::vector<std::vector<double>>> read_router_load(const std::string& path,
                                                          const model::Architecture& a);

}  // namespace sim::input
