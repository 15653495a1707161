// tuner.cpp — the choice of a tuner plugin: regions in the plane of size and number of ranks, as
// aws-ofi-nccl describes them (its "region" tuner). network.cpp asks it first; where no region
// holds, NCCL's own model chooses.
#include <algorithm>
#include <cmath>

#include "sim/cluster/network/state.h"

namespace sim::network {
namespace {

using Region = topology::Transport::Region;

struct Point {
  double x = 0, y = 0;
};

Point corner(const Region& region, std::size_t i) {
  return {std::log2(static_cast<double>(region.bytes[i])),
          std::log2(static_cast<double>(region.ranks[i]))};
}

bool on_edge(Point p, Point a, Point b) {
  constexpr double close = 1e-9;
  const double cross = (b.x - a.x) * (p.y - a.y) - (b.y - a.y) * (p.x - a.x);
  return std::abs(cross) < close && p.x >= std::min(a.x, b.x) - close &&
         p.x <= std::max(a.x, b.x) + close && p.y >= std::min(a.y, b.y) - close &&
         p.y <= std::max(a.y, b.y) + close;
}

// Whether a polygon holds a point; its edges belong to it. A ray to the right crosses the edges of
// a polygon an odd number of times from inside.
bool holds(const Region& region, Point p) {
  bool inside = false;
  for (std::size_t i = 0; i < region.bytes.size(); ++i) {
    const Point a = corner(region, i), b = corner(region, (i + 1) % region.bytes.size());
    if (on_edge(p, a, b)) return true;
    if ((a.y > p.y) != (b.y > p.y) && p.x < a.x + (p.y - a.y) / (b.y - a.y) * (b.x - a.x))
      inside = !inside;
  }
  return inside;
}

}  // namespace

Choice Network::State::choice(const Situation& s, Kind kind, Bytes bytes) const {
  const Point at{std::log2(static_cast<double>(std::max<std::int64_t>(1, bytes.n))),
                 std::log2(static_cast<double>(s.shape.ranks))};
  if (s.shape.nodes > 1) {
    for (const Region& region : cluster.fabric.transport.regions) {
      if (region.collective != collective::name(kind) ||
          region.gpus_per_node * s.shape.nodes != s.shape.ranks || !holds(region, at))
        continue;
      for (const Algorithm a :
           {Algorithm::tree, Algorithm::ring, Algorithm::nvls, Algorithm::nvls_tree})
        for (const Protocol p : {Protocol::ll, Protocol::ll128, Protocol::simple})
          if (name(a) == region.algorithm && name(p) == region.protocol &&
              terms(believed, s, kind, {a, p}, network::believed(believed, s), bytes))
            return {a, p};
      break;
    }
  }
  return choose(believed, s, kind, bytes);
}

}  // namespace sim::network
