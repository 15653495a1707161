// buckets.h — how Megatron-LM lays the parameters of a model chunk out in one contiguous buffer,
// where it closes buckets, and which pieces of parameters a rank owns (DistributedDataParallel,
// ParamAndGradBuffer, DistributedOptimizer).
//
// Parameters are walked from the last to the first. With shards each starts on a multiple of 64
// elements and each bucket ends on a multiple of lcm(ranks, 128). A bucket is closed by the
// parameter that reaches max(40 M, 1 M x D) elements, D the data-parallel degree, unless there is
// but one; a table that the first and the last stage share is a bucket of its own on both, so that
// both cut it into the same shards.
// [Megatron-LM core 0.8 distributed_data_parallel.py, param_and_grad_buffer.py,
// distrib_optimizer.py]
#pragma once

#include <cstdint>
#include <vector>

#include "sim/program/ir/parameter.h"

namespace sim::program {

struct BufferRules {
  std::int64_t ranks = 1;          // that reduce together
  std::int64_t data_parallel = 1;  // D
  bool in_shards = false;          // each rank owns a part of each bucket
  bool one_bucket = false;
  std::int64_t owners = 0;  // > 0: whole parameters are dealt out to so many ranks
};

struct Bucket {
  std::int64_t elements = 0;  // padded
  std::int64_t in_fp8 = 0;    // of them
  int parameters = 0;
};

struct BufferLayout {
  std::vector<Bucket> buckets;        // in order of creation: the last layers first
  std::vector<int> bucket_of;         // of each parameter; -1: frozen
  std::vector<std::int64_t> pieces;   // elements of each piece whose state this rank keeps
  std::int64_t elements = 0;          // padded
  std::vector<std::int64_t> updated;  // with owners: elements of each that has any, the most first
  std::int64_t owned() const;         // elements of all pieces
};

// In shards the pieces are those of the first rank, with owners of the rank that has most: the
// largest parameter goes first, each to the rank that has least
// [InternLM/InternEvo hybrid_zero_optim.py:_partition_param_list].
BufferLayout lay_out(const ParameterList& parameters, const BufferRules& rules);

}  // namespace sim::program
