// row_machine.cpp — chooses the cluster of topologies/ for the machine of a row. The row's names of
// GPU and site decide. Any other GPU is refused by name.
#include <fmt/format.h>

#include "sim/calibrate/rows/row_text.h"
#include "sim/input/profile/table_machine.h"

namespace sim::calibrate {

namespace {

// Gigabytes of memory in the product's name: 80 for "80" and "80GB". Drivers reserve a part, so
// "81559 MiB" also gives 80 and "143771 MiB" gives 141.
std::int64_t marketing_gb(std::string_view text) {
  const std::int64_t value = leading_number(text).value_or(0);
  return contains(text, "MiB") ? (value + 1023) / 1024 : value;
}

}  // namespace

std::vector<std::string> known_clusters() {
  std::vector<std::string> names;
  if (!input::table_machines()) return names;
  for (const input::Machine& machine : *input::table_machines())
    names.push_back(machine.cluster.name);
  return names;
}

ClusterChoice cluster_of(const Row& row) {
  const auto& machines = input::table_machines();
  if (!machines) return {nullptr, machines.errors().front().message};
  const std::string& gpu = cell(row, "gpu");
  const std::string& memory = cell(row, "gpu_mem_gb");
  const auto gb = static_cast<double>(marketing_gb(memory));
  const input::TableMachine found =
      gb > 0 ? input::machine_of_table(gpu, gb, cell(row, "inter_net")) : input::TableMachine{};
  if (found.machine != nullptr) return {found.machine, "", found.memory_only, found.gpus_per_node};
  std::string stated = memory.empty() ? "memory unstated" : memory;
  if (number(memory)) stated += " GB";
  if (gpu.empty())
    return {nullptr, "the row names no GPU; write --cluster NAME, or fill in the column 'gpu'"};
  std::string known;
  for (const input::Machine& machine : *machines)
    if (known.find(machine.gpu.name) == std::string::npos)
      known += (known.empty() ? "" : ", ") + machine.gpu.name;
  return {nullptr, fmt::format("GPU '{}' ({}) has no profile; known: {}", gpu, stated, known)};
}

}  // namespace sim::calibrate
