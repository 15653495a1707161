// topology_import.cpp — fuzzes the readers of other tools' topologies, and the search for problems
// in what they accept.
#include <cstddef>
#include <cstdint>
#include <string>

#include "sim/input/cluster/import.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const auto read : {sim::input::import_nccl_xml, sim::input::import_nvidia_smi,
                          sim::input::import_slurm, sim::input::import_ibnetdiscover}) {
    const auto imported = read(text, "input");
    if (!imported) continue;
    if (imported->node) {
      sim::topology::inspect(*imported->node);
      if (sim::input::node_text(*imported->node, "input").empty()) __builtin_trap();
    }
    if (imported->wiring) sim::topology::inspect(*imported->wiring, 0.5);
  }
  return 0;
}
