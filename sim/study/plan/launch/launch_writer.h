// launch_writer.h — writes a plan as input of training programs: flags of Megatron-LM, TOML of
// torchtitan, YAML of Megatron-Bridge; in launch_nemo.h a script of NeMo 2; and, in
// launch_configs.h, YAML of NeMo 1 and nanotron, JSON of DeepSpeed for its own optimizer. If the
// order of nodes is stated, it also writes a hostfile of Open MPI.
//
// Invariant: input::load_megatron reads the text, with the model and the cluster, back into the
// same plan, except for the settings in `left`. The writer checks it by reading.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/input/cluster/cluster.h"
#include "sim/program/plan/plan.h"
#include "sim/study/plan/launch/launch_line.h"
#include "sim/study/plan/launch/own_script.h"

namespace sim::planner {

struct LaunchText {
  std::string program;  // "Megatron-LM"
  std::string file;     // "launch.sh": load_megatron recognises the format by this name
  std::string text;     // "": the program cannot run the plan
  std::string left;     // the reason, or settings that the format cannot express
  // The plan that the text gives, if it is another one and possible.
  std::optional<program::Plan> gives = {};
};

// `model` and `cluster` are the names in the user's command. `settings` changed the cluster
// ("cluster.nodes=4"), or describe the network ("architecture.layers=32") if `model` is empty.
// `own`: the user's script; launch.sh is that script with the plan.
std::vector<LaunchText> launches(const program::Plan& plan, const std::string& model,
                                 const std::string& cluster, const input::Machine& machine,
                                 const std::vector<std::string>& settings = {},
                                 Launcher launcher = Launcher::torchrun,
                                 const OwnScript* own = nullptr);

// The programs that start the plan: those that `launches` writes a text for, in its order.
std::vector<std::string> launch_programs(const program::Plan& plan, const std::string& model,
                                         const input::Machine& machine);

}  // namespace sim::planner
