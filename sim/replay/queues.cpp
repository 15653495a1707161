#include "sim/replay/queues.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <set>

namespace sim::replay {
namespace {

using mesh::Communicator;
using workload::Stream;

using enum Resource;

constexpr std::array<QueueRow, workload::stream_count> rows = {{
    {Stream::compute, sms, std::nullopt, Account::other, true},
    {Stream::cp_compute, sms, std::nullopt, Account::cp_exposed, true},
    {Stream::unshard, sms, std::nullopt, Account::dp_exposed, true},
    {Stream::reduce, sms, std::nullopt, Account::dp_exposed, true},
    {Stream::tp, network, Communicator::tp, Account::tp_exposed, false},
    {Stream::cp, network, Communicator::cp, Account::cp_exposed, false},
    {Stream::dp, network, Communicator::dp, Account::dp_exposed, false},
    {Stream::dp_cp, network, Communicator::dp_cp, Account::dp_exposed, false},
    {Stream::pp, network, Communicator::pp, Account::pp_transfer, false},
    {Stream::pp_send_forward, network, Communicator::pp, Account::pp_transfer, false},
    {Stream::pp_receive_forward, network, Communicator::pp, Account::pp_transfer, false},
    {Stream::pp_send_backward, network, Communicator::pp, Account::pp_transfer, false},
    {Stream::pp_receive_backward, network, Communicator::pp, Account::pp_transfer, false},
    {Stream::pp_send_forward_up, network, Communicator::pp, Account::pp_transfer, false},
    {Stream::pp_receive_forward_up, network, Communicator::pp, Account::pp_transfer, false},
    {Stream::pp_send_backward_up, network, Communicator::pp, Account::pp_transfer, false},
    {Stream::pp_receive_backward_up, network, Communicator::pp, Account::pp_transfer, false},
    {Stream::embedding, network, Communicator::embedding, Account::pp_transfer, false},
    {Stream::shard, network, Communicator::shard, Account::dp_exposed, false},
    {Stream::replicate, network, Communicator::replicate, Account::dp_exposed, false},
    {Stream::world, network, Communicator::world, Account::other, false},
    {Stream::pcie_up, pcie_up, std::nullopt, Account::host, true},
    {Stream::pcie_down, pcie_down, std::nullopt, Account::host, false},
    {Stream::cpu, cpu_cores, std::nullopt, Account::host, false},
    {Stream::ep, network, Communicator::ep, Account::ep_exposed, false},
    {Stream::etp, network, Communicator::etp, Account::ep_exposed, false},
    {Stream::etp_ep, network, Communicator::etp_ep, Account::ep_exposed, false},
    {Stream::edp, network, Communicator::edp, Account::dp_exposed, false},
    {Stream::cp_exchange, network, Communicator::ulysses, Account::cp_exposed, false},
    {Stream::cp_ring, network, Communicator::ring, Account::cp_exposed, false},
    {Stream::shard_near, network, Communicator::shard_near, Account::dp_exposed, false},
    {Stream::shard_far, network, Communicator::shard_far, Account::dp_exposed, false},
    {Stream::vocabulary, network, Communicator::pp, Account::pp_transfer, false},
    {Stream::side, sms, std::nullopt, Account::ep_exposed, true},
    {Stream::tensor_columns, network, Communicator::tensor_columns, Account::tp_exposed, false},
    {Stream::tensor_rows, network, Communicator::tensor_rows, Account::tp_exposed, false},
}};

}  // namespace

std::span<const QueueRow> queues() {
  return rows;
}

const QueueRow& row(Stream queue) {
  const QueueRow& found = rows[static_cast<std::size_t>(queue)];
  assert(found.queue == queue);
  return found;
}

Communicator communicator_of(Stream queue) {
  assert(row(queue).communicator);
  return *row(queue).communicator;
}

const collective::Codec* codec_of(const collective::Codecs& codecs, Stream queue,
                                  collective::Kind kind) {
  const auto known = [](const std::optional<collective::Codec>& codec) {
    return codec ? &*codec : nullptr;
  };
  switch (queue) {
    case Stream::tp:
    case Stream::tensor_columns:
    case Stream::tensor_rows:
    case Stream::etp:
      return known(codecs.tensor);
    case Stream::dp_cp:
    case Stream::edp:
    case Stream::shard:
    case Stream::shard_near:
    case Stream::shard_far:
    case Stream::replicate:
      return known(kind == collective::Kind::all_gather ? codecs.parameters : codecs.data);
    case Stream::pp:
    case Stream::pp_send_forward:
    case Stream::pp_receive_forward:
    case Stream::pp_send_backward:
    case Stream::pp_receive_backward:
    case Stream::pp_send_forward_up:
    case Stream::pp_receive_forward_up:
    case Stream::pp_send_backward_up:
    case Stream::pp_receive_backward_up:
      return known(codecs.pipeline);
    default:
      return nullptr;
  }
}

namespace {

// The most nodes that one of the groups is on.
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

// Each rank sends to the rank of its place in every other node, over the network as it would in an
// all-to-all of the copies; what that one passes on by NVLink is hidden behind the network.
Bytes sent(const workload::Transfer& transfer, const network::Groups& groups,
           const topology::Cluster& cluster) {
  const workload::Choices& choices = transfer.choices;
  if (choices.of_token == 0 || groups.ranks.empty()) return transfer.bytes;
  const int nodes = nodes_of(groups, cluster);
  const int places = nodes > 1 ? nodes : static_cast<int>(groups.ranks.front().size());
  const double share = std::min(1.0, choices.places(places) / choices.of_token);
  return {std::max<std::int64_t>(1, std::llround(static_cast<double>(transfer.bytes.n) * share))};
}

}  // namespace sim::replay
