// collective_row.h — one measured time of a collective: a row of nccl.csv in the simulator's terms.
//
// timing_collectives.cpp reads every row of a table through it. A row that cannot be represented
// has a reason. `bytes` is the size that nccl-tests print: the whole array of a collective, or one
// message of sendrecv.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sim/base/units.h"
#include "sim/cluster/collective/collective.h"
#include "sim/input/tables/table_csv.h"

namespace sim::calibrate {

struct CollectiveRow {
  std::string gpu, source, network, nccl_version;  // `network`: between nodes, or inside of one
  std::string reason;                              // "": the row can be represented
  collective::Kind kind = collective::Kind::all_reduce;
  std::int64_t bytes = 0;
  int gpus = 0, nodes = 0;
  int nics = 0;                    // of a node, if the row names them; 0: those of the cluster
  Bandwidth nic{};                 // of one NIC
  bool multi_node_nvlink = false;  // `nodes` counts trays of an NVLink domain
  bool host_timed = false;  // a CPU thread launched it and waited, for example torch.distributed
  std::string forced;       // "Ring", "Tree" or "NVLS"; "": NCCL chose
  bool without_nvls = false;
  double measured_us = 0;
};

CollectiveRow collective_row(const input::TableRow& row);

}  // namespace sim::calibrate
