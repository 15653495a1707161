// communicators.h — the catalog of communicators. A row gives the axes and the mesh of a
// communicator, and how a line along the axes splits into groups. It also names the axis that is
// charged for waiting times.
//
// A new kind of communication is a new row. Sources of the rows: NVIDIA/Megatron-LM core 0.14,
// megatron/core/parallel_state.py:initialize_model_parallel; PyTorch's device mesh for shards and
// their copies; create_hierarchical_groups for hierarchical context parallelism.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "sim/job/mesh/axes.h"

namespace sim::mesh {

enum class Communicator : std::uint8_t {
  tp,
  cp,
  dp,     // replicas of the same shard of the same part of the sequence
  dp_cp,  // ranks that share gradients and optimizer state
  pp,
  embedding,  // first and last stage of each pipeline (tied embeddings); one rank if pp is 1
  shard,      // ranks that share one copy of the parameters: a part of data x context parallel
  replicate,  // ranks that hold the same shard
  ulysses,    // two-level contexts: the neighbours
  ring,       // ... and the ranks with the same place among their neighbours
  ep,
  etp,
  etp_ep,          // ranks that hold one copy of a layer's experts
  edp,             // ranks that share gradients and optimizer state of an expert
  shard_near,      // neighbours that share a second copy of the parameters in shards
  shard_far,       // ranks with the same place among such neighbours
  tensor_columns,  // grid of tensor-parallel ranks: the ranks of one row
  tensor_rows,     // ... and the ranks of one column
  world,
  count_,
};
constexpr int communicator_count = static_cast<int>(Communicator::count_);

// How a line of ranks along the axes splits into groups.
enum class Part : std::uint8_t {
  whole,
  ends,        // the first and the last
  neighbours,  // consecutive blocks
  alike,       // ranks with the same place in their blocks
};

struct CommunicatorRow {
  Communicator id;
  std::string_view name;
  Fold fold;
  Axes axes;
  Part part = Part::whole;
  std::optional<Axis> account;  // none: waits belong to the job as a whole
};

std::span<const CommunicatorRow> communicators();
const CommunicatorRow& row(Communicator communicator);
inline std::string_view name(Communicator communicator) {
  return row(communicator).name;
}

// Every group of one communicator. REQUIRES: problem(degrees, order) is empty.
Groups groups(Communicator communicator, const Degrees& degrees,
              const Order& order = megatron_order);

// {rank of `from`, rank of `to`} of every pipeline: the pairs that exchange activations.
// `pipelines`: the groups of Communicator::pp. REQUIRES: stages in [0, pp).
Groups stage_pairs(int from, int to, const Groups& pipelines);

}  // namespace sim::mesh
