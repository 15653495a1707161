// launch_nemo.h — writes a plan as a Python script that trains with NeMo 2.
//
// `launches` (launch_writer.h) calls it, reads the script back and adds what it cannot express. The
// arguments are Megatron-Core's: each flag of Megatron-LM has its place in one of the objects of
// NeMo 2, or the plan is not written.
#pragma once

#include <string>

#include "sim/study/plan/launch/launch_line.h"
#include "sim/study/plan/launch/launch_writer.h"

namespace sim::planner {

// `model`: a name or a path. Source of the arguments: [NVIDIA/NeMo v2.4.0 nemo/lightning,
// nemo/collections/llm; NVIDIA/Megatron-LM 03f77931, which it pins].
LaunchText nemo_script(const program::Plan& plan, const std::string& model,
                       const LaunchNodes& nodes);

}  // namespace sim::planner
