// serve.h — answers framed queries (frame.h) on stdin until it ends, each in a process of its own.
//
// Several queries run at the same time, at most one per core; answers go out as they come, each
// with the id of its query. This process never touches SimGrid, so every child starts clean.
#pragma once

namespace sim::network {

// The exit status: 0 when the input ended, 65 when it was not made of frames.
int serve();

}  // namespace sim::network
