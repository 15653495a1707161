// make_sharding.h — creates the data parallelism of a plan (parallel/sharding.h).
//
// The builder of a rank calls it once. A new kind of data parallelism is a new line here.
#pragma once

#include <memory>

#include "sim/program/parallel/sharding.h"

namespace sim::program {

std::unique_ptr<Sharding> make_sharding(Rank& rank);

}  // namespace sim::program
