// mlp.h — the MLP of a layer: norm, product up, activation, product down, reduction. INVENTORY.md
// sections 1 and 4 have a line per tensor.
#pragma once

#include "sim/program/autograd/autograd_graph.h"

namespace sim::program {

// From the residual stream to fc2's sum over the ranks.
// `given`: what it reads where no norm of its own is in front, else 0.
Value mlp(Writer& w, Value given);

}  // namespace sim::program
