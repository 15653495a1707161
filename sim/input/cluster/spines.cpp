#include "sim/input/cluster/spines.h"

#include <algorithm>
#include <cmath>

namespace sim::input {

int spines_of(const topology::Fabric& fabric, int nics) {
  if (fabric.kind != topology::FabricKind::leaf_spine) return 0;
  const double up = fabric.nodes_per_leaf * nics / fabric.oversubscription;
  return static_cast<int>(std::clamp(std::round(up), 1.0, 4096.0));
}

}  // namespace sim::input
