// queues.h — the queues of a device: whose communicator a queue carries, what it occupies while it
// works, and whose time it is when somebody waits for it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "sim/cluster/network/network.h"
#include "sim/engine/report.h"
#include "sim/job/mesh/communicators.h"
#include "sim/program/ir/program.h"

namespace sim::engine {

// What work occupies. On all but the network one task runs at a time (but for small kernels, which
// find room beside others); the network's sharing is in the times of its transfers.
enum class Resource : std::uint8_t { sms, network, pcie_up, pcie_down, cpu_cores, count_ };
constexpr std::size_t resource_count = static_cast<std::size_t>(Resource::count_);

struct QueueRow {
  program::Stream queue;
  Resource resource;
  std::optional<mesh::Communicator> communicator;  // on the network
  Account account;
  bool owns_memory;  // the caching allocator has a pool of its blocks
};

inline constexpr auto queues = [] {
  using mesh::Communicator;
  using program::Stream;
  using enum Resource;
  return std::array<QueueRow, program::stream_count>{{
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
}();
constexpr const QueueRow& row(program::Stream queue) {
  return queues[static_cast<std::size_t>(queue)];
}
static_assert(std::ranges::all_of(queues, [](const QueueRow& r) { return &row(r.queue) == &r; }));

inline Resource resource_of(program::Stream queue) {
  return row(queue).resource;
}
inline Account account_of(program::Stream queue) {
  return row(queue).account;
}
// Collectives for which stages come together at different times of a schedule.
constexpr bool waits_for_stages(program::Stream queue) {
  return queue == program::Stream::world || queue == program::Stream::embedding ||
         queue == program::Stream::vocabulary;
}
// REQUIRES: the queue carries one.
mesh::Communicator communicator_of(program::Stream queue);

// Of the messages of a communicator; null: they go as they are.
const collective::Codec* codec_of(const collective::Codecs& codecs, program::Stream queue,
                                  collective::Kind kind);

// What a transfer asks of the network: its bytes; of an all-to-all with choices those that the
// copies to nodes are, or inside one node to ranks.
Bytes sent(const program::Transfer& transfer, const network::Groups& groups,
           const topology::Cluster& cluster);

}  // namespace sim::engine
