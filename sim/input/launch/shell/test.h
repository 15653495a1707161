// test.h — evaluates [ ], [[ ]] and `test`, as far as the values are known.
//
// follow.cpp calls it for each condition.
#pragma once

#include <vector>

#include "sim/input/launch/shell/environment.h"

namespace sim::shell {

struct Answer {
  bool yes = false;   // result; the likelier one if unknown
  bool known = true;  // depends on no unknown value
};

// The result for the words between the brackets. `patterns`: = and == compare with a pattern ([[
// ]]).
Answer test(const std::vector<Text>& words, bool patterns, const Environment& environment);

}  // namespace sim::shell
