// build.h — turns a plan into the device programs of its rank classes.
//
// Ranks issue what Megatron-LM core 0.8-0.9 issues with TransformerEngine 1.x on PyTorch 2.3.
// INVENTORY.md in sim/program lists every tensor with its source.
#pragma once

#include "sim/base/units.h"
#include "sim/program/ir/program.h"
#include "sim/program/plan/valid_plan.h"

namespace sim::program {

// Properties of the GPU and its libraries that decide what is allocated, not how long it takes.
struct Environment {
  Bytes engine_workspace{};  // TransformerEngine's cuBLASLt workspace, once per process
  Bytes cublas_workspace{};  // PyTorch's cuBLAS workspace, per handle and stream
  int sms = 108;             // rows of partial norm gradients
};

// The mesh of a plan's ranks.
mesh::Mesh mesh_of(const Plan& plan, mesh::Alike alike = {});

// `all_ranks`: one class for each rank of the job, instead of one for each pipeline and
// context-parallel rank. `class_of_replica`: see mesh::Alike.
Job build(const ValidPlan& plan, const Environment& environment, bool all_ranks = false,
          const std::vector<int>& class_of_replica = {});

}  // namespace sim::program
