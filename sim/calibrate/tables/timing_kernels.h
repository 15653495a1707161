// timing_kernels.h — helpers of the predictions of kernel tables: the site of a GPU, sums of kernel
// times, numbers in cells.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/calibrate/rows/row_text.h"
#include "sim/calibrate/tables/timings.h"
#include "sim/cluster/device/kernel.h"

namespace sim::calibrate {

// The site of a GPU. If there is none, returns nullptr and sets `timing.reason`.
answer::Site* site_of(const std::string& gpu, answer::Sites& sites, Timing& timing);

// The site's profile at the rates of short benchmarks, without the limits of a long run.
device::Profile benchmark_profile(const answer::Site& site);

// Sum of the operations' times, microseconds.
double microseconds(const std::vector<model::Operation>& operations, const answer::Site& site,
                    const device::Profile& profile);

// A whole number from 1 to 2^32 in a column, or 0.
std::int64_t size_in(const input::TableRow& row, std::string_view column);

// Attention with scores and softmax in memory, without dropout: "PyTorch" in figures of attention
// kernels. An element has `element` bytes. A mask is added by a kernel of its own.
std::vector<model::Operation> attention_in_memory(std::int64_t batch, std::int64_t heads,
                                                  std::int64_t head_dim, std::int64_t query,
                                                  std::int64_t key, bool masked, bool backward);

}  // namespace sim::calibrate
