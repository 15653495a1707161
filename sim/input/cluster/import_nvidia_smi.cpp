// import_nvidia_smi.cpp — reads the matrix of `nvidia-smi topo -m`: the connection between each two
// devices.
//
//     NV#   # NVLinks    PIX, PXB   PCIe switches    PHB   the CPU's root    NODE, SYS   farther
//
// Source: NVIDIA, "nvidia-smi", topo -m legend.
#include <algorithm>
#include <array>

#include "sim/input/cluster/import.h"
#include "sim/input/cluster/import_text.h"
#include "sim/input/text/textproto.h"

namespace sim::input {
namespace {

constexpr std::array<std::string_view, 6> ranks = {"X", "PIX", "PXB", "PHB", "NODE", "SYS"};

// The distance of a matrix word; -1: not a word of the matrix. NVLink words give no PCIe distance.
int distance(std::string_view word) {
  if (word == "SOC") word = "SYS";
  const auto found = std::ranges::find(ranks, word);
  return found == ranks.end() ? -1 : static_cast<int>(found - ranks.begin());
}

int nvlinks(std::string_view word) {
  return word.starts_with("NV") ? std::max(0, number_of(word.substr(2))) : 0;
}

bool is_gpu(std::string_view word) {
  return word.starts_with("GPU") && number_of(word.substr(3)) >= 0;
}
bool is_nic(std::string_view word) {
  return (word.starts_with("NIC") && number_of(word.substr(3)) >= 0) || word.starts_with("mlx") ||
         word.starts_with("rdma") || word.starts_with("roce") || word.starts_with("hfi");
}

struct Matrix {
  std::vector<std::vector<std::string_view>> rows;  // one row per GPU, one word per device
  std::vector<int> numa;                            // of each GPU; -1: unknown
  std::vector<std::string_view> cpus;               // CPU affinity of each GPU; "": unknown
  std::size_t gpus = 0, nics = 0;
};

void read_row(const std::vector<std::string_view>& words, std::size_t line, const std::string& path,
              Matrix& matrix, Diagnostics& problems) {
  const std::size_t devices = matrix.gpus + matrix.nics;
  if (words.size() < devices + 1) {
    problems.push_back(
        {at_line(path, line), fmt::format("{} has {} entries for {} devices", shown(words[0]),
                                          words.size() - 1, devices)});
    return;
  }
  std::vector<std::string_view> row(words.begin() + 1,
                                    words.begin() + 1 + static_cast<std::ptrdiff_t>(devices));
  for (const std::string_view word : row) {
    if (distance(word) < 0 && nvlinks(word) == 0)
      problems.push_back(
          {at_line(path, line),
           fmt::format("'{}' is no connection (X, PIX, PXB, PHB, NODE, SYS, NV#)", shown(word))});
  }
  // The NUMA node is the first plain number after the CPU list.
  int numa = -1;
  for (std::size_t i = devices + 2; i < words.size() && numa < 0; ++i) numa = number_of(words[i]);
  const bool has_cpus =
      words.size() > devices + 1 && number_of(words[devices + 1].substr(0, 1)) >= 0;
  matrix.rows.push_back(std::move(row));
  matrix.numa.push_back(numa);
  matrix.cpus.push_back(has_cpus ? words[devices + 1] : std::string_view());
}

// Drivers without the column NUMA Affinity: GPUs with the same list of CPUs share a socket.
void sockets_of_cpus(Matrix& matrix) {
  const auto is_unknown = [](int numa) { return numa < 0; };
  const auto is_missing = [](std::string_view cpus) { return cpus.empty(); };
  if (!std::ranges::all_of(matrix.numa, is_unknown)) return;
  if (std::ranges::any_of(matrix.cpus, is_missing)) return;
  std::vector<std::string_view> lists;
  for (std::size_t gpu = 0; gpu < matrix.gpus; ++gpu) {
    const auto known = std::ranges::find(lists, matrix.cpus[gpu]);
    matrix.numa[gpu] = static_cast<int>(known - lists.begin());
    if (known == lists.end()) lists.push_back(matrix.cpus[gpu]);
  }
}

// Removes the NICs that are in another socket than every GPU or farther (SYS to all GPUs), unless
// all NICs are. Returns the removed ones.
std::vector<std::size_t> remove_far_nics(Matrix& matrix) {
  std::vector<std::size_t> far;
  for (std::size_t nic = 0; nic < matrix.nics; ++nic)
    if (std::ranges::all_of(matrix.rows, [&](const auto& row) {
          return distance(row[matrix.gpus + nic]) >= distance("SYS");
        }))
      far.push_back(nic);
  if (far.size() == matrix.nics) return {};
  for (auto nic = far.rbegin(); nic != far.rend(); ++nic) {
    for (auto& row : matrix.rows)
      row.erase(row.begin() + static_cast<std::ptrdiff_t>(matrix.gpus + *nic));
    --matrix.nics;
  }
  return far;
}

// A NIC is in the socket of the GPU that is nearest to it.
std::vector<int> sockets_of_nics(const Matrix& matrix, const std::vector<int>& socket_of_gpu) {
  std::vector<int> sockets(matrix.nics, 0), nearest(matrix.nics, 1 << 20);
  for (std::size_t gpu = 0; gpu < matrix.gpus; ++gpu)
    for (std::size_t nic = 0; nic < matrix.nics; ++nic)
      if (const int far = distance(matrix.rows[gpu][matrix.gpus + nic]); far < nearest[nic]) {
        nearest[nic] = far;
        sockets[nic] = socket_of_gpu[gpu];
      }
  return sockets;
}

topology::Node node_of(const Matrix& matrix) {
  topology::Node node;
  node.gpus = static_cast<int>(matrix.gpus);
  node.nics = static_cast<int>(matrix.nics);
  int least = 1 << 20, most = 0;
  for (std::size_t a = 0; a < matrix.gpus; ++a) {
    for (std::size_t b = a + 1; b < matrix.gpus; ++b) {
      const int links = nvlinks(matrix.rows[a][b]);
      least = std::min(least, links);
      most = std::max(most, links);
      if (links > 0) node.pairs.push_back({static_cast<int>(a), static_cast<int>(b), links});
    }
  }
  using topology::GpuInterconnect;
  if (most == 0) {
    node.interconnect = GpuInterconnect::pcie;
  } else if (least == most && most * static_cast<int>(matrix.gpus - 1) > 18) {
    // The links to all peers together are more than the 18 NVLinks of one GPU: there is a switch.
    node.interconnect = GpuInterconnect::nvswitch;
    node.nvlinks_per_gpu = most;
    node.pairs.clear();
  } else if (least == most) {
    node.interconnect = GpuInterconnect::mesh;
    node.nvlinks_per_pair = most;
    node.pairs.clear();
  } else {
    node.interconnect = GpuInterconnect::direct;
  }
  std::vector<int> numas = matrix.numa;
  std::ranges::sort(numas);
  numas.erase(std::unique(numas.begin(), numas.end()), numas.end());
  const bool known = !numas.empty() && numas.front() >= 0;
  node.sockets = known ? static_cast<int>(numas.size()) : 1;
  for (const int numa : matrix.numa)
    node.socket_of_gpu.push_back(
        known ? static_cast<int>(std::ranges::find(numas, numa) - numas.begin()) : 0);
  node.socket_of_nic = sockets_of_nics(matrix, node.socket_of_gpu);
  // A GPU uses the nearest NIC. Among equal ones: a NIC of its own socket, then the NIC with the
  // fewest earlier GPUs.
  std::vector<int> taken(matrix.nics, 0);
  for (std::size_t gpu = 0; gpu < matrix.gpus && matrix.nics > 0; ++gpu) {
    const auto cost = [&](std::size_t nic) {
      return std::array{distance(matrix.rows[gpu][matrix.gpus + nic]),
                        static_cast<int>(node.socket_of_nic[nic] != node.socket_of_gpu[gpu]),
                        taken[nic]};
    };
    std::size_t best = 0;
    for (std::size_t nic = 1; nic < matrix.nics; ++nic)
      if (cost(nic) < cost(best)) best = nic;
    ++taken[best];
    node.nic_of_gpu.push_back(static_cast<int>(best));
  }
  return node;
}

}  // namespace

Result<Imported> import_nvidia_smi(const std::string& text, const std::string& path) {
  Matrix matrix;
  Diagnostics problems;
  const std::vector<std::string_view> lines = lines_of(text);
  for (std::size_t i = 0; i < lines.size() && problems.size() < max_problems; ++i) {
    const std::vector<std::string_view> words = words_of(lines[i]);
    if (words.empty()) continue;
    if (matrix.gpus == 0) {
      // The heading: devices, then affinity columns.
      std::size_t gpus = 0, nics = 0;
      for (const std::string_view word : words) {
        gpus += is_gpu(word) && nics == 0;
        nics += is_nic(word);
      }
      if (gpus == 0 || !is_gpu(words[0])) continue;
      if (gpus + nics > 1024) {
        return Diagnostics{{at_line(path, i), "more than 1024 devices"}};
      }
      matrix.gpus = gpus;
      matrix.nics = nics;
    } else if (is_gpu(words[0]) && matrix.rows.size() < matrix.gpus) {
      read_row(words, i, path, matrix, problems);
    }
  }
  if (problems.empty() && (matrix.gpus == 0 || matrix.rows.size() != matrix.gpus))
    problems.push_back(
        {path, fmt::format("the matrix has {} rows of {} GPUs", matrix.rows.size(), matrix.gpus)});
  if (!problems.empty()) return problems;
  sockets_of_cpus(matrix);
  Imported imported{"nvidia-smi topo -m", std::nullopt, std::nullopt};
  for (const std::size_t nic : remove_far_nics(matrix))
    imported.notes.push_back(
        fmt::format("NIC {} is near no GPU (SYS to all of them): it is not counted", nic));
  imported.node = node_of(matrix);
  return imported;
}

}  // namespace sim::input
