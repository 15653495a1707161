#include "sim/calibrate/trace/align_score.h"

#include <algorithm>
#include <cmath>

namespace sim::calibrate {

namespace {

// Every library runs one kernel per product or attention: these matches are the most certain.
constexpr std::int32_t of_anchor = 20, of_same = 12, of_alike = 6;
// Score if the names of operation and kernel have the same purpose.
constexpr std::int32_t of_agreement = 6;
// Score of each further kernel of a group. A kernel of a foreign family must improve the duration
// to outweigh leaving it out.
constexpr std::int32_t of_piece = 2, of_part = 0, of_stranger = -2;

bool is_pass(KernelFamily family) {
  return passes_over_memory(family);
}

// Operations that libraries run as several kernels of the same family. Passes over memory may be
// split and fused in any way.
bool in_pieces(KernelFamily operation, KernelFamily kernel) {
  if (is_pass(operation)) return is_pass(kernel);
  return operation == KernelFamily::attention_backward && kernel == operation;
}

std::int32_t for_another(KernelFamily operation, KernelFamily kernel) {
  if (in_pieces(operation, kernel)) return of_piece;
  return kernel == KernelFamily::gemm_part ? of_part : of_stranger;
}

std::int32_t for_best(KernelFamily operation, Relation best) {
  if (best != Relation::same) return of_alike;
  return is_pass(operation) ? of_same : of_anchor;
}

bool contradict(Purposes a, Purposes b) {
  return a != 0 && b != 0 && (a & b) == 0;
}

std::int16_t quarters(std::int64_t nanoseconds) {
  return static_cast<std::int16_t>(
      std::lround(4 * std::log2(static_cast<double>(std::max<std::int64_t>(1, nanoseconds)))));
}

// Kernels unknown to programs are mostly short, so a long kernel without an operation costs more.
std::int32_t skip_kernel(std::int64_t nanoseconds) {
  constexpr std::int32_t least = 2, most = 6;
  return std::clamp((quarters(nanoseconds) - quarters(32'000)) / 4 + least, least, most);
}

Relation find_relation(KernelFamily operation, KernelFamily kernel) {
  using enum KernelFamily;
  if (operation == kernel) return Relation::same;
  if (communicates(operation) || communicates(kernel)) {
    // NCCL implements all-to-all by sends and receives
    const bool exchange = operation == all_to_all && kernel == send_receive;
    return exchange                                             ? Relation::same
           : kernel == communication && communicates(operation) ? Relation::alike
                                                                : Relation::none;
  }
  if (passes_over_memory(operation) && passes_over_memory(kernel)) return Relation::alike;
  // Kernels that libraries run around a product or an attention, and kernels with unspecific names.
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
    const Kind kind{operation.family, operation.purposes};
    const auto [at, added] = families_.try_emplace(kind);
    if (added) at->second = of_kind(kind, kernels);
    of_families_.push_back(&at->second);
    // Durations of collectives include waiting, so they do not count.
    timed_.push_back(!communicates(operation.family));
    long_.push_back(quarters(operation.nanoseconds));
  }
  sums_.resize(kernels.size() * longest_group);
  for (std::size_t j = 0; j < kernels.size(); ++j) {
    std::int64_t sum = 0;
    for (std::size_t g = 0; g < longest_group && j + g < kernels.size(); ++g)
      sums_[j * longest_group + g] = quarters(sum += kernels[j + g].nanoseconds);
    skips_.push_back(skips_.back() + skip_kernel(kernels[j].nanoseconds));
  }
}

std::vector<std::int8_t> Score::of_kind(const Kind& kind,
                                        std::span<const AlignItem> kernels) const {
  const auto [family, purposes] = kind;
  std::vector<std::int8_t> out(kernels.size() * longest_group, none);
  for (std::size_t j = 0; j < kernels.size(); ++j) {
    Relation best = Relation::none;
    std::size_t first_best = 0;
    std::int32_t others = 0;
    bool agrees = false;
    for (std::size_t g = 0; g < longest_group && j + g < kernels.size(); ++g) {
      const AlignItem& kernel = kernels[j + g];
      const Relation how = relation(family, kernel.family);
      // A collective is a single kernel.
      if (how == Relation::none || (communicates(family) && g > 0)) break;
      // A pass with a purpose of its own is not a companion of a product.
      if (how == Relation::companion && kernel.purposes != 0) break;
      if (contradict(purposes, kernel.purposes)) break;
      agrees |= (purposes & kernel.purposes) != 0;
      // The kernel with the closest relation is the operation itself; the others accompany it.
      if (how > best) {
        if (g > 0) others += for_another(family, kernels[j + first_best].family);
        best = how;
        first_best = g;
      } else {
        others += for_another(family, kernel.family);
      }
      if (best < Relation::alike) continue;
      out[j * longest_group + g] =
          static_cast<std::int8_t>(for_best(family, best) + others + (agrees ? of_agreement : 0));
    }
  }
  return out;
}

}  // namespace sim::calibrate
