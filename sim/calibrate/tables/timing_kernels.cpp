#include "sim/calibrate/tables/timing_kernels.h"

#include <fmt/format.h>

#include "sim/base/brief.h"

namespace sim::calibrate {

using model::GemmRole;
using model::Operation;
using model::OperationKind;

answer::Site* site_of(const std::string& gpu, answer::Sites& sites, Timing& timing) {
  const std::string cluster = cluster_of_gpu(gpu);
  if (cluster.empty()) {
    timing.reason = "GPU '" + brief(gpu) + "' has no profile";
    return nullptr;
  }
  const Result<answer::Site*> site = sites.find(cluster);
  if (!site) {
    timing.reason = site.errors().front().where + ": " + site.errors().front().message;
    return nullptr;
  }
  return *site;
}

device::Profile benchmark_profile(const answer::Site& site) {
  device::Profile profile = site.profile.device;
  profile.gemm.sustained = 1;
  profile.gemm.alone = true;
  for (device::AttentionProfile& a : profile.attention) a.sustained = 1;
  return profile;
}

double microseconds(const std::vector<Operation>& operations, const answer::Site& site,
                    const device::Profile& profile) {
  double sum = 0;
  for (const Operation& o : operations) {
    sum += 1e6 * seconds(device::time(o, site.machine.gpu, profile));
  }
  return sum;
}

std::int64_t size_in(const input::TableRow& row, std::string_view column) {
  const auto found = row.cells.find(column);
  if (found == row.cells.end()) return 0;
  const std::optional<double> value = number(found->second);
  if (!value || *value < 1 || *value > 4294967296.0) return 0;
  return static_cast<std::int64_t>(*value);
}

std::vector<Operation> attention_in_memory(std::int64_t batch, std::int64_t heads,
                                           std::int64_t head_dim, std::int64_t query,
                                           std::int64_t key, bool masked, bool backward) {
  const std::int64_t b = batch * heads;
  const std::int64_t scores = 2 * b * query * key;
  const auto by_heads = [&](std::string_view name, GemmRole role) {
    return model::gemm(name, query, head_dim, key, role, false, model::Precision::bf16, b);
  };
  const auto to_scores = [&](std::string_view name, GemmRole role) {
    return model::gemm(name, query, key, head_dim, role, false, model::Precision::bf16, b);
  };
  const auto memory_bound = [&](std::string_view name, std::int64_t times) {
    return model::memory_bound(OperationKind::softmax, name, Bytes{times * scores});
  };
  // Rows of up to 1024 stay in registers; longer ones are read once more for each step (PyTorch
  // SoftMax.cu).
  const bool long_rows = key > 1024;
  if (backward) {
    return {to_scores("d probabilities", GemmRole::input_gradient),
            by_heads("d values", GemmRole::weight_gradient),
            memory_bound("softmax backward", long_rows ? 5 : 3),
            by_heads("d queries", GemmRole::input_gradient),
            by_heads("d keys", GemmRole::weight_gradient)};
  }
  std::vector<Operation> out = {to_scores("scores", GemmRole::forward)};
  if (masked) out.push_back(memory_bound("mask", 2));
  out.push_back(memory_bound("softmax", long_rows ? 4 : 2));
  out.push_back(by_heads("context", GemmRole::forward));
  return out;
}

}  // namespace sim::calibrate
