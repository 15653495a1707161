// calls.cpp — kernels of one call: clears and lists in front, casts behind, launches in a row.
#include "sim/calibrate/trace/calls.h"

#include <catch2/catch.hpp>
#include <numeric>

namespace sim::calibrate {

namespace {

struct Kernel {
  const char* name;
  KernelFamily family;
  std::int64_t ns = 100'000;
  int stream = 7;
};

// The item of each kernel.
std::vector<std::size_t> items_of(const std::vector<Kernel>& kernels, int ranks = 0,
                                  std::vector<int> streams = {7}) {
  MeasuredTrace trace;
  for (const Kernel& k : kernels) {
    MeasuredKernel& own = trace.kernels.emplace_back();
    own.name = k.name;
    own.family = k.family;
    own.duration_ns = k.ns;
    own.stream = k.stream;
  }
  std::vector<std::uint32_t> all(kernels.size());
  std::iota(all.begin(), all.end(), 0u);
  const Calls calls = calls_of(trace, all, streams, ranks);
  // Every kernel's time is in its item, once.
  std::vector<std::int64_t> sums(calls.items.size(), 0);
  for (std::size_t k = 0; k < kernels.size(); ++k)
    if (calls.item_of[k] != Calls::elsewhere) sums[calls.item_of[k]] += kernels[k].ns;
  for (std::size_t i = 0; i < sums.size(); ++i) CHECK(calls.items[i].nanoseconds == sums[i]);
  return calls.item_of;
}

using enum KernelFamily;
using Items = std::vector<std::size_t>;
constexpr std::size_t none = Calls::elsewhere;

}  // namespace

TEST_CASE("trace: a short clear is of the kernel behind it, a long one stands alone") {
  CHECK(items_of({{"Memset (Device)", copy, 900}, {"nvjet", gemm}, {"nvjet", gemm}}) ==
        Items{0, 0, 1});
  CHECK(items_of({{"Memset (Device)", copy, 9'000}, {"nvjet", gemm}}) == Items{0, 1});
  // On its own stream; nothing behind it: alone.
  CHECK(items_of({{"Memset (Device)", copy, 900, 8}, {"nvjet", gemm}, {"nvjet", gemm, 1, 8}}, 0,
                 {7, 8}) == Items{1, 0, 1});
  CHECK(items_of({{"nvjet", gemm}, {"Memset (Device)", copy, 900}}) == Items{0, 1});
  CHECK(items_of({{"Memset (Device)", copy, 900, 9}, {"nvjet", gemm}}) == Items{none, 0});
}

TEST_CASE("trace: attention's backward is one call with its rows and its cast") {
  CHECK(items_of({{"Memset (Device)", copy, 900},
                  {"compute_dot_do_o_specialized", other},
                  {"sdpa bprop", attention_backward},
                  {"convert_dq_to_16bits", other},
                  {"reduce_kernel", reduction}}) == Items{0, 0, 0, 0, 1});
  CHECK(items_of({{"dot_do_o", other}, {"nvjet", gemm}, {"convert_dq", other}}) ==
        Items{0, 1, 2});
}

TEST_CASE("trace: lists of pointers and launches in a row are of one copy, other copies are not") {
  const Kernel list = {"Memcpy HtoD (Pinned -> Device)", copy, 12'000};
  CHECK(items_of({list, {"chunk_cat_cuda_kernel", copy}, list, {"split_with_sizes_copy", copy}}) ==
        Items{0, 0, 1, 1});
  CHECK(items_of({list, {"embedding", embedding}}) == Items{0, 1});
  const Kernel apply = {"multi_tensor_apply_kernel<Adam>", optimizer};
  CHECK(items_of({apply, apply, {"multi_tensor_apply_kernel<Copy>", optimizer}, apply}) ==
        Items{0, 0, 1, 2});
}

TEST_CASE("trace: copies carry a collective among so many ranks") {
  const Kernel one = {"Memcpy DtoD (Device -> Device)", copy};
  CHECK(items_of({one, one, one, one, one, one}, 4) == Items{0, 0, 0, 1, 1, 1});
  CHECK(items_of({one, one, one}, 2) == Items{0, 1, 2});
  CHECK(items_of({one, one, one}, 0) == Items{0, 1, 2});
  CHECK(items_of({one, {"ncclDevKernel_AllGather", all_gather}, one, one}, 3) ==
        Items{0, 1, 2, 2});
}

}  // namespace sim::calibrate
