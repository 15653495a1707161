// chunks.h — the chunks in which NVLSTree sends an array, and the time until its pipeline is full.
// network.cpp adds it to the latency of NCCL's model, which ignores chunks (cost.h).
//
// NVLSTree is a pipeline of chunks over the levels of the double binary tree, upwards and
// downwards. The first chunk crosses each level before the next level can send it, at the speed of
// one NIC. The root of a tree has one child, so its level carries half:
//
//     fill = 2 (levels - 1/2) x (chunk of all channels / NIC)
//
// NVIDIA/nccl v2.20.5, v2.26.2: src/enqueue.cc (calcCollChunking), src/transport/nvls.cc
// (NCCL_NVLS_CHUNKSIZE).
#pragma once

#include "sim/base/units.h"
#include "sim/cluster/network/cost.h"

namespace sim::network {

// The part of the first chunks, over all channels, that one head sends over its NIC.
Bytes nvls_tree_chunk(const NcclModel& model, const Situation& situation, Bytes bytes);

// Seconds until the pipeline is full. `nic`: bytes per second of a NIC. REQUIRES: two nodes.
double nvls_tree_fill(const NcclModel& model, const Situation& situation, double nic, Bytes bytes);

}  // namespace sim::network
