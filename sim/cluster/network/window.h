// window.h — the most that a connection carries over a long distance. network.cpp limits the rates
// of collectives and sends between nodes by it.
//
// NCCL gives a sender of a connection a fixed number of steps. A step is used again after the
// receiver's message says that it is free. So at most the buffer of all steps is on its way during
// one round trip, whatever the links carry:
//
//     rate of a connection = buffer / (2 x latency of the path)
//
// Over a fabric of microseconds that is far above the NICs. A buffer of 4 MiB over a path of 1 ms
// carries 2 GB/s.
// NVIDIA/nccl v2.20.5, v2.27.7: src/init.cc (DEFAULT_BUFFSIZE 4 MiB, DEFAULT_LL_BUFFSIZE,
// DEFAULT_LL128_BUFFSIZE, chunks of 128 KiB for sends), src/transport/net.cc (NCCL_STEPS 8).
#pragma once

#include "sim/cluster/network/cost.h"

namespace sim::network {

// Bytes of data per second of one connection of a channel. Infinite if the path has no latency.
double window_rate(const NcclModel& model, Choice choice, const Situation& situation, Duration path,
                   Bytes bytes);
// The same for one peer of a send, over all of its channels.
double send_window_rate(const NcclModel& model, Duration path);

// Bus bandwidths that the windows of all channels allow; the rest of `solved` stays.
Buses within_window(const NcclModel& model, Buses solved, Choice choice, const Situation& situation,
                    Duration path, Bytes bytes);

}  // namespace sim::network
