// table_machine.h — which of our clusters stands for the machine of a table of measurements. The
// names of GPUs and sites are in topologies/*.textproto, beside the GPUs (alias, site).
#pragma once

#include <string_view>
#include <vector>

#include "sim/input/cluster/cluster.h"

namespace sim::input {

// The clusters whose GPUs have aliases, by name, read once.
const Result<std::vector<Machine>>& table_machines();

struct TableMachine {
  const Machine* machine = nullptr;  // nullptr: none stands for it
  bool memory_only = false;
  int gpus_per_node = 0;  // 0: as the table or the node says
};
// That of the site which `remarks` or `gpu` name, else that with the longest alias in `gpu`; an
// alias begins a word. `memory_gb` must agree; 0: not stated, then the largest memory counts.
// REQUIRES: table_machines() has no problems.
TableMachine machine_of_table(std::string_view gpu, double memory_gb,
                              std::string_view remarks = "");

}  // namespace sim::input
