// serve.h — answers framed queries (frame.h) on stdin until it ends, each in a process of its own.
//
// Several queries run at the same time, at most one per core; answers go out as they come, each
// with the id of its query. This process never touches SimGrid, so every child starts clean.
#pragma once

#include <string>
#include <variant>

#include "sim/cluster/network/query.h"

namespace sim::network {

// One request of either kind (query.h, packets.h): when each flow or message ends, or what is wrong
// with it. REQUIRES: nothing in this process touched SimGrid.
std::variant<Finish, std::string> answer_of(const std::string& request);

// The exit status: 0 when the input ended, 65 when it was not made of frames.
int serve();

}  // namespace sim::network
