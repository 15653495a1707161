// queues.h — the queues of a device: whose communicator a queue carries, what it occupies while it
// works, and whose time it is when somebody waits for it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "sim/mesh/communicators.h"
#include "sim/network/network.h"
#include "sim/replay/report.h"
#include "sim/workload/program.h"

namespace sim::replay {

// What work occupies. On all but the network one task runs at a time (but for small kernels, which
// find room beside others); the network's sharing is in the times of its transfers.
enum class Resource : std::uint8_t { sms, network, pcie_up, pcie_down, cpu_cores, count_ };
constexpr std::size_t resource_count = static_cast<std::size_t>(Resource::count_);

struct QueueRow {
  workload::Stream queue;
  Resource resource;
  std::optional<mesh::Communicator> communicator;  // on the network
  Account account;
  bool owns_memory;  // the caching allocator has a pool of its blocks
};

std::span<const QueueRow> queues();
const QueueRow& row(workload::Stream queue);

inline Resource resource_of(workload::Stream queue) {
  return row(queue).resource;
}
inline Account account_of(workload::Stream queue) {
  return row(queue).account;
}
// Collectives for which stages come together at different times of a schedule.
constexpr bool waits_for_stages(workload::Stream queue) {
  return queue == workload::Stream::world || queue == workload::Stream::embedding ||
         queue == workload::Stream::vocabulary;
}
// REQUIRES: the queue carries one.
mesh::Communicator communicator_of(workload::Stream queue);

// Of the messages of a communicator; null: they go as they are.
const collective::Codec* codec_of(const collective::Codecs& codecs, workload::Stream queue,
                                  collective::Kind kind);

// What a transfer asks of the network: its bytes; of an all-to-all with choices those that the
// copies to nodes are, or inside one node to ranks.
Bytes sent(const workload::Transfer& transfer, const network::Groups& groups,
           const topology::Cluster& cluster);

}  // namespace sim::replay
