// kernel.cpp — the promises of kernel.h: on a made-up GPU with times computed by hand, and over a
// sweep of shapes for the three invariants.
#include "sim/cluster/device/kernel.h"

#include <catch2/catch.hpp>
#include <functional>
#include <vector>

#include "sample.h"

namespace sim::device {

using model::GemmRole;
using model::Operation;
using model::OperationKind;
using model::Precision;
using namespace sim::literals;

TEST_CASE("device: a large matrix product takes tiles times block time") {
  // 12800 x 25600 x 900 in tiles of 128 x 256: 100 x 100 tiles = 100 whole rounds over 100 SMs.
  // One block: 2 x 128 x 256 x (900 + 100) flops at 1e12 x 0.8 flop/s = 81.92 us; x 100 = 8192 us.
  const Operation o = model::gemm("x", 12800, 25600, 900);
  CHECK(time(o, sample::gpu(), sample::profile()) == 8192_us + 2_us);
}

TEST_CASE("device: SMs that a collective holds compute nothing of a product beside it") {
  // 100 x 100 tiles as above: 200 whole rounds over 50 SMs.
  Operation o = model::gemm("x", 12800, 25600, 900);
  o.sms_taken = 50;
  CHECK(time(o, sample::gpu(), sample::profile()) == 2 * 8192_us + 2_us);
}

TEST_CASE("device: a power limit slows runs in proportion, and kernels alone after their boost") {
  // 8192 us as above; `throttled` 0.8 is measured at 1,000 W.
  const Operation o = model::gemm("x", 12800, 25600, 900);
  Profile p = sample::profile();
  p.gemm.throttled = 0.8;
  p.gemm.power_w = 1000;
  Gpu gpu = sample::gpu();
  const auto us = [&] { return 1e6 * seconds(time(o, gpu, p)); };
  CHECK(us() == Approx(8192 / 0.8 + 2));
  gpu.power_w = 750;
  CHECK(us() == Approx(8192 / 0.6 + 2));
  gpu.power_w = 1200;  // above the limit that was measured nothing is known
  CHECK(us() == Approx(8192 / 0.8 + 2));
  p.gemm.alone = true;
  p.gemm.boost = Duration{8192'000'000};
  CHECK(us() == Approx(8192 + 2));
  p.gemm.boost = Duration{4096'000'000};
  CHECK(us() == Approx(8192 / 0.8 + 2));
  p.gemm.power_w = 0;  // not known, so the site's limit changes nothing
  gpu.power_w = 500;
  CHECK(us() == Approx(8192 / 0.8 + 2));
}

TEST_CASE("device: a power limit counts against the power of the board and of its profile") {
  GemmProfile gemm;
  Gpu gpu = sample::gpu();
  const auto slowdown = [&](double limit, double rated, double measured) {
    gpu.power_w = limit;
    gpu.rated_power_w = rated;
    gemm.power_w = measured;
    return power_slowdown(gpu, gemm);
  };
  CHECK(slowdown(0, 1000, 1000) == 1);
  CHECK(slowdown(750, 1000, 1000) == Approx(4.0 / 3));
  CHECK(slowdown(1000, 1000, 1000) == 1);
  CHECK(slowdown(400, 400, 700) == 1);  // a board of less power with a borrowed profile
  CHECK(slowdown(200, 400, 700) == 2);
  CHECK(slowdown(1000, 1100, 1000) == 1);
  CHECK(slowdown(300, 400, 0) == Approx(4.0 / 3));
  CHECK(slowdown(300, 0, 0) == 1);  // no power is known
  CHECK(gpu.board_power_w() == 300);
  gpu.power_w = 0;
  gpu.rated_power_w = 400;
  CHECK(gpu.board_power_w() == 400);
}

TEST_CASE("device: an fp32 weight gradient pays its role and part of the accumulation") {
  // The block time above over 0.9; the result, 12800 x 25600, read and written as fp32 is
  // 2.62144e9 bytes at 0.8 TB/s = 3276.8 us, half of it exposed.
  const Operation o = model::gemm("x", 12800, 25600, 900, GemmRole::weight_gradient, true);
  const double expected = 8192e-6 / 0.9 + 3276.8e-6 / 2 + 2e-6;
  CHECK(seconds(time(o, sample::gpu(), sample::profile())) == Approx(expected).epsilon(1e-9));
}

TEST_CASE("device: half of a partly filled round of tiles is paid for") {
  // 150 x 1 tiles = 1.5 rounds, paid as 0.5 x 1.5 + 0.5 x 2 = 1.75 rounds of 81.92 us.
  Profile p = sample::profile();
  p.gemm.tiles = {{128, 256, 1.0}};
  p.gemm.split_k = {1};
  const Operation o = model::gemm("x", 128 * 150, 256, 900);
  CHECK(time(o, sample::gpu(), p).ps == Approx((1.75 * 81.92 + 2) * 1e6).epsilon(1e-9));
}

TEST_CASE("device: a deep product with few tiles is split along k") {
  // 128 x 256 results, k = 40000: one tile on one SM takes 65.536e3 x 40100 / 0.8e12 = 3285 us.
  // Four slices: a block of k = 10000 + 100 = 827.4 us, and 8 x 4 x 32768 bytes = 1.3 us more.
  const Operation o = model::gemm("x", 128, 256, 40000);
  Profile p = sample::profile();
  p.gemm.tiles = {{128, 256, 1.0}};
  const double split = 65536.0 * 10100 / 0.8e12 + 8.0 * 4 * 32768 / 0.8e12 + 2e-6;
  CHECK(seconds(time(o, sample::gpu(), p)) == Approx(split).epsilon(1e-9));
}

TEST_CASE("device: attention forward takes rounds times block time") {
  // 2 sequences x 50 heads x 8 blocks of 128 queries = 800 blocks = 8 rounds. A block: 4 flops x
  // 128 x (1024 + 100) keys x 128 / 0.6 at 1e12 flop/s = 122.77 us.
  const Operation o = model::attention("a", false, 2, 50, 50, 128, 1024, 1024, false);
  const double expected = 8 * 4.0 * 128 * 1124 * 128 / 0.6 / 1e12 + 2e-6;
  CHECK(seconds(time(o, sample::gpu(), sample::profile())) == Approx(expected).epsilon(1e-9));
}

TEST_CASE("device: causal attention computes half of the keys at its own fractions") {
  const Operation o = model::attention("a", true, 2, 50, 50, 128, 1024, 1024, true);
  // 8 rounds and a tail of 0.5; 10 flops x 128 x (512 + 250) queries x 128 / 0.4.
  const double expected = 8.5 * 10.0 * 128 * (512 + 250) * 128 / 0.4 / 1e12 + 2e-6;
  CHECK(seconds(time(o, sample::gpu(), sample::profile())) == Approx(expected).epsilon(1e-9));
}

TEST_CASE("device: so many blocks and no more walk over key blocks in turn") {
  // 2 x 8 heads x 64 blocks of 128 keys = 1024, distributed over 112 on 100 SMs: two rounds of
  // 9.14.
  Operation o = model::attention("a", true, 2, 8, 8, 128, 8192, 8192, true);
  const double block = 10.0 * 128 * (4096 + 250) * 128 / 0.4 / 1e12;
  const double free = (10.24 + 0.5) * block + 2e-6;
  CHECK(seconds(time(o, sample::gpu(), sample::profile())) == Approx(free).epsilon(1e-9));
  o.blocks = 112;
  const double dealt = (2 * 1024 / 112.0 + 0.5) * block + 2e-6;
  CHECK(seconds(time(o, sample::gpu(), sample::profile())) == Approx(dealt).epsilon(1e-9));
  o.blocks = 1025;  // more blocks than work
  CHECK(seconds(time(o, sample::gpu(), sample::profile())) == Approx(free).epsilon(1e-9));
}

TEST_CASE("device: a head size between two known ones costs in between") {
  // Cost per element: 64 / 0.5 = 128 and 128 / 0.6 = 213.3; at 96 the mean, 170.7.
  const auto at = [](std::int64_t d) {
    const Operation o = model::attention("a", false, 2, 50, 50, d, 1024, 1024, false);
    return seconds(time(o, sample::gpu(), sample::profile())) - 2e-6;
  };
  CHECK(at(96) == Approx((at(64) + at(128)) / 2).epsilon(1e-9));
  CHECK(at(32) == Approx(at(64)).epsilon(1e-9));        // padded to the smallest head
  CHECK(at(256) == Approx(2 * at(128)).epsilon(1e-9));  // at the fraction of the largest
}

TEST_CASE("device: a kernel bound by memory takes bytes plus ramp over its bandwidth") {
  // 700 MB, of which 2 MiB are the ramp, at 0.7 TB/s.
  const Operation o = model::memory_bound(OperationKind::norm, "n", {700'000'000 - 2'097'152});
  CHECK(time(o, sample::gpu(), sample::profile()) == 1000_us + 2_us);
  const Operation nothing = model::memory_bound(OperationKind::copy, "n", {0});
  CHECK(time(nothing, sample::gpu(), sample::profile()) == 2_us);
}

TEST_CASE("device: a thin product is bound by memory") {
  // 16384 x 16384 weights against 1 row: 2 x (16384 x 16384 + 2 x 16384) bytes at 0.8 TB/s. With
  // split k the compute bound stays below that.
  Profile p = sample::profile();
  p.gemm.tiles = {{16, 64, 1.0}};
  const Operation o = model::gemm("x", 1, 16384, 16384);
  CHECK(seconds(time(o, sample::gpu(), p)) ==
        Approx(static_cast<double>(o.bytes.n) / 0.8e12 + 2e-6).epsilon(1e-9));
}

namespace {

const std::vector<std::int64_t> dimensions = {
    1, 7, 64, 100, 128, 129, 255, 256, 257, 512, 999, 1024, 1536, 4096, 5120, 8192, 14336, 128256};

// Time never falls along a row of operations, and never beats the roofline.
void check_ascending(const std::function<Operation(std::int64_t)>& make) {
  const Gpu gpu = sample::gpu();
  const Profile profile = sample::profile();
  Duration last{};
  for (const std::int64_t x : dimensions) {
    const Operation o = make(x);
    const Duration t = time(o, gpu, profile);
    CHECK(t.ps > 0);
    CHECK(t >= last);
    CHECK(seconds(t) >= o.flops / gpu.peak(o.precision));
    CHECK(t >= transfer_time(o.bytes, gpu.hbm));
    last = t;
  }
}

}  // namespace

TEST_CASE("device: matrix products never get faster with size nor beat the roofline") {
  for (const bool accumulates : {false, true}) {
    for (const Precision precision : {Precision::bf16, Precision::fp8, Precision::tf32}) {
      for (const std::int64_t a : {1, 100, 2048, 20000}) {
        for (const std::int64_t b : {1, 333, 4096}) {
          const auto make = [&](std::int64_t m, std::int64_t n, std::int64_t k,
                                std::int64_t batch) {
            return model::gemm("x", m, n, k,
                               accumulates ? GemmRole::weight_gradient : GemmRole::forward,
                               accumulates, precision, batch);
          };
          check_ascending([&](std::int64_t x) { return make(x, a, b, 1); });
          check_ascending([&](std::int64_t x) { return make(a, x, b, 1); });
          check_ascending([&](std::int64_t x) { return make(a, b, x, 1); });
          check_ascending([&](std::int64_t x) { return make(a, b, 64, x); });
        }
      }
    }
  }
}

TEST_CASE("device: attention never gets faster with size nor beats the roofline") {
  for (const bool backward : {false, true}) {
    for (const bool causal : {false, true}) {
      for (const std::int64_t a : {1, 200, 8192}) {
        const auto make = [&](std::int64_t batch, std::int64_t heads, std::int64_t d,
                              std::int64_t query, std::int64_t key) {
          return model::attention("a", backward, batch, heads, 1, d, query, key, causal);
        };
        check_ascending([&](std::int64_t x) { return make(x, 8, 128, a, a); });
        check_ascending([&](std::int64_t x) { return make(1, x, 64, a, a); });
        check_ascending([&](std::int64_t x) { return make(1, 8, x, a, a); });
        // Fewer causal queries than keys each walk further.
        check_ascending(
            [&](std::int64_t x) { return make(2, 8, 128, causal ? std::max(x, a) : x, a); });
        check_ascending([&](std::int64_t x) { return make(2, 8, 128, a, x); });
      }
    }
  }
}

TEST_CASE("device: kernels bound by memory never get faster with size nor beat the roofline") {
  for (int kind = static_cast<int>(OperationKind::norm);
       kind <= static_cast<int>(OperationKind::embedding); ++kind) {
    check_ascending([&](std::int64_t x) {
      return model::memory_bound(static_cast<OperationKind>(kind), "p", {x * x});
    });
  }
}

TEST_CASE("device: times are whole and rounded up") {
  // 1 byte over 0.8 TB/s after a ramp of 1 MiB: 1310721.25 ps.
  const Operation o = model::memory_bound(OperationKind::elementwise, "e", {1});
  CHECK(time(o, sample::gpu(), sample::profile()).ps == 2'000'000 + 1'310'722);
}

TEST_CASE("device: a lower sustained rate slows products and leaves memory alone") {
  Profile slow = sample::profile();
  slow.gemm.sustained = 0.5;
  const Operation product = model::gemm("x", 12800, 25600, 900);
  const Operation norm = model::memory_bound(OperationKind::norm, "n", 64_MiB);
  CHECK(time(product, sample::gpu(), slow) == 16384_us + 2_us);
  CHECK(time(norm, sample::gpu(), slow) == time(norm, sample::gpu(), sample::profile()));
}

TEST_CASE("device: a precision is supported when both the GPU and the profile know it") {
  CHECK(supports(sample::gpu(), sample::profile(), Precision::fp8));
  CHECK_FALSE(supports(sample::gpu(), sample::profile(), Precision::fp32));
  Gpu old = sample::gpu();
  old.fp8_flops = 0;
  CHECK_FALSE(supports(old, sample::profile(), Precision::fp8));
}

TEST_CASE("device: attention runs at the rates of its own implementation, else of the first") {
  Profile p = sample::profile();
  p.attention.push_back(p.attention.front());
  p.attention.back().implementation = "slow";
  p.attention.back().sustained = 0.5;
  Operation o = model::attention("a", false, 2, 50, 50, 128, 1024, 1024, false);
  const double first = seconds(time(o, sample::gpu(), p)) - 2e-6;
  o.implementation = "slow";
  CHECK(seconds(time(o, sample::gpu(), p)) == Approx(2 * first + 2e-6).epsilon(1e-9));
  o.implementation = "not measured";
  CHECK(seconds(time(o, sample::gpu(), p)) == Approx(first + 2e-6).epsilon(1e-9));
}

TEST_CASE("device: few thread blocks stream no faster than each of them can") {
  // 8 MB by 8 blocks of 10 GB/s: 100 us, where all SMs need (8 + 2 MiB) / 0.7 TB/s = 14.4 us.
  Profile p = sample::profile();
  p.block_stream = 10_GBps;
  const Operation few = model::memory_bound(OperationKind::norm, "x", Bytes{8'000'000}, 8);
  CHECK(time(few, sample::gpu(), p) == 100_us + 2_us);
  const Operation many = model::memory_bound(OperationKind::norm, "x", Bytes{8'000'000}, 1000);
  const Operation any = model::memory_bound(OperationKind::norm, "x", Bytes{8'000'000});
  CHECK(time(many, sample::gpu(), p) == time(any, sample::gpu(), p));
}

TEST_CASE("device: products whose rows begin at odd addresses are slower") {
  // k = 900 is no multiple of 8 numbers of 16 bits: half the rate doubles the 8192 us above.
  Profile p = sample::profile();
  p.gemm.misaligned = 0.5;
  CHECK(time(model::gemm("x", 12800, 25600, 900), sample::gpu(), p) == 2 * 8192_us + 2_us);
  CHECK(time(model::gemm("x", 12800, 25600, 904), sample::gpu(), p) ==
        time(model::gemm("x", 12800, 25600, 904), sample::gpu(), sample::profile()));
  // A weight gradient runs along tokens, of which there may be any number.
  const auto gradient = [](std::int64_t m, std::int64_t tokens) {
    return model::gemm("x", m, 25600, tokens, GemmRole::weight_gradient);
  };
  CHECK(time(gradient(12800, 900), sample::gpu(), p) ==
        time(gradient(12800, 900), sample::gpu(), sample::profile()));
  CHECK(time(gradient(12801, 900), sample::gpu(), p) >
        time(gradient(12801, 900), sample::gpu(), sample::profile()));
}

}  // namespace sim::device
