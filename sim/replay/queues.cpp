#include "sim/replay/queues.h"

#include <array>
#include <cassert>

namespace sim::replay {
namespace {

using mesh::Communicator;
using workload::Stream;

constexpr std::array<QueueRow, workload::stream_count> rows = {{
    {Stream::compute, std::nullopt, Account::other},
    {Stream::cp_compute, std::nullopt, Account::cp_exposed},
    {Stream::unshard, std::nullopt, Account::dp_exposed},
    {Stream::reduce, std::nullopt, Account::dp_exposed},
    {Stream::tp, Communicator::tp, Account::tp_exposed},
    {Stream::cp, Communicator::cp, Account::cp_exposed},
    {Stream::dp, Communicator::dp, Account::dp_exposed},
    {Stream::dp_cp, Communicator::dp_cp, Account::dp_exposed},
    {Stream::pp, Communicator::pp, Account::pp_transfer},
    {Stream::pp_send_forward, Communicator::pp, Account::pp_transfer},
    {Stream::pp_receive_forward, Communicator::pp, Account::pp_transfer},
    {Stream::pp_send_backward, Communicator::pp, Account::pp_transfer},
    {Stream::pp_receive_backward, Communicator::pp, Account::pp_transfer},
    {Stream::pp_send_forward_up, Communicator::pp, Account::pp_transfer},
    {Stream::pp_receive_forward_up, Communicator::pp, Account::pp_transfer},
    {Stream::pp_send_backward_up, Communicator::pp, Account::pp_transfer},
    {Stream::pp_receive_backward_up, Communicator::pp, Account::pp_transfer},
    {Stream::embedding, Communicator::embedding, Account::pp_transfer},
    {Stream::shard, Communicator::shard, Account::dp_exposed},
    {Stream::replicate, Communicator::replicate, Account::dp_exposed},
    {Stream::world, Communicator::world, Account::other},
    {Stream::ep, Communicator::ep, Account::ep_exposed},
    {Stream::etp, Communicator::etp, Account::ep_exposed},
    {Stream::etp_ep, Communicator::etp_ep, Account::ep_exposed},
    {Stream::edp, Communicator::edp, Account::dp_exposed},
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

}  // namespace sim::replay
