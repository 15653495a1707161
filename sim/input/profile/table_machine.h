// table_machine.h — matches the GPU name in a table of measurements to one of our cluster files.
//
// `rehearse validate` calls it for each row of a table of runs. GPU aliases and site names are
// fields of topologies/*.textproto (alias, site).
#pragma once

#include <string_view>
#include <vector>

#include "sim/input/cluster/cluster.h"

namespace sim::input {

// All clusters whose GPUs have aliases, in alphabetical order. Loaded once per process.
const Result<std::vector<Machine>>& table_machines();

struct TableMachine {
  const Machine* machine = nullptr;  // nullptr: no match
  bool memory_only = false;
  int gpus_per_node = 0;  // 0: as in the table or the node
};
// The best match. A cluster of the site that `remarks` or `gpu` names wins over others; then the
// longest alias wins, then the largest memory. An alias matches at the start of a word only.
// `memory_gb`: GB of one GPU, must agree; 0: not stated. REQUIRES: table_machines() has no errors.
TableMachine machine_of_table(std::string_view gpu, double memory_gb,
                              std::string_view remarks = "");

// A cluster with the same GPU whose network a table names: a name of its `transport` stands
// in `network`. nullptr: none. REQUIRES: table_machines() has no errors.
const Machine* machine_on_network(const Machine& machine, std::string_view network);

}  // namespace sim::input
