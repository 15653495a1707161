// row_machine.cpp — which of our clusters stands for the machine of a row. The names of GPUs in
// published tables and what they mean here:
//
//     contains            gpu_mem_gb    cluster      else
//     A100, SXM and ABCI  40            abci-a       A100 SXM with 40 GB, its own network
//     A100 and SXM        40            azure-ndv4   A100 SXM with 40 GB
//     A100 and SXM        80            dgx-a100     A100 SXM with 80 GB
//     H100 and SXM        80            dgx-h100     H100 SXM with 80 GB
//     H100 and SXM        94            tsubame4     H100 SXM with 94 GB
//     H100 and HBM2e      96            grand-teton-h100
//     B200 and SXM        192           dgx-b200     memory alone: its times are a guess
//     A100-PCIe           80            a100-pcie    one node
//     (Jean Zay)          80            jean-zay     by the row's network
//
// A node's GPUs and NICs are the row's own where it states them ("4x200Gb/s per node"); any other
// GPU is refused by name, because nothing here was measured on it.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/calibrate/row_text.h"

namespace sim::calibrate {

namespace {

struct Known {
  const char* family;
  std::int64_t memory_gb;
  const char* cluster;
  bool memory_only = false;
};
constexpr std::array<Known, 8> known = {{{"ABCI", 40, "abci-a"},
                                         {"A100", 40, "azure-ndv4"},
                                         {"A100", 80, "dgx-a100"},
                                         {"H100", 80, "dgx-h100"},
                                         {"H100", 94, "tsubame4"},
                                         {"H100-SXM-96GB-HBM2e", 96, "grand-teton-h100"},
                                         {"B200", 192, "dgx-b200", true},
                                         {"A100-PCIe", 80, "a100-pcie"}}};

// The number of a product's name: 80 for "80", "80GB" and the "81559 MiB" that drivers report.
std::int64_t marketing_gb(std::string_view text) {
  const std::int64_t value = leading_number(text).value_or(0);
  if (!contains(text, "MiB")) return value;
  const std::int64_t gib = value / 1024;
  return gib >= 78 && gib <= 80 ? 80 : gib;
}

}  // namespace

std::vector<std::string> known_clusters() {
  std::vector<std::string> names{"jean-zay"};
  for (const Known& entry : known) names.emplace_back(entry.cluster);
  return names;
}

ClusterChoice cluster_of(const Row& row) {
  const std::string& gpu = cell(row, "gpu");
  const std::string& memory = cell(row, "gpu_mem_gb");
  const std::int64_t gb = marketing_gb(memory);
  // GH200 contains H200, and neither is an H100; PCIe and NVL cards have other links and clocks.
  if (contains(cell(row, "inter_net"), "Jean Zay") && gb == 80) return {"jean-zay", ""};
  const bool other_card = contains(gpu, "PCIe") || contains(gpu, "NVL-");
  for (const Known& candidate : known) {
    const bool card = contains(candidate.family, "PCIe") || (contains(gpu, "SXM") && !other_card);
    if (card && contains(gpu, candidate.family) && gb == candidate.memory_gb) {
      return {candidate.cluster, "", candidate.memory_only};
    }
  }
  std::string stated = memory.empty() ? "memory unstated" : memory;
  if (number(memory)) stated += " GB";
  return {"", fmt::format("GPU '{}' ({}) has no profile; known: A100 SXM 40 and 80 GB, H100 "
                          "SXM 80 and 94 GB",
                          gpu, stated)};
}

}  // namespace sim::calibrate
