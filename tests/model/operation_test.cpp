#include "sim/model/operation.h"

#include <catch2/catch.hpp>

namespace sim::model {

TEST_CASE("operation: a product counts 2mnk FLOPs and moves each operand once") {
  const Operation o = gemm("fc1", 8192, 14336, 4096);
  CHECK(o.flops == 2.0 * 8192 * 14336 * 4096);
  CHECK(o.bytes == Bytes{2 * (8192LL * 4096 + 4096LL * 14336 + 8192LL * 14336)});
  CHECK(gemm("fc1", 8, 16, 32, GemmRole::forward, false, Precision::bf16, 3).flops == 3 * 8192.0);
}

TEST_CASE("operation: an accumulating weight gradient reads and writes its fp32 sum") {
  const Operation plain = gemm("w", 64, 32, 128, GemmRole::weight_gradient);
  const Operation sum = gemm("w", 64, 32, 128, GemmRole::weight_gradient, true);
  CHECK(sum.bytes - plain.bytes == Bytes{(8 - 2) * 64 * 32});
  CHECK(sum.flops == plain.flops);
}

TEST_CASE("operation: fused attention runs two products forward and five backward") {
  const Operation f = attention("core", false, 2, 32, 8, 128, 8192, 8192, false);
  const Operation b = attention("core", true, 2, 32, 8, 128, 8192, 8192, false);
  CHECK(f.flops == 2 * 2.0 * 2 * 32 * 8192 * 8192 * 128);
  CHECK(b.flops == 2.5 * f.flops);
  CHECK(attention("core", false, 2, 32, 8, 128, 8192, 8192, true).flops == f.flops / 2);
  // q and out of 32 heads, k and v of 8: 2 bytes x 2 x 8192 x 128 x (2 x 32 + 2 x 8).
  CHECK(f.bytes == Bytes{2LL * 2 * 8192 * 128 * 80});
}

TEST_CASE("operation: a pass over memory has bytes and no FLOPs") {
  const Operation o = memory_bound(OperationKind::norm, "norm", Bytes{4096});
  CHECK(o.flops == 0);
  CHECK(o.bytes == Bytes{4096});
}

}  // namespace sim::model
