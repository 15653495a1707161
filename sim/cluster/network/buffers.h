// buffers.h — device memory of a communicator outside PyTorch's pools, per rank.
//
//     collectives   per channel one ring connection; with trees, the same again for the chain of
//                   the tree (groups with NVLink or PCIe neighbours on the node)
//                   + per channel that enters or leaves the node at this rank: network buffers
//                   + NVLS: channels x heads x buffer
//     sends         network send and receive buffers shared by all peers, or, inside a node,
//                   channels x connection for each neighbour: connections of index 1, which share
//                   nothing with those of the rings (src/enqueue.cc:ncclSend -> addP2pToPlan,
//                   src/transport.cc:ncclTransportP2pSetup with connIndex 1)
//
// Before 2.22 every communicator connects its rings and trees at its creation
// (src/init.cc:initTransportsRank), even one that only sends and receives.
//
// NVIDIA/nccl v2.27: src/transport/p2p.cc, net.cc, nvls.cc; totals in NVIDIA/nccl issues 964, 986,
// 1685. From 2.22 connections are made on first use (`lazy`): then only rings are counted.
#pragma once

#include "sim/cluster/network/cost.h"
#include "sim/cluster/network/profile.h"

namespace sim::network {

Bytes collective_buffers(const CommunicationProfile& profile, const Situation& situation);
Bytes send_buffers(const CommunicationProfile& profile, const Situation& situation);
// All buffers of a communicator that runs collectives, sends, or both.
Bytes communicator_buffers(const CommunicationProfile& profile, const Situation& situation,
                           bool collectives, bool sends);

}  // namespace sim::network
