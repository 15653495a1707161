// resources.h — tasks on the queues of one rank that share what its node has: who waits for whom.
//
// A task runs on one queue, in the order of the list; it may wait for earlier tasks; it may also
// need the CPUs' memory, which one task after the other draws on for a part of its length. So two
// copies and an update that overlap take as long as the slowest of: each queue's own work, and what
// all of them ask of the memory together.
//
// Invariants: tasks of a queue, and their turns at the memory, keep the order of the list; no task
// starts before those it waits for have ended; the end of all is at least the sum of each queue and
// the sum of all turns at the memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/core/units.h"

namespace sim::offload {

enum class Queue : std::uint8_t {
  cpu,        // the cores that a rank's process has, and its thread that issues
  gpu,        // SMs
  pcie_up,    // to the GPU
  pcie_down,  // to the CPU
  count_,
};
constexpr std::size_t queue_count = static_cast<std::size_t>(Queue::count_);
std::string_view name(Queue queue);

struct Task {
  Queue queue = Queue::cpu;
  std::string_view label;          // "update", "state up"
  Duration length{};               // on its queue
  Duration memory{};               // its turn at the CPUs' memory, from its start on; 0: none
  std::vector<std::size_t> after;  // earlier tasks of the list
};

struct Timeline {
  std::vector<Time> start, end;  // of each task
  Time last{};                   // when all have ended
  std::array<Duration, queue_count> busy{};
  Duration memory{};
};

Timeline run(const std::vector<Task>& tasks);

}  // namespace sim::offload
