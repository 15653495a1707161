// test.h — [ ], [[ ]] and their fellows: what a condition says, as far as that can be known.
#pragma once

#include <vector>

#include "sim/input/launch/shell/environment.h"

namespace sim::shell {

struct Answer {
  bool yes = false;   // of an unknown condition: what is likelier
  bool known = true;  // it depends on nothing that is unknown
};

// The words between the brackets. `patterns`: = and == compare with a pattern ([[ ]]).
Answer test(const std::vector<Text>& words, bool patterns, const Environment& environment);

}  // namespace sim::shell
