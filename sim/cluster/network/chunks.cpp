#include "sim/cluster/network/chunks.h"

#include <algorithm>
#include <bit>

namespace sim::network {
namespace {

constexpr std::int64_t KiB = 1024;

// A step of a connection: NCCL_BUFFSIZE / NCCL_STEPS.
constexpr std::int64_t simple_chunk = 512 * KiB;

// NCCL_NVLS_CHUNKSIZE; on four nodes and more NVLSTree takes at most half of it.
constexpr std::int64_t nvls_chunk = 128 * KiB, nvls_chunk_many_nodes = 64 * KiB;

// Levels of the tree between nodes.
int levels_among(int nodes) {
  return static_cast<int>(std::bit_width(static_cast<unsigned>(nodes))) - 1;
}

}  // namespace

Bytes nvls_tree_chunk(const NcclModel& model, const Situation& s, Bytes bytes) {
  const std::int64_t heads = nvls_heads(s);
  const std::int64_t at_once = std::max(1, model.nvls_channels) * heads;
  std::int64_t chunk = s.shape.nodes >= 4 ? nvls_chunk_many_nodes : nvls_chunk;
  if (bytes.n < 4 * at_once * chunk) chunk = std::min(chunk, 64 * KiB);
  if (bytes.n < at_once * chunk) chunk = std::min(chunk, 32 * KiB);
  return Bytes{std::min(at_once * chunk, bytes.n) / heads};
}

double nvls_tree_fill(const NcclModel& model, const Situation& s, double nic, Bytes bytes) {
  const int levels = levels_among(s.shape.nodes);
  return (2 * levels - 1) * static_cast<double>(nvls_tree_chunk(model, s, bytes).n) / nic;
}

double tree_fill(const NcclModel& model, const Situation& s, double nic, Bytes bytes) {
  const double launched = s.graph.launched;
  const double chunk = std::min<double>(simple_chunk, static_cast<double>(bytes.n) / launched);
  const double links = s.node.interconnect == topology::GpuInterconnect::pcie
                           ? rate(s.node.pcie) * model.pcie_payload
                           : s.graph.channels * rate(model.tree_channel.one);
  const double inside = links / launched;
  const double outside = nic * s.shape.nics / launched;
  return 2 * (s.shape.locals - 1) * chunk / inside +
         (2 * levels_among(s.shape.nodes) - 1) * chunk / outside;
}

}  // namespace sim::network
