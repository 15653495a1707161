#include "sim/cluster/network/buffers.h"

#include <algorithm>

namespace sim::network {

Bytes collective_buffers(const CommunicationProfile& profile, const Situation& s) {
  const CommunicatorBuffers& b = profile.buffers;
  if (s.shape.ranks == 1) return {};
  const int channels = s.graph.launched;
  Bytes sum = b.per_communicator;
  if (s.shape.locals > 1) {
    sum += channels * b.ring_channel;
    if (!b.lazy) sum += channels * b.tree_channel;
  }
  if (s.shape.nodes > 1) {
    // Every channel enters the node at one rank and leaves it at one rank. Channels are distributed
    // evenly.
    const int ends = (2 * channels + s.shape.locals - 1) / s.shape.locals;
    sum += ends * b.network_channel;
  }
  if (!b.lazy && has_nvls(profile.nccl, s)) {
    sum += (profile.nccl.nvls_channels * s.shape.locals) * b.nvls_head_channel;
  }
  return sum;
}

Bytes send_buffers(const CommunicationProfile& profile, const Situation& s) {
  const CommunicatorBuffers& b = profile.buffers;
  if (s.shape.ranks == 1) return {};
  if (s.shape.nodes > 1) return b.send_network;
  const int neighbours = std::min(2, s.shape.ranks - 1);
  return (neighbours * profile.nccl.send_channels_nvlink) * b.send_channel;
}

Bytes communicator_buffers(const CommunicationProfile& profile, const Situation& s,
                           bool collectives, bool sends) {
  Bytes sum{};
  if (s.shape.ranks == 1) return sum;
  if (collectives || !profile.buffers.lazy) {
    sum += collective_buffers(profile, s);
  } else {
    sum += profile.buffers.per_communicator;
  }
  if (sends) sum += send_buffers(profile, s);
  return sum;
}

}  // namespace sim::network
