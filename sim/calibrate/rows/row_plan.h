// row_plan.h — turns a row of a table of measured runs into a plan file, or into the reason why it
// cannot.
//
// validate calls plan_of() once per row. The columns become settings of a plan file, and that file
// is loaded as any other: `rehearse run` of it gives the row's prediction. Defaults of the
// framework (workloads/frameworks) fill the fields that the row leaves out. Every value that the
// row does not state is listed in `assumptions`.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/input/cluster/cluster.h"
#include "sim/model/flops.h"
#include "sim/program/plan/plan.h"

namespace sim::calibrate {

using Row = std::map<std::string, std::string, std::less<>>;  // column -> text

// Text of a cell; "" if the column is absent or blank.
const std::string& cell(const Row& row, std::string_view column);

// The rank that the row's memory figures belong to: the largest of all, the first or the last.
enum class MemoryRank { largest, first, last };

struct RowPlan {
  std::string unsupported;  // reason why the row cannot be represented; "": it can
  std::string file;         // text of the plan file
  program::Plan plan;
  input::Machine machine;
  std::string family;                                 // of the framework; groups residuals
  const model::FlopConvention* convention = nullptr;  // of tflops_gpu
  MemoryRank memory_rank = MemoryRank::largest;
  int memory_stage = -1;      // stage of the rank with the stated memory; -1: not stated
  int memory_cp_rank = -1;    // its context-parallel rank; -1: not stated
  bool memory_only = false;   // times are not compared: no measured efficiencies exist for the GPU
  bool assumes_gpus = false;  // no published source gives the number of GPUs
  bool assumes_recompute = false;  // none is assumed, since the row does not state any
  std::vector<std::string> said;   // fields of the plan that the row states, or that follow from it
  std::vector<std::string> assumptions;
};

// `machine`: in place of the one that the row names; nullptr: the row's.
RowPlan plan_of(const Row& row, const input::Machine* machine = nullptr);

// The cluster that matches the row's machine; nullptr with the reason if none does.
struct ClusterChoice {
  const input::Machine* machine = nullptr;
  std::string problem;
  bool memory_only = false;
  int gpus_per_node = 0;  // 0: the row's
  std::string file = {};  // of a cluster that is not one of ours; "": the machine's name finds it
};
ClusterChoice cluster_of(const Row& row);
std::vector<std::string> known_clusters();

}  // namespace sim::calibrate
