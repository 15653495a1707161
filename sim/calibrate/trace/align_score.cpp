#include "sim/calibrate/trace/align_score.h"

#include <algorithm>
#include <cmath>

namespace sim::calibrate {

namespace {

constexpr std::int32_t of_same = 12, of_alike = 6;
// Further kernels of a group. What no family explains must bring the time nearer to count more than
// a kernel that is left alone.
constexpr std::int32_t of_piece = 1, of_part = 0, of_stranger = -2;

// Operations that libraries make of several kernels of the same family.
bool in_pieces(KernelFamily family) {
  using enum KernelFamily;
  return family == attention_backward || family == norm || family == softmax ||
         family == optimizer || family == embedding;
}

std::int32_t for_another(KernelFamily operation, KernelFamily kernel, Relation how) {
  if (how == Relation::same && in_pieces(operation)) return of_piece;
  return kernel == KernelFamily::gemm_part ? of_part : of_stranger;
}

std::int16_t quarters(std::int64_t nanoseconds) {
  return static_cast<std::int16_t>(
      std::lround(4 * std::log2(static_cast<double>(std::max<std::int64_t>(1, nanoseconds)))));
}

Relation find_relation(KernelFamily operation, KernelFamily kernel) {
  using enum KernelFamily;
  if (operation == kernel) return Relation::same;
  if (communicates(operation) || communicates(kernel)) {
    const bool exchange = operation == all_to_all && kernel == send_receive;  // NCCL's own way
    return exchange                                             ? Relation::same
           : kernel == communication && communicates(operation) ? Relation::alike
                                                                : Relation::none;
  }
  if (passes_over_memory(operation) && passes_over_memory(kernel)) return Relation::alike;
  // What libraries do around a product or an attention; kernels that no name tells apart.
  if (kernel == gemm_part || kernel == other) return Relation::companion;
  if (kernel == copy || kernel == elementwise || kernel == reduction || kernel == fused)
    return Relation::companion;
  return Relation::none;
}

}  // namespace

Relation relation(KernelFamily operation, KernelFamily kernel) {
  static const auto table = [] {
    std::array<std::array<Relation, kernel_family_count>, kernel_family_count> all{};
    for (int a = 0; a < kernel_family_count; ++a)
      for (int b = 0; b < kernel_family_count; ++b)
        all[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)] =
            find_relation(static_cast<KernelFamily>(a), static_cast<KernelFamily>(b));
    return all;
  }();
  return table[static_cast<std::size_t>(operation)][static_cast<std::size_t>(kernel)];
}

Score::Score(std::span<const AlignItem> operations, std::span<const AlignItem> kernels) {
  for (const AlignItem& operation : operations) {
    const auto [at, added] = families_.try_emplace(operation.family);
    if (added) at->second = of_family(operation.family, kernels);
    of_families_.push_back(&at->second);
    // How long a collective waits says nothing of it.
    timed_.push_back(!communicates(operation.family));
    long_.push_back(quarters(operation.nanoseconds));
  }
  sums_.resize(kernels.size() * longest_group);
  for (std::size_t j = 0; j < kernels.size(); ++j) {
    std::int64_t sum = 0;
    for (std::size_t g = 0; g < longest_group && j + g < kernels.size(); ++g)
      sums_[j * longest_group + g] = quarters(sum += kernels[j + g].nanoseconds);
  }
}

std::vector<std::int8_t> Score::of_family(KernelFamily family,
                                          std::span<const AlignItem> kernels) const {
  std::vector<std::int8_t> out(kernels.size() * longest_group, none);
  for (std::size_t j = 0; j < kernels.size(); ++j) {
    Relation best = Relation::none;
    std::int32_t others = 0;
    for (std::size_t g = 0; g < longest_group && j + g < kernels.size(); ++g) {
      const KernelFamily own = kernels[j + g].family;
      const Relation how = relation(family, own);
      // A collective is one kernel.
      if (how == Relation::none || (communicates(family) && g > 0)) break;
      // The best of them is what the operation is, the others are beside it.
      const Relation worse = std::min(best, how);
      if (g > 0) others += for_another(family, worse == how ? own : family, worse);
      best = std::max(best, how);
      if (best < Relation::alike) continue;
      out[j * longest_group + g] =
          static_cast<std::int8_t>((best == Relation::same ? of_same : of_alike) + others);
    }
  }
  return out;
}

}  // namespace sim::calibrate
