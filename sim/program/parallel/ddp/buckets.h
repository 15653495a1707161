// buckets.h — Megatron-LM's contiguous buffer of a model chunk: the order of parameters, the ends
// of buckets, and the shard of each rank (DistributedDataParallel, ParamAndGradBuffer,
// DistributedOptimizer).
//
// Parameters are laid out from the last to the first. In a sharded buffer each parameter starts on
// a multiple of 64 elements, and each bucket ends on a multiple of lcm(ranks, 128). A bucket closes
// at the parameter that reaches max(40 M, 1 M x D) elements; D is the data-parallel degree.
// `one_bucket` never closes one early. A table that the first and the last stage share is a bucket
// of its own on both stages. So both stages shard it in the same way.
//
// [Megatron-LM core 0.8 distributed_data_parallel.py, param_and_grad_buffer.py,
// distrib_optimizer.py]
#pragma once

#include <cstdint>
#include <vector>

#include "sim/program/ir/parameter.h"

namespace sim::program {

struct BufferRules {
  std::int64_t ranks = 1;          // ranks that reduce together
  std::int64_t data_parallel = 1;  // D
  bool in_shards = false;          // each rank owns a shard of each bucket
  bool one_bucket = false;
  std::int64_t owners = 0;  // > 0: whole parameters are assigned to this many ranks
};

struct Bucket {
  std::int64_t elements = 0;  // padded
  std::int64_t in_fp8 = 0;    // elements held in fp8
  int parameters = 0;
};

struct BufferLayout {
  std::vector<Bucket> buckets;  // in order of creation: the last layers first
  std::vector<int> bucket_of;   // by parameter; -1: frozen
  // Elements of each parameter piece whose optimizer state this rank keeps.
  std::vector<std::int64_t> pieces;
  std::int64_t elements = 0;          // padded
  std::vector<std::int64_t> updated;  // with owners: elements of each owner, the most first
  std::int64_t owned() const;         // sum of the pieces
};

// The pieces are those of the first rank; with owners, those of the rank with the most elements.
// Owners are assigned greedily: the largest parameter first, each to the rank with the fewest
// elements [InternLM/InternEvo hybrid_zero_optim.py:_partition_param_list].
BufferLayout lay_out(const ParameterList& parameters, const BufferRules& rules);

}  // namespace sim::program
