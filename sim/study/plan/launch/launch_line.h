// launch_line.h — the shell around a training program: its environment, and what starts its
// processes on each node.
//
// The writers of launch files call it: launch_writer.cpp for a script, the others for the lines at
// the head of a configuration, which are comments there.
//
// Source of the arguments: [pytorch/pytorch torch/distributed/run.py], [SchedMD/slurm sbatch].
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sim/program/plan/plan.h"

namespace sim::planner {

// How the processes start: by hand, with torchrun on each node, or as a batch job.
enum class Launcher : std::uint8_t { torchrun, slurm };

struct LaunchNodes {
  std::string job;  // name of a batch job
  int nodes = 1;
  int per_node = 1;  // GPUs
  int cores = 0;     // CPU cores of a node; 0: unknown
  Launcher launcher = Launcher::torchrun;
};

// `model`: a name, a path, or "" for a network without a name.
LaunchNodes launch_nodes(const program::Plan& plan, const std::string& model, int gpus_per_node,
                         Launcher launcher);

// The environment of the training processes: names and values.
using Environment = std::vector<std::pair<std::string, std::string>>;
Environment environment_of(const program::Plan& plan);

// A shell script that starts `program` on all nodes; its arguments follow. `note`: a comment above.
std::string shell_script(const program::Plan& plan, const LaunchNodes& nodes,
                         const std::string& note, const std::string& program);
std::string shell_script(const Environment& environment, const LaunchNodes& nodes,
                         const std::string& note, const std::string& program);

// The environment and the command that starts `program`, as comments of a configuration. A program
// that sets its environment itself has no lines for it.
std::string environment_comment(const program::Plan& plan);
std::string command_comment(const LaunchNodes& nodes, const std::string& program);

}  // namespace sim::planner
