#include "sim/cluster/device/profile.h"

#include <fmt/format.h>

#include <cmath>

namespace sim::device {

namespace {

// Collects every broken rule with the path of the field.
class Checker {
 public:
  explicit Checker(Diagnostics& problems) : problems_(problems) {}

  void fraction(const std::string& field, double value) {
    if (std::isfinite(value) && value > 0 && value <= 1) return;
    report(field, fmt::format("{} is not a fraction of a peak: write a number above 0 and at "
                              "most 1",
                              value));
  }
  void share(const std::string& field, double value) {
    if (std::isfinite(value) && value >= 0 && value <= 1) return;
    report(field, fmt::format("{} is not a share: write a number from 0 to 1", value));
  }
  void ramp(const std::string& field, double value) {
    if (std::isfinite(value) && value >= 0 && value <= kMostRamp) return;
    report(field, fmt::format("{} is not a ramp: write a number from 0 to {}", value, kMostRamp));
  }
  void duration(const std::string& field, Duration value) {
    if (value.ps >= 0 && value <= kLongest) return;
    report(field, fmt::format("{} s is not a fixed cost: write a duration from 0 to 1000 s",
                              seconds(value)));
  }
  void bytes(const std::string& field, Bytes value) {
    if (value.n >= 0 && value <= kMost) return;
    report(field, fmt::format("{} bytes: write a size from 0 to 1 TiB", value.n));
  }
  void size(const std::string& field, std::int64_t value) {
    if (value >= 1 && value <= kWidest) return;
    report(field, fmt::format("{}: write a whole number from 1 to {}", value, kWidest));
  }
  void report(const std::string& field, std::string message) {
    problems_.push_back({field, std::move(message)});
  }

