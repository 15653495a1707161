// calls.cpp — kernels that belong to one call: memsets and pointer lists before it, repeated
// launches, copies that stand for a collective.
#include "sim/calibrate/trace/calls.h"

#include <catch2/catch.hpp>
#include <map>

namespace sim::calibrate {

namespace {

struct Kernel {
  const char* name;
  KernelFamily family;
  std::int64_t ns = 100'000;
  int stream = 7;
};

// The call of each kernel, numbered in order of appearance.
std::vector<std::size_t> calls_by_kernel(const std::vector<Kernel>& kernels, int copies = 0) {
  MeasuredTrace trace;
  MeasuredStep step;
  for (const Kernel& k : kernels) {
    MeasuredKernel& own = trace.kernels.emplace_back();
    own.name = k.name;
    own.family = k.family;
    own.duration_ns = k.ns;
    own.stream = k.stream;
    if (own.name.starts_with("Memcpy DtoD")) own.copies = copies;
    step.kernels.push_back(static_cast<std::uint32_t>(step.kernels.size()));
  }
  const Calls calls = calls_of(trace, step);
  // The time of every kernel counts once, in its call.
  std::vector<std::int64_t> sums(calls.all.size(), 0);
  for (std::size_t k = 0; k < kernels.size(); ++k) sums[calls.of_kernel[k]] += kernels[k].ns;
  for (std::size_t i = 0; i < sums.size(); ++i) CHECK(calls.all[i].item.nanoseconds == sums[i]);
  std::map<std::uint32_t, std::size_t> numbers;
  std::vector<std::size_t> out;
  for (const std::uint32_t call : calls.of_kernel)
    out.push_back(numbers.try_emplace(call, numbers.size()).first->second);
  return out;
}

using enum KernelFamily;
using Items = std::vector<std::size_t>;

}  // namespace

TEST_CASE("trace: a short clear is of the kernel behind it, a long one stands alone") {
  CHECK(calls_by_kernel({{"Memset (Device)", copy, 900}, {"nvjet", gemm}, {"nvjet", gemm}}) ==
        Items{0, 0, 1});
  CHECK(calls_by_kernel({{"Memset (Device)", copy, 9'000}, {"nvjet", gemm}}) == Items{0, 1});
  // A memset belongs to the next kernel of its own stream. Without a following kernel that needs
  // it, it is a call of its own.
  CHECK(calls_by_kernel(
            {{"Memset (Device)", copy, 900, 8}, {"nvjet", gemm}, {"nvjet", gemm, 1, 8}}) ==
        Items{0, 1, 0});
  CHECK(calls_by_kernel({{"nvjet", gemm}, {"Memset (Device)", copy, 900}}) == Items{0, 1});
  CHECK(calls_by_kernel({{"Memset (Device)", copy, 900}, {"embedding", embedding}}) == Items{0, 1});
}

TEST_CASE("trace: lists of pointers and launches in a row are of one copy, other copies are not") {
  const Kernel list = {"Memcpy HtoD (Pinned -> Device)", copy, 12'000};
  CHECK(calls_by_kernel(
            {list, {"chunk_cat_cuda_kernel", copy}, list, {"split_with_sizes_copy", copy}}) ==
        Items{0, 0, 1, 1});
  CHECK(calls_by_kernel({list, {"embedding", embedding}}) == Items{0, 1});
  const Kernel apply = {"multi_tensor_apply_kernel<Adam>", optimizer};
  CHECK(calls_by_kernel({apply, apply, {"multi_tensor_apply_kernel<Copy>", copy}, apply}) ==
        Items{0, 0, 1, 2});
}

TEST_CASE("trace: copies of a fake process group stand for a gather, so many each") {
  const Kernel one = {"Memcpy DtoD (Device -> Device)", copy};
  CHECK(calls_by_kernel({one, one, one, one, one, one}, 3) == Items{0, 0, 0, 1, 1, 1});
  CHECK(calls_by_kernel({one, one, one}, 1) == Items{0, 1, 2});
  CHECK(calls_by_kernel({one, one, one}, 0) == Items{0, 1, 2});
}

}  // namespace sim::calibrate
