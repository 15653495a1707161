// launch_megatron.h — a plan in the words of Megatron-LM, which Megatron-Bridge and NeMo run too:
// its flags, names of modules, layouts and methods.
//
// The writers of launch files call it. Every field with a flag in the table of fields has its flag
// here, so a field that one writer can express is expressed by all.
//
// Source of the flags: [NVIDIA/Megatron-LM megatron/training/arguments.py].
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/program/plan/plan.h"
#include "sim/study/plan/launch/limits.h"

namespace sim::planner {

// Reason why Megatron-LM cannot run the plan, or we cannot write it; "" if neither. With chunks
// Megatron-LM interleaves. `program`: what reads the configuration.
std::string megatron_left(const program::Plan& plan, Program program = Program::megatron_lm);

struct MegatronFlags {
  std::vector<std::string> flags;  // "--tensor-model-parallel-size 4"
  std::string left;                // values of the model's file that no flag expresses; "": none
};

// The flags of the plan and its network, without those that have no effect. `model`: a name or a
// path.
MegatronFlags megatron_flags(const program::Plan& plan, const std::string& model);

// Names of recomputed modules.
std::string modules_of(const program::RecomputeModules& modules, const char* separator);

// TransformerEngine's name of the attention backend; "" for backends of other programs.
std::string backend_of(const program::Plan& plan);

// Context parallelism in Megatron-LM's terms, if not its default: the method and the sizes of two
// levels.
struct ContextWords {
  std::string_view type;
  std::vector<int> sizes;
};
ContextWords context_of(const program::Plan& plan);

// Whether operands are rounded in code (fake quantization).
bool rounds(const program::Plan& plan);

// The layout of layers in stages, if no other flag of Megatron-LM expresses it; otherwise "".
std::string layout_of(const program::Plan& plan);

}  // namespace sim::planner
