// queues.h — the queues of a device: whose communicator a queue carries, what it occupies while it
// works, and whose time it is when somebody waits for it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "sim/mesh/communicators.h"
#include "sim/replay/report.h"
#include "sim/workload/program.h"

namespace sim::replay {

struct QueueRow {
  workload::Stream queue;
  std::optional<mesh::Communicator> communicator;  // none: it computes
  Account account;
};

std::span<const QueueRow> queues();
const QueueRow& row(workload::Stream queue);

inline Account account_of(workload::Stream queue) {
  return row(queue).account;
}
// REQUIRES: the queue carries one.
mesh::Communicator communicator_of(workload::Stream queue);

}  // namespace sim::replay
