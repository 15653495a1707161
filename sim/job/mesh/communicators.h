// communicators.h — the catalog of communicators: along which axes of which count they run, which
// part of such a line is one group, and whose time it is when somebody waits for them.
//
// A new kind of communication is a row here. Source of the rows: NVIDIA/Megatron-LM core 0.14,
// megatron/core/parallel_state.py:initialize_model_parallel; PyTorch's device mesh for shards and
// their copies; hierarchical context parallelism as create_hierarchical_groups cuts it.
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
  dp,     // replicas of the same shard of the same sequence part
  dp_cp,  // who shares gradients and optimizer state
  pp,
  embedding,  // first and last stage of each pipeline (tied embeddings); one rank where pp is 1
  shard,      // ranks that share one copy of the parameters: a part of data x context parallel
  replicate,  // ranks that hold the same shard
  ulysses,    // of a context of two levels, the neighbours
  ring,       // ... and those that stand alike among their neighbours
  ep,
  etp,
  etp_ep,          // who holds one copy of a layer's experts
  edp,             // who shares gradients and optimizer state of an expert
  shard_near,      // neighbours that hold a second copy of the parameters, in shards of its own
  shard_far,       // those that stand alike among such neighbours
  tensor_columns,  // of tensor-parallel ranks in rows and columns, those of one row
  tensor_rows,     // ... and those of one column
  world,
  count_,
};
constexpr int communicator_count = static_cast<int>(Communicator::count_);

// Which ranks of a line along the axes form a group.
enum class Part : std::uint8_t {
  whole,
  ends,        // the first and the last
  neighbours,  // blocks that follow each other
  alike,       // those with the same place in their blocks
};

struct CommunicatorRow {
  Communicator id;
  std::string_view name;
  Fold fold;
  Axes axes;
  Part part = Part::whole;
  std::optional<Axis> account;  // nobody's: it belongs to the job as a whole
};

std::span<const CommunicatorRow> communicators();
const CommunicatorRow& row(Communicator communicator);
inline std::string_view name(Communicator communicator) {
  return row(communicator).name;
}

// Every group of one communicator. REQUIRES: problem(degrees, order) is empty.
Groups groups(Communicator communicator, const Degrees& degrees,
              const Order& order = megatron_order);

// {rank of `from`, rank of `to`} of every pipeline, which are the groups of Communicator::pp: the
// pairs that exchange activations. REQUIRES: stages in [0, pp).
Groups stage_pairs(int from, int to, const Groups& pipelines);

}  // namespace sim::mesh
