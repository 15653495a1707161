// serve.h — answers framed queries (frame.h) from stdin until it ends, each in a process of its
// own.
//
// Several queries run at the same time, at most one per core. Answers are sent as they arrive, each
// with the id of its query. This process itself never uses SimGrid, so every child starts clean.
#pragma once

#include <string>
#include <variant>

#include "sim/cluster/network/query.h"

namespace sim::network {

// Answers one request of either kind (query.h, packets.h): the end of each flow or message, or an
// error. REQUIRES: this process has not used SimGrid.
std::variant<Finish, std::string> answer_of(const std::string& request);

// Returns the exit status: 0 at the end of input, 65 if the input was not made of frames.
int serve();

}  // namespace sim::network
