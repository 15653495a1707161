// launch_writer.h — a plan in the words of the programs that run it: flags of Megatron-LM, the TOML
// of torchtitan, the YAML of Megatron-Bridge, the JSON of DeepSpeed where the optimizer is its own;
// and, where the nodes have an order, the hostfile of Open MPI, which says it.
//
// Invariant: what is written of a plan, read back by input::load_megatron with the model and the
// cluster, gives the plan, but for what `left` says: it is read back to know.
#pragma once

#include <string>
#include <vector>

#include "sim/input/cluster/cluster.h"
#include "sim/program/plan/plan.h"

namespace sim::planner {

struct LaunchText {
  std::string program;  // "Megatron-LM"
  std::string file;     // "launch.sh": what load_megatron tells the format by
  std::string text;     // "": it cannot be said there
  std::string left;     // why not, or what its words cannot say
};

// `model`, `cluster`: the names that the plan was asked for by; `cluster_settings` changed the
// cluster: "cluster.nodes=4".
std::vector<LaunchText> launches(const program::Plan& plan, const std::string& model,
                                 const std::string& cluster, const input::Machine& machine,
                                 const std::vector<std::string>& cluster_settings = {});

}  // namespace sim::planner
