// chunks.h — the chunks in which trees send an array, and the time until their pipeline is full.
// network.cpp adds it to the latency of NCCL's model, which ignores chunks (cost.h).
//
// NVLSTree is a pipeline of chunks over the levels of the double binary tree, upwards and
// downwards. The first chunk crosses each level before the next level can send it, at the speed of
// one NIC. The root of a tree has one child, so its level carries half:
//
//     fill = 2 (levels - 1/2) x (chunk of all channels / NIC)
//
// Tree with Simple is a pipeline over the chain of a node's GPUs and the levels between nodes. Its
// chunk is one step of a connection's buffer, 4 MiB / 8. Each channel is a tree of its own:
//
//     fill = 2 (p - 1) chunk / channel in a node + (2 levels - 1) chunk / channel of the NICs
//
// NVIDIA/nccl v2.20.5, v2.26.2: src/enqueue.cc (calcCollChunking), src/transport/nvls.cc
// (NCCL_NVLS_CHUNKSIZE), src/device (runTreeSplit).
#pragma once

#include "sim/base/units.h"
#include "sim/cluster/network/cost.h"

namespace sim::network {

// The part of the first chunks, over all channels, that one head sends over its NIC.
Bytes nvls_tree_chunk(const NcclModel& model, const Situation& situation, Bytes bytes);

// Seconds until the pipeline is full. `nic`: bytes per second of a NIC. REQUIRES: two nodes.
double nvls_tree_fill(const NcclModel& model, const Situation& situation, double nic, Bytes bytes);

// The same of Tree with Simple. REQUIRES: two nodes.
double tree_fill(const NcclModel& model, const Situation& situation, double nic, Bytes bytes);

}  // namespace sim::network
