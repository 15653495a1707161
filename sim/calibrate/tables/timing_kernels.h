// timing_kernels.h — what the readers of kernel tables share: a site by GPU, sums of kernel times,
// numbers in cells.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/calibrate/rows/row_text.h"
#include "sim/calibrate/tables/timings.h"
#include "sim/cluster/device/kernel.h"

namespace sim::calibrate {

// nullptr, and `timing.reason` says why.
answer::Site* site_of(const std::string& gpu, answer::Sites& sites, Timing& timing);

// The site's profile as short benchmarks see it, which do not run into the limits of a long run.
device::Profile benchmark_profile(const answer::Site& site);

// Microseconds that the operations take one after the other.
double microseconds(const std::vector<model::Operation>& operations, const answer::Site& site,
                    const device::Profile& profile);

// A whole number from 1 to 2^32 in a column, or 0.
std::int64_t size_in(const input::TableRow& row, std::string_view column);

// Scores, softmax and context in memory, without dropout: what "PyTorch" means in figures of
// attention kernels. `element` bytes; a mask is added in a kernel of its own.
std::vector<model::Operation> attention_in_memory(std::int64_t batch, std::int64_t heads,
                                                  std::int64_t head_dim, std::int64_t query,
                                                  std::int64_t key, bool masked, bool backward);

}  // namespace sim::calibrate
