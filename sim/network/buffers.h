// buffers.h — device memory that a communicator holds outside PyTorch's pools, per rank.
//
//     collectives   per channel one ring connection and, where trees are connected, as much again
//                   for the chain of the tree (groups with NVLink or PCIe neighbours on the node)
//                   + per channel that enters or leaves the node at this rank: network buffers
//                   + NVLS: channels x heads x buffer
//     sends         network send and receive buffers shared by all peers, or, inside a node,
//                   channels x connection for each neighbour
//
// NVIDIA/nccl v2.27: src/transport/p2p.cc, net.cc, nvls.cc; totals in NVIDIA/nccl issues 964, 986,
// 1685. From 2.22 connections are made on first use (`lazy`): only rings are counted then.
#pragma once

#include "sim/network/cost.h"
#include "sim/network/profile.h"

namespace sim::network {

Bytes collective_buffers(const CommunicationProfile& profile, const Situation& situation);
Bytes send_buffers(const CommunicationProfile& profile, const Situation& situation);

}  // namespace sim::network
