// build.h — a plan becomes the device programs of its rank classes.
//
// What a rank issues follows Megatron-LM core 0.8-0.9 with TransformerEngine 1.x on PyTorch 2.3;
// every tensor with its source stands in INVENTORY.md beside this file.
#pragma once

#include "sim/base/units.h"
#include "sim/program/ir/program.h"
#include "sim/program/plan/valid_plan.h"

namespace sim::program {

// Facts about the GPU and its libraries that change what is allocated (not how long it takes).
struct Environment {
  Bytes engine_workspace{};  // TransformerEngine's cuBLASLt workspace, once per process
  Bytes cublas_workspace{};  // PyTorch's, per handle and stream
  int sms = 108;             // rows of partial norm gradients
};

// The ranks of a plan.
mesh::Mesh mesh_of(const Plan& plan, mesh::Alike alike = {});

// `all_ranks`: a class per rank of the job instead of one per pipeline and context-parallel rank.
// `class_of_replica`: see mesh::Alike.
Job build(const ValidPlan& valid, const Environment& environment, bool all_ranks = false,
          const std::vector<int>& class_of_replica = {});

}  // namespace sim::program
