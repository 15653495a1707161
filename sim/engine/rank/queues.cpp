#include "sim/engine/rank/queues.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <set>

namespace sim::engine {

using mesh::Communicator;
using program::Stream;

Communicator communicator_of(Stream queue) {
  assert(row(queue).communicator);
  return *row(queue).communicator;
}

const collective::Codec* codec_of(const collective::Codecs& codecs, Stream queue,
                                  collective::Kind kind) {
  const auto known = [](const std::optional<collective::Codec>& codec) {
    return codec ? &*codec : nullptr;
  };
  switch (row(queue).codecs) {
    case QueueRow::Codecs::tensor:
      return known(codecs.tensor);
    case QueueRow::Codecs::data:
      return known(kind == collective::Kind::all_gather ? codecs.parameters : codecs.data);
    case QueueRow::Codecs::pipeline:
      return known(codecs.pipeline);
    case QueueRow::Codecs::none:
      break;
  }
  return nullptr;
}

namespace {

// The largest number of nodes of any group.
int nodes_of(const network::Groups& groups, const topology::Cluster& cluster) {
  std::size_t most = 1;
  for (const std::vector<int>& ranks : groups.ranks) {
    std::set<int> nodes;
    for (const int rank : ranks)
      nodes.insert(topology::gpu_of_rank(cluster, rank) / cluster.node.gpus);
    most = std::max(most, nodes.size());
  }
  return static_cast<int>(most);
}

}  // namespace

// Each rank sends to the rank with its index in every other node, as in an all-to-all of the
// copies. The forwarding inside a node by NVLink is hidden by the network transfer.
Bytes sent(const program::Transfer& transfer, const network::Groups& groups,
           const topology::Cluster& cluster) {
  const program::Choices& choices = transfer.choices;
  if (choices.of_token == 0 || groups.ranks.empty()) return transfer.bytes;
  const int nodes = nodes_of(groups, cluster);
  const int places = nodes > 1 ? nodes : static_cast<int>(groups.ranks.front().size());
  const double share = std::min(1.0, choices.places(places) / choices.of_token);
  return {std::max<std::int64_t>(1, std::llround(static_cast<double>(transfer.bytes.n) * share))};
}

}  // namespace sim::engine
