// kernel_names.cpp — the family and library of kernels from their names in recorded traces and
// libraries.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <vector>

#include "sim/calibrate/readers/kernel_family.h"

using namespace sim::calibrate;

namespace {

const std::string path =
    std::string(REHEARSE_SOURCE_DIR) + "/tests/calibrate/data/kernel_names.txt";

// A line "family | library | name" for a kernel. In the file lines with # are comments.
std::string line_of(const std::string& kernel) {
  const KernelKind kind = kind_of_kernel(kernel);
  return std::string(name(kind.family)) + " | " + std::string(kind.library) + " | " + kernel;
}

}  // namespace

TEST_CASE("calibrate: kernels of recorded traces and of libraries have their families") {
  std::vector<std::string> now;
  std::ifstream in(path);
  REQUIRE(in);
  std::size_t names = 0;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line.front() == '#') {
      now.push_back(line);
      continue;
    }
    ++names;
    now.push_back(line_of(line.substr(line.rfind(" | ") + 3)));
    CHECK(now.back() == line);
  }
  CHECK(names > 250);
  if (!std::getenv("REHEARSE_UPDATE")) return;
  std::ofstream out(path);
  for (const std::string& line : now) out << line << "\n";
}

TEST_CASE("calibrate: a collective that adds is a collective, and names of any length are read") {
  CHECK(family_of("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL") == KernelFamily::reduce_scatter);
  CHECK(family_of("") == KernelFamily::other);
  CHECK(family_of(std::string(1 << 20, 'x')) == KernelFamily::other);
  CHECK(communicates(KernelFamily::send_receive));
  CHECK_FALSE(communicates(KernelFamily::fused));
  CHECK(passes_over_memory(KernelFamily::fused));
  CHECK_FALSE(passes_over_memory(KernelFamily::attention_backward));
}

TEST_CASE("calibrate: tables have the names of kernels' functions, as long as these are distinct") {
  const std::string functor = "void at::native::vectorized_elementwise_kernel<4, at::native::";
  const std::string silu =
      functor +
      "(anonymous namespace)::silu_kernel(at::TensorIteratorBase&)::{lambda()#1}, "
      "std::array<char*, 2ul> >(int, std::array<char*, 2ul>)";
  const std::string add = functor + "CUDAFunctor_add<float>, std::array<char*, 3ul> >(int)";
  const std::string reduce =
      "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float> >(int)";
  const std::string cutlass =
      "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_256x64>(int)";
  const std::string copy = "Memcpy DtoD (Device -> Device)",
                    gemm = "nvjet_tst_128x256_64x4_2x1_v_bz_NNT";
  CHECK(short_names({silu, reduce, cutlass, copy, gemm}) ==
        std::vector<std::string>{"vectorized_elementwise_kernel", "reduce_kernel",
                                 "cutlass_80_tensorop_bf16_s16816gemm_bf16_256x64", copy, gemm});
  CHECK(short_names({silu, add}) ==
        std::vector<std::string>{"vectorized_elementwise_kernel<4, silu_kernel, array>",
                                 "vectorized_elementwise_kernel<4, CUDAFunctor_add, array>"});
  const std::string doubles = functor + "CUDAFunctor_add<double>, std::array<char*, 3ul> >(int)";
  CHECK(short_names({add, doubles, add}) == std::vector<std::string>{add, doubles, add});
  CHECK(short_names({"", "a<", "::", "f<(g)1>(x)"}) ==
        std::vector<std::string>{"", "a", "::", "f"});
}
