#include "sim/cluster/network/window.h"

#include <algorithm>
#include <limits>

#include "sim/cluster/network/chunks.h"

namespace sim::network {
namespace {

constexpr double steps = 8;  // NCCL_STEPS

// Data in the buffer of a connection, without the flags of LL (half) and LL128 (a 16th).
double window_of(Protocol protocol) {
  switch (protocol) {
    case Protocol::ll:
      return 512 * 8 * steps * 16 / 2;  // NCCL_LL_MAX_NTHREADS lines of 16 B, 8 a thread
    case Protocol::ll128:
      return 640 * 120 * steps * 8 * 15 / 16;  // NCCL_LL128_MAX_NTHREADS x ELEMS_PER_THREAD
    case Protocol::simple:
      break;
  }
  return 4 * 1024 * 1024;
}

double over_round_trip(double window, Duration path) {
  if (path.ps <= 0) return std::numeric_limits<double>::infinity();
  return window / (2 * seconds(path));
}

}  // namespace

double window_rate(const NcclModel& model, Choice choice, const Situation& s, Duration path,
                   Bytes bytes) {
  if (choice.algorithm != Algorithm::nvls_tree)
    return over_round_trip(window_of(choice.protocol), path);
  // A step of NVLSTree is a chunk, which is smaller than a step of the buffer.
  const double chunk =
      static_cast<double>(nvls_tree_chunk(model, s, bytes).n) / std::max(1, model.nvls_channels);
  return over_round_trip(steps * chunk, path);
}

double send_window_rate(const NcclModel& model, Duration path) {
  constexpr double chunk = 128 * 1024;  // NCCL_P2P_NET_CHUNKSIZE
  return over_round_trip(model.send_channels_network * steps * chunk, path);
}

Buses within_window(const NcclModel& model, Buses solved, Choice choice, const Situation& s,
                    Duration path, Bytes bytes) {
  const double one = window_rate(model, choice, s, path, bytes);
  solved.ring = std::min(solved.ring, s.graph.launched * one);
  // Each edge of a tree carries the array once in each direction.
  solved.tree = std::min(solved.tree, 2 * s.graph.launched * one);
  solved.nvls_tree =
      std::min(solved.nvls_tree, std::max(1, model.nvls_channels) * nvls_heads(s) * one);
  return solved;
}

}  // namespace sim::network
