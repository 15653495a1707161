// topology_import.cpp — fuzzes the readers of other tools' topologies, and the search for problems
// in what they accept.
#include <cstddef>
#include <cstdint>
#include <string>

#include "sim/config/import.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const auto read : {sim::config::import_nccl_xml, sim::config::import_nvidia_smi,
                          sim::config::import_slurm, sim::config::import_ibnetdiscover}) {
    const auto imported = read(text, "input");
    if (!imported) continue;
    if (imported->node) {
      sim::topology::inspect(*imported->node);
      if (sim::config::node_text(*imported->node, "input").empty()) __builtin_trap();
    }
    if (imported->wiring) sim::topology::inspect(*imported->wiring, 0.5);
  }
  return 0;
}
