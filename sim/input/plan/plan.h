// plan.h — loads a plan: a file of workloads/, a launch script of Megatron-LM, or settings given on
// the command line, with the model and the cluster it names.
//
// Invariant: a PlanFile that comes back has no problems: program::problems is empty and the world
// fits the cluster.
#pragma once

#include <string>
#include <vector>

#include "sim/base/result.h"
#include "sim/input/cluster/cluster.h"
#include "sim/input/fields/plan_fields.h"
#include "sim/program/plan/plan.h"

namespace sim::input {

struct PlanFile {
  std::string name;
  std::string path;  // "" when everything came from the command line
  program::Plan plan;
  Machine machine;
  std::string framework;           // in residuals of measured runs; "": the plan names none
  std::vector<std::string> notes;  // what a launch script says and the simulator leaves out
};

// `overrides` are "key=value" with a field of plan.proto or a synonym: "tp=4", "mbs=2",
// "tensor-model-parallel-size=4", "architecture.layers=8". They replace what the file says; the
// data-parallel degree follows the world again unless it is given. Settings of the cluster
// (cluster_fields.h: "fabric.oversubscription=4") change the cluster that the plan names. An empty
// path: overrides only.
Result<PlanFile> load_plan(const std::string& path, const std::vector<std::string>& overrides = {});

// What is wrong with a setting of any plan or its cluster: no such key, a value that cannot be
// read, a name of nothing. `beside` is the plan's file. Whether a plan can be so is for load_plan
// to say.
Diagnostics setting_problems(const Setting& setting, const std::string& beside);

// The arguments of a launch script as pasted: line continuations, quotes, NAME=value and $NAME,
// torchrun's --nnodes and --nproc_per_node, the environment variables that matter. What the script
// leaves out has Megatron-LM's default. The cluster (and where the script does not describe it, the
// model or its vocabulary) comes from the overrides.
Result<PlanFile> load_megatron(const std::string& path,
                               const std::vector<std::string>& overrides = {});

// The same of a text at hand; its format is told by the name of `path`, which need not exist.
Result<PlanFile> read_megatron(const std::string& text, const std::string& path,
                               const std::vector<std::string>& overrides);

}  // namespace sim::input