 private:
  // Far beyond anything real, and far from overflow in kernel.cpp.
  static constexpr double kMostRamp = 1e6;
  static constexpr Duration kLongest{1'000'000'000'000'000};
  static constexpr Bytes kMost{std::int64_t{1} << 40};
  static constexpr std::int64_t kWidest = 65536;
  Diagnostics& problems_;
};

void check_gemm(const GemmProfile& gemm, Checker& c) {
  if (gemm.peaks.empty()) c.report("gemm.peaks", "missing: give one fraction per precision");
  for (std::size_t i = 0; i < gemm.peaks.size(); ++i) {
    c.fraction(fmt::format("gemm.peaks[{}].fraction", i), gemm.peaks[i].fraction);
    for (std::size_t j = 0; j < i; ++j) {
      if (gemm.peaks[j].precision != gemm.peaks[i].precision) continue;
      c.report(fmt::format("gemm.peaks[{}].precision", i), "given twice: remove one");
    }
  }
  c.fraction("gemm.sustained", gemm.sustained);
  if (gemm.tiles.empty()) c.report("gemm.tiles", "missing: give at least one tile");
  for (std::size_t i = 0; i < gemm.tiles.size(); ++i) {
    c.size(fmt::format("gemm.tiles[{}].m", i), gemm.tiles[i].m);
    c.size(fmt::format("gemm.tiles[{}].n", i), gemm.tiles[i].n);
    c.fraction(fmt::format("gemm.tiles[{}].efficiency", i), gemm.tiles[i].efficiency);
  }
  if (gemm.split_k.empty()) c.report("gemm.split_k", "missing: write 1 for no split");
  for (std::size_t i = 0; i < gemm.split_k.size(); ++i) {
    c.size(fmt::format("gemm.split_k[{}]", i), gemm.split_k[i]);
  }
  c.share("gemm.wave_quantisation", gemm.wave_quantisation);
  c.ramp("gemm.ramp_k", gemm.ramp_k);
  c.fraction("gemm.forward", gemm.forward);
  c.fraction("gemm.input_gradient", gemm.input_gradient);
  c.fraction("gemm.weight_gradient", gemm.weight_gradient);
  c.share("gemm.exposed_accumulation", gemm.exposed_accumulation);
  c.fraction("gemm.hbm", gemm.hbm);
  c.duration("gemm.boost", gemm.boost);
  c.fraction("gemm.throttled", gemm.throttled);
  c.fraction("gemm.misaligned", gemm.misaligned);
}

void check_heads(const std::string& field, const std::vector<HeadEfficiency>& table, Checker& c) {
  if (table.empty()) c.report(field, "missing: give the fraction of at least one head size");
  for (std::size_t i = 0; i < table.size(); ++i) {
    const std::string entry = fmt::format("{}[{}]", field, i);
    c.size(entry + ".head_dim", table[i].head_dim);
    c.fraction(entry + ".fraction", table[i].fraction);
    if (i == 0) continue;
    if (table[i].head_dim <= table[i - 1].head_dim) {
      c.report(entry + ".head_dim", "head sizes must ascend: sort the entries");
      continue;
    }
    // A larger head is never cheaper: keeps time() monotone in head_dim.
    if (static_cast<double>(table[i].head_dim) * table[i - 1].fraction <
        static_cast<double>(table[i - 1].head_dim) * table[i].fraction) {
      c.report(entry + ".fraction",
               fmt::format("head size {} would be faster than {}: lower this fraction",
                           table[i].head_dim, table[i - 1].head_dim));
    }
  }
}

void check_attention(const std::string& field, const AttentionProfile& attention, Checker& c) {
  const auto direction = [&](const std::string& name, const AttentionPass& pass) {
    check_heads(name + ".full", pass.full, c);
    check_heads(name + ".causal", pass.causal, c);
    c.ramp(name + ".ramp_keys", pass.ramp_keys);
    c.ramp(name + ".ramp_keys_causal", pass.ramp_keys_causal);
    c.ramp(name + ".tail", pass.tail);
  };
  if (attention.implementation.empty()) {
    c.report(field + ".implementation", "missing: name the kernel, as in \"flash-attention-2\"");
  }
  c.fraction(field + ".sustained", attention.sustained);
  direction(field + ".forward", attention.forward);
  direction(field + ".backward", attention.backward);
  c.size(field + ".block_queries", attention.block_queries);
  c.fraction(field + ".hbm", attention.hbm);
}

void check_host(const HostProfile& host, Checker& c) {
  c.duration("host.kernel", host.kernel);
  c.duration("host.collective", host.collective);
  c.duration("host.point_to_point", host.point_to_point);
  c.duration("host.event", host.event);
  c.duration("host.allocation", host.allocation);
  c.duration("host.release", host.release);
  c.duration("host.cuda_malloc", host.cuda_malloc);
  c.duration("host.cuda_malloc_per_gib", host.cuda_malloc_per_gib);
  c.duration("host.cuda_free", host.cuda_free);
  c.duration("host.synchronisation", host.synchronisation);
  c.duration("host.layer_forward", host.layer_forward);
  c.duration("host.layer_backward", host.layer_backward);
  c.duration("host.experts_forward", host.experts_forward);
  c.duration("host.experts_backward", host.experts_backward);
  c.duration("host.expert", host.expert);
  c.duration("host.microbatch", host.microbatch);
  c.duration("host.step", host.step);
  c.duration("host.loader.mask", host.loader.mask);
  const auto share = [&](const std::string& field, double value, double most) {
    if (!(value >= 0 && value <= most))
      c.report(field, fmt::format("{}: must lie between 0 and {}", value, most));
  };
  share("host.loader.neighbour", host.loader.neighbour, 1);
  share("host.loader.many_documents", host.loader.many_documents, 1);
  share("host.loader.many_documents_extra", host.loader.many_documents_extra, 100);
}

}  // namespace

Diagnostics check(const Profile& profile) {
  Diagnostics problems;
  Checker c(problems);
  c.duration("kernel_overhead", profile.kernel_overhead);
  if (profile.kernel_overhead.ps == 0) {
    c.report("kernel_overhead", "0: every kernel takes time to start, write a few us");
  }
  check_gemm(profile.gemm, c);
  if (profile.attention.empty()) {
    c.report("attention", "missing: give at least one fused attention implementation");
  }
  for (std::size_t i = 0; i < profile.attention.size(); ++i) {
    check_attention(fmt::format("attention[{}]", i), profile.attention[i], c);
  }
  const auto memory_bound = [&](const std::string& name, const MemoryBoundProfile& p) {
    c.fraction(name + ".hbm", p.hbm);
    c.bytes(name + ".ramp", p.ramp);
  };
  memory_bound("norm", profile.norm);
  memory_bound("elementwise", profile.elementwise);
  memory_bound("softmax", profile.softmax);
  memory_bound("copy", profile.copy);
  memory_bound("reduction", profile.reduction);
  memory_bound("optimizer", profile.optimizer);
  memory_bound("embedding", profile.embedding);
  check_host(profile.host, c);
  c.fraction("overlap.compute", profile.overlap.compute);
  c.fraction("overlap.memory", profile.overlap.memory);
  c.fraction("overlap.collective_node", profile.overlap.collective_node);
  c.fraction("overlap.collective_network", profile.overlap.collective_network);
  c.duration("overlap.arrival", profile.overlap.arrival);
  c.bytes("memory.context", profile.memory.context);
  c.bytes("memory.libraries", profile.memory.libraries);
  c.bytes("memory.cublas_workspace", profile.memory.cublas_workspace);
  c.bytes("memory.engine_workspace", profile.memory.engine_workspace);
  c.bytes("memory.unexplained.least", profile.memory.unexplained_least);
  c.bytes("memory.unexplained.bytes",
          profile.memory.unexplained - profile.memory.unexplained_least);
  c.bytes("memory.unexplained.most", profile.memory.unexplained_most - profile.memory.unexplained);
  return problems;
}

}  // namespace sim::device
