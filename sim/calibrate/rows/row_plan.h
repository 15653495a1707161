// row_plan.h — a row of a table of measured runs becomes a plan and a machine, or the reason why it
// cannot.
//
// The schema names what papers and logs publish; what a row leaves open its framework says
// (workloads/frameworks), and every such guess is listed. Nothing is represented by something else
// in silence: a feature that the device program does not have (experts, uneven stages) makes the
// row unsupported, by name.
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

// "" when the column is absent or blank.
const std::string& cell(const Row& row, std::string_view column);

// Which rank's memory the row states.
enum class MemoryRank { largest, first, last };

struct RowMachine {
  std::string cluster;  // topologies/<cluster>.textproto
  int nodes = 1;
  int gpus_per_node = 0;  // 0: as the cluster
  int nics = 0;           // per node; 0: as the cluster
  Bandwidth nic{};
  bool no_nvlink_sharp = false;  // NCCL_NVLS_ENABLE=0
};

struct RowPlan {
  std::string unsupported;  // why the row cannot be represented; "": it can
  program::Plan plan;
  RowMachine machine;
  std::string family;                                 // of its framework, in residuals
  const model::FlopConvention* convention = nullptr;  // of tflops_gpu
  MemoryRank memory_rank = MemoryRank::largest;
  int memory_stage = -1;      // of the rank whose memory the row states, where it says
  int memory_cp_rank = -1;    // same
  bool memory_only = false;   // times are not compared: nobody measured the GPU's efficiencies
  bool assumes_gpus = false;  // nothing that is published says on how many it ran
  std::vector<std::string> assumptions;
};

RowPlan plan_of(const Row& row);

// The cluster that stands for the row's machine; nullptr with the reason when there is none.
struct ClusterChoice {
  const input::Machine* machine = nullptr;
  std::string problem;
  bool memory_only = false;
  int gpus_per_node = 0;  // 0: as the row says
};
ClusterChoice cluster_of(const Row& row);
std::vector<std::string> known_clusters();

}  // namespace sim::calibrate
