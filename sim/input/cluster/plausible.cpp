#include "sim/input/cluster/plausible.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/base/text.h"
#include "sim/input/text/locate.h"

namespace sim::input {
namespace {

// A number of a GPU is doubtful if it is above or below the known one by this factor. The first is
// for a GPU of the same name, the second for another GPU with the same profile.
constexpr double factor_of_same = 1.25, factor_of_other = 4;
// A single switch joins at most so many times the nodes of the largest one in topologies/.
constexpr int factor_of_switch = 4;

struct Number {
  const char* field;
  const char* unit;
  double scale;  // of the unit
  bool compute;  // FLOP/s: data sheets print them with sparsity too
  double (*of)(const device::Gpu& gpu);
};

constexpr Number numbers[] = {
    {"gpu.bf16", "TFLOP/s", 1e12, true, [](const device::Gpu& g) { return g.bf16_flops; }},
    {"gpu.tf32", "TFLOP/s", 1e12, true, [](const device::Gpu& g) { return g.tf32_flops; }},
    {"gpu.fp32", "TFLOP/s", 1e12, true, [](const device::Gpu& g) { return g.fp32_flops; }},
    {"gpu.fp8", "TFLOP/s", 1e12, true, [](const device::Gpu& g) { return g.fp8_flops; }},
    {"gpu.fp4", "TFLOP/s", 1e12, true, [](const device::Gpu& g) { return g.fp4_flops; }},
    {"gpu.memory_bandwidth", "GB/s", 1e9, false,
     [](const device::Gpu& g) { return static_cast<double>(g.hbm.bytes_per_second); }},
    {"gpu.memory", "GB", 1e9, false,
     [](const device::Gpu& g) { return static_cast<double>(g.memory.n); }},
    {"gpu.sms", "", 1, false, [](const device::Gpu& g) { return static_cast<double>(g.sms); }}};

std::vector<Machine> known_machines() {
  std::vector<Machine> all;
  for (const std::string& name : names(Kind::topology))
    if (Result<Machine> machine = find_cluster(name)) all.push_back(std::move(*machine));
  return all;
}

double distance(double a, double b) {
  return std::abs(std::log(a / b));
}

std::string rounded(double value) {
  return fmt::format("{:.4g}", value);
}

// Compares one number with the nearest of the references.
std::string doubt(const Number& number, const Machine& machine,
                  const std::vector<const Machine*>& references, bool same) {
  const double value = number.of(machine.gpu);
  const Machine* nearest = nullptr;
  for (const Machine* one : references) {
    const double other = number.of(one->gpu);
    if (other > 0 &&
        (nearest == nullptr || distance(value, other) < distance(value, number.of(nearest->gpu))))
      nearest = one;
  }
  if (!(value > 0) || nearest == nullptr) return "";
  const double expected = number.of(nearest->gpu), ratio = value / expected;
  if (distance(value, expected) <= std::log(same ? factor_of_same : factor_of_other)) return "";
  const auto near = [&](double factor) { return distance(ratio, factor) < std::log(1.1); };
  const std::string unit = *number.unit == 0 ? "" : std::string(" ") + number.unit;
  return fmt::format(
      "{} is {}{}, {} times the {}{} of {} ({}{}){}", number.field, rounded(value / number.scale),
      unit, rounded(ratio), rounded(expected / number.scale), unit, nearest->gpu.name,
      nearest->cluster.name, same ? "" : fmt::format(", profile {}", nearest->gpu.profile),
      number.compute && near(2)                       ? ": data sheets print sparse peaks, twice "
                                                        "the dense ones"
      : !number.compute && (near(8) || near(1.0 / 8)) ? ": bits in place of bytes, or the reverse"
                                                      : "");
}

}  // namespace

std::vector<std::string> doubtful_numbers(const Machine& machine) {
  const std::vector<Machine> known = known_machines();
  std::vector<const Machine*> same, of_profile;
  const Machine* largest = nullptr;
  for (const Machine& one : known) {
    if (one.gpu.name == machine.gpu.name) same.push_back(&one);
    if (one.gpu.profile == machine.gpu.profile) of_profile.push_back(&one);
    if (one.cluster.fabric.kind == topology::FabricKind::single_switch &&
        (largest == nullptr || one.cluster.nodes > largest->cluster.nodes))
      largest = &one;
  }
  std::vector<std::string> all;
  for (const Number& number : numbers)
    if (std::string text = doubt(number, machine, same.empty() ? of_profile : same, !same.empty());
        !text.empty())
      all.push_back(std::move(text));
  const topology::Cluster& cluster = machine.cluster;
  if (cluster.fabric.kind == topology::FabricKind::single_switch && largest != nullptr &&
      cluster.nodes > factor_of_switch * largest->cluster.nodes)
    all.push_back(fmt::format(
        "fabric.kind=single_switch joins {} nodes with {} to one switch; the largest of "
        "topologies/ ({}) joins {} nodes: fat_tree and rail_optimised have leaves and spines",
        cluster.nodes, counted(cluster.node.nics, "NIC") + (cluster.nodes > 1 ? " each" : ""),
        largest->cluster.name, largest->cluster.nodes));
  return all;
}

}  // namespace sim::input
