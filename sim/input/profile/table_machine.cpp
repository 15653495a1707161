#include "sim/input/profile/table_machine.h"

#include <cmath>

#include "sim/base/ascii.h"
#include "sim/input/text/locate.h"

namespace sim::input {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_word_character(char c) {
  return is_digit(c) || (lower(c) >= 'a' && lower(c) <= 'z');
}

// True if a word of the text begins with the alias. "GH200" does not match "H200"; "H200" does not
// match "H20".
bool names(std::string_view text, std::string_view alias) {
  for (std::size_t at = 0; at + alias.size() <= text.size(); ++at) {
    const std::size_t end = at + alias.size();
    const bool longer = end < text.size() && is_digit(text[end - 1]) && is_digit(text[end]);
    if (starts_with(text.substr(at), alias) && !longer &&
        (at == 0 || !is_word_character(text[at - 1])))
      return true;
  }
  return false;
}

bool agrees(double stated_gb, double gb) {
  return stated_gb == 0 || std::abs(stated_gb - gb) < 0.5;
}

// All cluster files, in alphabetical order.
const Result<std::vector<Machine>>& all_machines() {
  static const Result<std::vector<Machine>> all = []() -> Result<std::vector<Machine>> {
    std::vector<Machine> machines;
    for (const std::string& name : names(Kind::topology)) {
      const Result<Machine> machine = find_cluster(name);
      if (!machine) return machine.errors();
      machines.push_back(*machine);
    }
    return machines;
  }();
  return all;
}

}  // namespace

const Result<std::vector<Machine>>& table_machines() {
  static const Result<std::vector<Machine>> all = []() -> Result<std::vector<Machine>> {
    if (!all_machines()) return all_machines().errors();
    std::vector<Machine> machines = *all_machines();
    std::erase_if(machines, [](const Machine& machine) { return machine.aliases.empty(); });
    return machines;
  }();
  return all;
}

const Machine* machine_on_network(const Machine& machine, std::string_view network) {
  for (const Machine& other : *all_machines()) {
    if (other.gpu.name != machine.gpu.name) continue;
    for (const std::string& name : other.cluster.fabric.transport.names)
      if (contains(network, name)) return &other;
  }
  return nullptr;
}

TableMachine machine_of_table(std::string_view gpu, double memory_gb, std::string_view remarks) {
  TableMachine best;
  std::size_t length = 0;
  double largest = 0;
  for (const Machine& machine : *table_machines()) {
    const bool of_site =
        !machine.site.empty() && (contains(remarks, machine.site) || contains(gpu, machine.site));
    for (const GpuAlias& alias : machine.aliases) {
      if (!names(gpu, alias.name) || !agrees(memory_gb, alias.memory_gb)) continue;
      constexpr std::size_t of_a_site = 1000;
      const std::size_t long_as = alias.name.size() + (of_site ? of_a_site : 0);
      if (!machine.site.empty() && !of_site) continue;
      if (long_as < length || (long_as == length && alias.memory_gb <= largest)) continue;
      best = {&machine, alias.memory_only, alias.gpus_per_node};
      length = long_as;
      largest = alias.memory_gb;
    }
  }
  return best;
}

}  // namespace sim::input
