// plan.h — loads a plan from a file, a launch script or the command line, with its model and
// cluster.
//
// Every command that takes a plan calls load_plan or load_megatron. The plan of a PlanFile breaks
// no rule, and the cluster has its GPUs.
#pragma once

#include <string>
#include <vector>

#include "sim/base/result.h"
#include "sim/input/cluster/cluster.h"
#include "sim/input/fields/plan_fields.h"
#include "sim/input/frameworks/framework.h"
#include "sim/program/plan/valid_plan.h"

namespace sim::input {

// A plan, and the other statements of its file. `AnyPlan`: program::ValidPlan, or program::Plan.
template <class AnyPlan>
struct LoadedPlan {
  std::string name;
  std::string path;  // "": everything is from the command line
  AnyPlan plan;
  Machine machine;
  std::string framework;           // its family in residuals; "": none named
  std::vector<std::string> notes;  // launch settings that are not simulated
  std::vector<Assumption> assumptions;  // of the framework, about fields that the plan leaves out
  // Other decisions of the framework: "bf16 (megatron-bridge)", "attention cudnn".
  std::vector<std::string> assumed;
  // What the file and the command line state, as settings of a plan ("tp=4"); not the cluster's.
  std::vector<std::string> stated;
};
using PlanFile = LoadedPlan<program::ValidPlan>;

// Loads a plan file. An empty path: overrides only. `overrides` are "key=value" and replace the
// values of the file. A key is a field of plan.proto or a synonym: "tp=4", "mbs=2",
// "tensor-model-parallel-size=4", "architecture.layers=8".
//
// The data-parallel degree is derived from the number of GPUs, unless it is given. Keys of the
// cluster (cluster_fields.h: "fabric.oversubscription=4") change the cluster that the plan names.
Result<PlanFile> load_plan(const std::string& path, const std::vector<std::string>& overrides = {});

// The problems of one setting by itself: unknown key, unreadable value, unknown name. `beside`:
// path of the plan file. Rules between settings are checked by load_plan.
Diagnostics setting_problems(const Setting& setting, const std::string& beside);

// Loads a launch script or launch configuration (launch/launch.h). Line continuations, quotes,
// NAME=value and $NAME are expanded as in a shell. The launcher and its environment variables give
// the number of GPUs. Flags that the script leaves out take Megatron-LM's defaults.
//
// The overrides name the cluster. They also give the model or its vocabulary if the script does not
// describe it.
Result<PlanFile> load_megatron(const std::string& path,
                               const std::vector<std::string>& overrides = {});

// Reads a launch text from memory. The suffix of `path` selects the format; the file need not
// exist.
Result<PlanFile> read_megatron(const std::string& text, const std::string& path,
                               const std::vector<std::string>& overrides);

}  // namespace sim::input
