// queues.h — a table of the queues of a device: resource, communicator and account of each stream.
//
// Engines and the calibration of traces read it. Each stream of a program is one queue. The table
// tells which resource its work occupies, which communicator it carries, and which account gets the
// time that others wait for it. The table is constant.
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

// The resource that work occupies. All resources except the network run one task at a time; small
// kernels (flag program::beside) are an exception. Transfers share the network: their durations
// include that.
enum class Resource : std::uint8_t { sms, network, pcie_up, pcie_down, cpu_cores, count_ };
constexpr std::size_t resource_count = static_cast<std::size_t>(Resource::count_);

struct QueueRow {
  program::Stream queue;
  Resource resource;
  std::optional<mesh::Communicator> communicator;  // of network streams
  Account account;                                 // of waits for this queue
  bool owns_memory;                                // tensors can be allocated on this stream
  // The codecs of its messages (collective/codec.h). data: those of gradients, and of gathered
  // parameters.
  enum class Codecs : std::uint8_t { none, tensor, data, pipeline } codecs = Codecs::none;
  // Its collectives join pipeline stages, which arrive at different times of a schedule.
  bool joins_stages = false;
};

inline constexpr auto queues = [] {
  using mesh::Communicator;
  using program::Stream;
  using enum Resource;
  using Codecs = QueueRow::Codecs;
  return std::array<QueueRow, program::stream_count>{{
      {Stream::compute, sms, std::nullopt, Account::other, true},
      {Stream::cp_compute, sms, std::nullopt, Account::cp_exposed, true},
      {Stream::unshard, sms, std::nullopt, Account::dp_exposed, true},
      {Stream::reduce, sms, std::nullopt, Account::dp_exposed, true},
      {Stream::tp, network, Communicator::tp, Account::tp_exposed, false, Codecs::tensor},
      {Stream::cp, network, Communicator::cp, Account::cp_exposed, false},
      {Stream::dp, network, Communicator::dp, Account::dp_exposed, false},
      {Stream::dp_cp, network, Communicator::dp_cp, Account::dp_exposed, false, Codecs::data},
      {Stream::pp, network, Communicator::pp, Account::pp_transfer, false, Codecs::pipeline},
      {Stream::pp_send_forward, network, Communicator::pp, Account::pp_transfer, false,
       Codecs::pipeline},
      {Stream::pp_receive_forward, network, Communicator::pp, Account::pp_transfer, false,
       Codecs::pipeline},
      {Stream::pp_send_backward, network, Communicator::pp, Account::pp_transfer, false,
       Codecs::pipeline},
      {Stream::pp_receive_backward, network, Communicator::pp, Account::pp_transfer, false,
       Codecs::pipeline},
      {Stream::pp_send_forward_up, network, Communicator::pp, Account::pp_transfer, false,
       Codecs::pipeline},
      {Stream::pp_receive_forward_up, network, Communicator::pp, Account::pp_transfer, false,
       Codecs::pipeline},
      {Stream::pp_send_backward_up, network, Communicator::pp, Account::pp_transfer, false,
       Codecs::pipeline},
      {Stream::pp_receive_backward_up, network, Communicator::pp, Account::pp_transfer, false,
       Codecs::pipeline},
      {Stream::embedding, network, Communicator::embedding, Account::pp_transfer, false,
       Codecs::none, true},
      {Stream::shard, network, Communicator::shard, Account::dp_exposed, false, Codecs::data},
      {Stream::replicate, network, Communicator::replicate, Account::dp_exposed, false,
       Codecs::data},
      {Stream::world, network, Communicator::world, Account::other, false, Codecs::none, true},
      {Stream::pcie_up, pcie_up, std::nullopt, Account::host, true},
      {Stream::pcie_down, pcie_down, std::nullopt, Account::host, false},
      {Stream::cpu, cpu_cores, std::nullopt, Account::host, false},
      {Stream::ep, network, Communicator::ep, Account::ep_exposed, false},
      {Stream::etp, network, Communicator::etp, Account::ep_exposed, false, Codecs::tensor},
      {Stream::etp_ep, network, Communicator::etp_ep, Account::ep_exposed, false},
      {Stream::edp, network, Communicator::edp, Account::dp_exposed, false, Codecs::data},
      {Stream::cp_exchange, network, Communicator::ulysses, Account::cp_exposed, false},
      {Stream::cp_ring, network, Communicator::ring, Account::cp_exposed, false},
      {Stream::shard_near, network, Communicator::shard_near, Account::dp_exposed, false,
       Codecs::data},
      {Stream::shard_far, network, Communicator::shard_far, Account::dp_exposed, false,
       Codecs::data},
      {Stream::vocabulary, network, Communicator::pp, Account::pp_transfer, false, Codecs::none,
       true},
      {Stream::side, sms, std::nullopt, Account::ep_exposed, true},
      {Stream::tensor_columns, network, Communicator::tensor_columns, Account::tp_exposed, false,
       Codecs::tensor},
      {Stream::tensor_rows, network, Communicator::tensor_rows, Account::tp_exposed, false,
       Codecs::tensor},
  }};
}();
// The row of a stream.
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
// Whether the collectives of a queue join pipeline stages, which arrive at different times of a
// schedule.
constexpr bool waits_for_stages(program::Stream queue) {
  return row(queue).joins_stages;
}
// The account of the wait for the last rank of a collective on a queue.
constexpr Account waiting_account(program::Stream queue) {
  return waits_for_stages(queue) ? Account::pp_fill_drain : Account::rank_wait;
}
// The communicator of a queue. REQUIRES: the queue carries one.
mesh::Communicator communicator_of(program::Stream queue);

// The codec (compression) of a queue's messages; null: messages are sent uncompressed.
const collective::Codec* codec_of(const collective::Codecs& codecs, program::Stream queue,
                                  collective::Kind kind);

// Bytes that a transfer sends over the network. An all-to-all of routed tokens sends one copy of a
// token to each node with one of its experts; inside one node, to each rank with one.
Bytes sent(const program::Transfer& transfer, const network::Groups& groups,
           const topology::Cluster& cluster);

}  // namespace sim::engine
