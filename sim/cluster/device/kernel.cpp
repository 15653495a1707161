#include "sim/cluster/device/kernel.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

namespace sim::device {

namespace {

using model::GemmRole;
using model::Operation;
using model::OperationKind;

double ceil_div(std::int64_t a, std::int64_t b) {
  return static_cast<double>((a + b - 1) / b);
}

// Rounds of thread blocks over the SMs; `quantisation` of a partly filled round is paid for.
double waves(double blocks, double sms, double quantisation) {
  const double filled = blocks / sms;
  return std::max(1.0, (1 - quantisation) * filled + quantisation * std::ceil(filled));
}

double peak_fraction(const GemmProfile& gemm, model::Precision precision) {
  for (const GemmPeak& peak : gemm.peaks) {
    if (peak.precision == precision) return peak.fraction;
  }
  return 0;
}

double role_rate(const GemmProfile& gemm, GemmRole role) {
  switch (role) {
    case GemmRole::forward:
      return gemm.forward;
    case GemmRole::input_gradient:
      return gemm.input_gradient;
    case GemmRole::weight_gradient:
      return gemm.weight_gradient;
  }
  return 1;
}

double hbm_seconds(double bytes, const Gpu& gpu, double fraction) {
  return bytes / (static_cast<double>(gpu.hbm.bytes_per_second) * fraction);
}

// Share of the rate that the power limit leaves to long work.
double long_rate(const Gpu& gpu, const GemmProfile& gemm) {
  return gemm.throttled / power_slowdown(gpu, gemm);
}

// Monotone: the factor never falls as the product gets longer.
double throttled(double main, const Gpu& gpu, const GemmProfile& gemm) {
  const double rate = long_rate(gpu, gemm);
  if (!gemm.alone) return main / rate;
  const double boost = sim::seconds(gemm.boost);
  if (boost <= 0) return main;
  const double share = std::clamp(main / boost - 1, 0.0, 1.0);
  return main / (1 - (1 - rate) * share);
}

double gemm_seconds(const Operation& o, const Gpu& gpu, const Profile& profile) {
  const GemmProfile& gemm = profile.gemm;
  const double sms = gpu.sms;
  const std::int64_t aligned = 16 / model::bytes_of(o.precision);
  // Numbers in a row of an operand or result. The operands of a weight gradient have rows of m and
  // n numbers, one row for each token.
  const std::int64_t other = o.role == GemmRole::weight_gradient ? o.m : o.k;
  const bool misaligned = o.n % aligned != 0 || other % aligned != 0;
  const double rate_per_sm = gpu.peak(o.precision) * peak_fraction(gemm, o.precision) *
                             role_rate(gemm, o.role) * gemm.sustained *
                             (misaligned ? gemm.misaligned : 1.0) / sms;
  assert(rate_per_sm > 0);
  const double results =
      static_cast<double>(o.m) * static_cast<double>(o.n) * static_cast<double>(o.batch);
  // The ramp is a time: in a precision of half the bytes it spans twice the steps of k.
  const double ramp = gemm.ramp_k * 2.0 / static_cast<double>(model::bytes_of(o.precision));
  double main = std::numeric_limits<double>::infinity();
  for (const Tile& tile : gemm.tiles) {
    const double tiles =
        static_cast<double>(o.batch) * ceil_div(o.m, tile.m) * ceil_div(o.n, tile.n);
    const double flops_per_k = 2.0 * static_cast<double>(tile.m) * static_cast<double>(tile.n);
    for (const std::int64_t slices : gemm.split_k) {
      const double s = static_cast<double>(slices);
      const double block =
          flops_per_k * (static_cast<double>(o.k) / s + ramp) / (rate_per_sm * tile.efficiency);
      double seconds = waves(tiles * s, sms - o.sms_taken, gemm.wave_quantisation) * block;
      if (slices > 1) seconds += hbm_seconds(8.0 * s * results, gpu, gemm.hbm);
      main = std::min(main, seconds);
    }
  }
  main = throttled(main, gpu, gemm);
  if (o.accumulates_fp32) {
    main += gemm.exposed_accumulation * hbm_seconds(8.0 * results, gpu, gemm.hbm);
  }
  return std::max(main, hbm_seconds(static_cast<double>(o.bytes.n), gpu, gemm.hbm));
}

// d / fraction(d), see kernel.h: what one element of a head costs, in units of peak.
double head_cost(const std::vector<HeadEfficiency>& table, std::int64_t head_dim) {
  assert(!table.empty());
  const auto cost = [](const HeadEfficiency& h) {
    return static_cast<double>(h.head_dim) / h.fraction;
  };
  if (head_dim <= table.front().head_dim) return cost(table.front());
  for (std::size_t i = 1; i < table.size(); ++i) {
    const HeadEfficiency& low = table[i - 1];
    const HeadEfficiency& high = table[i];
    if (head_dim > high.head_dim) continue;
    const double share = static_cast<double>(head_dim - low.head_dim) /
                         static_cast<double>(high.head_dim - low.head_dim);
    return cost(low) + share * (cost(high) - cost(low));
  }
  return static_cast<double>(head_dim) / table.back().fraction;
}

// The implementation with this name; the profile's first one if it was not measured.
const AttentionProfile& implementation_of(const Profile& profile, std::string_view name) {
  const auto found =
      std::find_if(profile.attention.begin(), profile.attention.end(),
                   [&](const AttentionProfile& one) { return one.implementation == name; });
  return found == profile.attention.end() ? profile.attention.front() : *found;
}

// Forward blocks own queries and walk over keys; backward blocks own keys and walk over queries.
// Fewer causal queries than keys are the last queries. Their blocks are the last of the blocks of
// all queries: the last block walks over all keys, the mean block over half.
double walked_by_block(const Operation& o, bool backward, std::int64_t block) {
  const auto queries = static_cast<double>(o.query), keys = static_cast<double>(o.key);
  if (o.window > 0) return mean_keys(o);
  if (!o.causal) return backward ? queries : keys;
  if (o.query >= o.key) return 0.5 * (backward ? queries : keys);
  if (backward) return queries * mean_keys(o) / keys;
  const double there = ceil_div(o.query, block), all = ceil_div(o.key, block);
  return all > 1 ? keys * (1 - 0.5 * (there - 1) / (all - 1)) : 0.5 * keys;
}

double attention_seconds(const Operation& o, const Gpu& gpu, const Profile& profile) {
  assert(!profile.attention.empty());
  const AttentionProfile& attention = implementation_of(profile, o.implementation);
  const bool backward = o.kind == OperationKind::attention_backward;
  const AttentionPass& pass = backward ? attention.backward : attention.forward;
  const std::int64_t owned = backward ? o.key : o.query;
  const double walked = walked_by_block(o, backward, attention.block_queries);
  const double blocks = static_cast<double>(o.batch) * static_cast<double>(o.heads) *
                        ceil_div(owned, attention.block_queries);
  const double length = walked + (o.causal ? pass.ramp_keys_causal : pass.ramp_keys);
  const double products = backward ? 5.0 : 2.0;
  const double block_flops = 2.0 * products * static_cast<double>(attention.block_queries) *
                             length * head_cost(o.causal ? pass.causal : pass.full, o.head_dim);
  const double sms = gpu.sms;
  const double rate_per_sm = gpu.peak(o.precision) * attention.sustained / sms;
  assert(rate_per_sm > 0);
  // If the operation fixes the number of blocks, each block does the work of several in turn.
  const double turns =
      o.blocks > 0 && blocks >= static_cast<double>(o.blocks)
          ? std::ceil(static_cast<double>(o.blocks) / sms) * blocks / static_cast<double>(o.blocks)
          : blocks / sms;
  const double rounds = std::max(1.0, turns + pass.tail);
  const double main = rounds * block_flops / rate_per_sm;
  return std::max(main, hbm_seconds(static_cast<double>(o.bytes.n), gpu, attention.hbm));
}

const MemoryBoundProfile& memory_profile(const Profile& profile, OperationKind kind) {
  switch (kind) {
    case OperationKind::norm:
      return profile.norm;
    case OperationKind::softmax:
      return profile.softmax;
    case OperationKind::copy:
      return profile.copy;
    case OperationKind::reduction:
      return profile.reduction;
    case OperationKind::optimizer:
      return profile.optimizer;
    case OperationKind::embedding:
      return profile.embedding;
    case OperationKind::host_copy:
    case OperationKind::pageable_copy:
    case OperationKind::cpu_update:
    case OperationKind::elementwise:
    case OperationKind::gemm:
    case OperationKind::attention_forward:
    case OperationKind::attention_backward:
      break;
  }
  return profile.elementwise;
}

double memory_seconds(const Operation& o, const Gpu& gpu, const Profile& profile) {
  const MemoryBoundProfile& memory = memory_profile(profile, o.kind);
  const double seconds =
      hbm_seconds(static_cast<double>(o.bytes.n + memory.ramp.n), gpu, memory.hbm);
  if (o.blocks == 0 || profile.block_stream.bytes_per_second == 0) return seconds;
  const double streamed =
      static_cast<double>(profile.block_stream.bytes_per_second) * static_cast<double>(o.blocks);
  return std::max(seconds, static_cast<double>(o.bytes.n) / streamed);
}

}  // namespace

bool supports(const Gpu& gpu, const Profile& profile, model::Precision precision) {
  return gpu.peak(precision) > 0 && peak_fraction(profile.gemm, precision) > 0;
}

double measured_power_w(const Gpu& gpu, const GemmProfile& gemm) {
  if (gpu.rated_power_w <= 0) return gemm.power_w;
  return gemm.power_w > 0 ? std::min(gemm.power_w, gpu.rated_power_w) : gpu.rated_power_w;
}

double power_slowdown(const Gpu& gpu, const GemmProfile& gemm) {
  const double measured = measured_power_w(gpu, gemm);
  return gpu.power_w > 0 && measured > 0 ? std::max(1.0, measured / gpu.power_w) : 1.0;
}

Duration time(const model::Operation& operation, const Gpu& gpu, const Profile& profile) {
  assert(gpu.sms > 0);
  assert(gpu.hbm.bytes_per_second > 0);
  double seconds = 0;
  switch (operation.kind) {
    case OperationKind::gemm:
      seconds = gemm_seconds(operation, gpu, profile);
      break;
    case OperationKind::attention_forward:
    case OperationKind::attention_backward:
      seconds = attention_seconds(operation, gpu, profile);
      break;
    default:
      seconds = memory_seconds(operation, gpu, profile);
      break;
  }
  return profile.kernel_overhead + from_seconds(seconds);
}

}  // namespace sim::device
