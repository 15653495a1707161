// row_plan.h — turns a row of a table of measured runs into a plan and a machine, or into the
// reason why it cannot.
//
// validate calls plan_of() once per row. Columns state settings; defaults of the framework
// (workloads/frameworks) fill the others. Every value that the row does not state is listed in
// `assumptions`. A feature that the device program does not have makes the row unsupported, by
// name.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/units.h"
#include "sim/model/flops.h"
#include "sim/program/plan/plan.h"

namespace sim::input {
struct Machine;
}

namespace sim::calibrate {

using Row = std::map<std::string, std::string, std::less<>>;  // column -> text

// Text of a cell; "" if the column is absent or blank.
const std::string& cell(const Row& row, std::string_view column);

// The rank that the row's memory figures belong to: the largest of all, the first or the last.
enum class MemoryRank { largest, first, last };

struct RowMachine {
  std::string cluster;  // topologies/<cluster>.textproto
  int nodes = 1;
  int gpus_per_node = 0;  // 0: the cluster's
  int nics = 0;           // per node; 0: the cluster's
  Bandwidth nic{};
  bool no_nvlink_sharp = false;  // NCCL_NVLS_ENABLE=0
};

struct RowPlan {
  std::string unsupported;  // reason why the row cannot be represented; "": it can
  program::Plan plan;
  RowMachine machine;
  std::string family;                                 // of the framework; groups residuals
  const model::FlopConvention* convention = nullptr;  // of tflops_gpu
  MemoryRank memory_rank = MemoryRank::largest;
  int memory_stage = -1;      // stage of the rank with the stated memory; -1: not stated
  int memory_cp_rank = -1;    // its context-parallel rank; -1: not stated
  bool memory_only = false;   // times are not compared: no measured efficiencies exist for the GPU
  bool assumes_gpus = false;  // no published source gives the number of GPUs
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
};
ClusterChoice cluster_of(const Row& row);
std::vector<std::string> known_clusters();

}  // namespace sim::calibrate
