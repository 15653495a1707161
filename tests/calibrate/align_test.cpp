// align_test.cpp — the assignment of a trace's kernels to a program's operations. Small cases
// against all possible assignments, then cases with extra and missing kernels, as in real traces.
#include "sim/calibrate/trace/align.h"

#include <catch2/catch.hpp>
#include <functional>

#include "sim/base/random.h"

using namespace sim;
using namespace sim::calibrate;
using enum sim::calibrate::KernelFamily;

namespace {

using Items = std::vector<AlignItem>;
using Owners = std::vector<std::int32_t>;

// The best score over all assignments.
std::int64_t best_of_all(const Items& operations, const Items& kernels) {
  std::int64_t best = -1'000'000;
  Owners owners(kernels.size(), -1);
  const std::function<void(std::size_t, std::int32_t)> go = [&](std::size_t k, std::int32_t from) {
    if (k == kernels.size()) {
      const std::int64_t score = alignment_score(operations, kernels, owners);
      best = std::max(best, score);
      return;
    }
    owners[k] = -1;
    go(k + 1, from);
    for (std::int32_t i = from; i < static_cast<std::int32_t>(operations.size()); ++i)
      for (std::size_t g = 1; g <= longest_group && k + g <= kernels.size(); ++g) {
        for (std::size_t n = 0; n < g; ++n) owners[k + n] = i;
        go(k + g, i + 1);
        for (std::size_t n = 0; n < g; ++n) owners[k + n] = -1;
      }
  };
  go(0, 0);
  return best;
}

// A layer: norm, product, attention, product, all-reduce, add.
Items layers(int count) {
  Items all;
  for (int i = 0; i < count; ++i)
    for (const AlignItem& one : Items{{norm, 20'000},
                                      {gemm, 400'000},
                                      {attention_forward, 300'000},
                                      {gemm, 150'000},
                                      {all_reduce, 200'000},
                                      {elementwise, 30'000}})
      all.push_back(one);
  return all;
}

}  // namespace

TEST_CASE("align: no way is better than the one that is found") {
  const KernelFamily families[] = {gemm, gemm_part, elementwise, norm, all_reduce, other};
  Random random(7);
  for (int round = 0; round < 300; ++round) {
    const auto draw = [&](std::uint64_t most) {
      Items items;
      for (std::uint64_t n = (random.next() % (most + 1)); n > 0; --n)
        items.push_back({families[(random.next() % (std::size(families)))],
                         std::int64_t{1000} << (random.next() % (6))});
      return items;
    };
    const Items operations = draw(4), kernels = draw(5);
    const Owners found = align(operations, kernels);
    REQUIRE(found.size() == kernels.size());
    CHECK(alignment_score(operations, kernels, found) == best_of_all(operations, kernels));
  }
}

TEST_CASE("align: a trace as expected is matched one to one, also of 100,000 kernels") {
  const Items operations = layers(17'000);  // 102,000
  const Owners owners = align(operations, operations);
  bool exact = true;
  for (std::size_t i = 0; i < owners.size(); ++i)
    exact &= owners[i] == static_cast<std::int32_t>(i);
  CHECK(exact);
}

TEST_CASE("align: casts and sums of slices belong to their product, strangers to nobody") {
  const Items operations = {{gemm, 100'000}, {norm, 20'000}, {gemm, 100'000}};
  // Split-K: the kernel that sums the slices belongs to the product. The plan has no broadcast.
  const Items kernels = {
      {gemm, 80'000}, {gemm_part, 20'000}, {broadcast, 900'000}, {norm, 20'000}, {gemm, 100'000}};
  CHECK(align(operations, kernels) == Owners{0, 0, -1, 1, 2});
}

TEST_CASE("align: one operation stands for a run of passes that libraries made of it") {
  // The rotary embedding as three kernels: cast, product, cast. A long kernel must get an owner.
  const Purposes rope = purposes_of_label("rope q"), add = purposes_of_label("residual add");
  const Items operations = {
      {gemm, 100'000}, {elementwise, 60'000, rope}, {elementwise, 30'000, add}};
  const Items kernels = {{gemm, 100'000},
                         {copy, 60'000},
                         {elementwise, 240'000, rope},
                         {copy, 60'000},
                         {elementwise, 30'000, add}};
  CHECK(align(operations, kernels) == Owners{0, 1, 1, 1, 2});
}

TEST_CASE("align: a kernel whose name says another purpose is never an operation's") {
  const Purposes rope = purposes_of_label("rope q"), norm_ = purposes_of_label("norm");
  // A kernel of the operation's duration and family, but with another purpose, is not assigned. Nor
  // is it assigned to a neighbouring product.
  CHECK(align(Items{{elementwise, 50'000, norm_}}, Items{{elementwise, 50'000, rope}}) ==
        Owners{-1});
  CHECK(align(Items{{gemm, 90'000}}, Items{{gemm, 60'000}, {elementwise, 30'000, rope}}) ==
        Owners{0, -1});
  CHECK(align(Items{{elementwise, 50'000, norm_}}, Items{{elementwise, 50'000}}) == Owners{0});
}

TEST_CASE("align: purposes are read from labels and from names, several from what is fused") {
  const Purposes norm_ = purposes_of_label("norm to fp32"), add = purposes_of_label("residual add");
  CHECK((norm_ & add) == 0);
  CHECK(purposes_of_kernel("triton_red_fused__fused_rms_norm__unsafe_view_add_6") == (norm_ | add));
  CHECK(purposes_of_label("gradient norm") != norm_);
  CHECK(purposes_of_kernel("void LpNormFunctor<float>") == purposes_of_label("gradient norm"));
  CHECK(purposes_of_kernel("chunk_cat_cuda_kernel") == purposes_of_label("reduce-scatter copy-in"));
  CHECK(purposes_of_kernel("triton_poi_fused__to_copy_view_3") == 0);
  CHECK(purposes_of_label("qkv") == 0);
}

TEST_CASE("align: missing kernels and repeated layers do not shift what follows") {
  const Items operations = layers(400);
  Items kernels;
  Owners truth;
  Random random(3);
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const KernelFamily family = operations[i].family;
    if (family == elementwise && (random.next() % (4)) == 0) continue;  // fused into another
    kernels.push_back({family, operations[i].nanoseconds *
                                   (90 + static_cast<std::int64_t>((random.next() % (20)))) / 100});
    truth.push_back(static_cast<std::int32_t>(i));
    if ((random.next() % (5)) == 0) {
      kernels.push_back({broadcast, 2'000});
      truth.push_back(-1);
    }
  }
  const Owners found = align(operations, kernels);
  std::size_t right = 0;
  for (std::size_t k = 0; k < found.size(); ++k) right += found[k] == truth[k];
  CHECK(right >= found.size() * 98 / 100);
  for (std::size_t k = 0; k < found.size(); ++k)
    if (kernels[k].family == gemm || kernels[k].family == all_reduce) CHECK(found[k] == truth[k]);
}

TEST_CASE("align: relations hold both ways where they should") {
  CHECK(relation(all_to_all, send_receive) == Relation::same);  // NCCL's own way
  CHECK(relation(all_reduce, all_gather) == Relation::none);
  CHECK(relation(norm, fused) == Relation::alike);
  CHECK(relation(gemm, gemm_part) == Relation::companion);
  CHECK(relation(gemm, norm) == Relation::none);
  CHECK(relation(elementwise, gemm) == Relation::none);
  CHECK(align({}, layers(1)) == Owners(6, -1));
  CHECK(align(layers(1), {}).empty());
}
