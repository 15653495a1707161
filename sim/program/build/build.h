// build.h — turns a plan into the device programs of its rank classes.
//
// A plan without a framework gets the work of Megatron-LM core 0.8-0.9, TransformerEngine 1.x and
// PyTorch 2.3. INVENTORY.md in sim/program lists the tensors of all frameworks with their sources.
#pragma once

#include "sim/program/ir/environment.h"
#include "sim/program/ir/program.h"
#include "sim/program/plan/valid_plan.h"

namespace sim::program {

// The mesh of a plan's ranks.
mesh::Mesh mesh_of(const Plan& plan, mesh::Alike alike = {});

// `all_ranks`: one class for each rank of the job, instead of one for each pipeline and
// context-parallel rank. `class_of_replica`: see mesh::Alike.
Job build(const ValidPlan& plan, const Environment& environment, bool all_ranks = false,
          const std::vector<int>& class_of_replica = {});

}  // namespace sim::program
