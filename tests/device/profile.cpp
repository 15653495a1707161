// What a profile may not say, and what a collective beside a kernel costs.
#include "sim/device/profile.h"

#include <catch2/catch.hpp>
#include <limits>

#include "sample.h"
#include "sim/device/overlap.h"

namespace sim::device {

using namespace sim::literals;
using model::OperationKind;

TEST_CASE("device: a physical profile has no problems") {
  CHECK(check(sample::profile()).empty());
}

TEST_CASE("device: every unphysical number of a profile is named in one go") {
  Profile p = sample::profile();
  p.gemm.sustained = 1.01;
  p.kernel_overhead = {0};
  p.gemm.peaks[1].fraction = 0;
  p.gemm.tiles[2].m = -64;
  p.gemm.ramp_k = std::numeric_limits<double>::quiet_NaN();
  p.norm.hbm = -0.5;
  p.copy.ramp = {-1};
  p.host.kernel = {-5};
  p.host.loader = {{-1}, 2, -0.5, 1000};
  p.overlap.memory = 2;
  p.memory.context = {-1};
  std::vector<std::string> fields;
  for (const Diagnostic& d : check(p)) fields.push_back(d.where);
  CHECK(fields == std::vector<std::string>{
                      "kernel_overhead", "gemm.peaks[1].fraction", "gemm.sustained",
                      "gemm.tiles[2].m", "gemm.ramp_k", "norm.hbm", "copy.ramp", "host.kernel",
                      "host.loader.mask", "host.loader.neighbour", "host.loader.many_documents",
                      "host.loader.many_documents_extra", "overlap.memory", "memory.context"});
}

TEST_CASE("device: a profile that lacks a table says which") {
  Profile p;
  p.kernel_overhead = 1_us;
  std::vector<std::string> fields;
  for (const Diagnostic& d : check(p)) fields.push_back(d.where);
  CHECK(fields == std::vector<std::string>{"gemm.peaks", "gemm.tiles", "attention"});
}

TEST_CASE("device: head sizes ascend and a larger head is never cheaper") {
  Profile p = sample::profile();
  p.attention[0].forward.full = {{64, 0.3}, {128, 0.7}};  // 128 / 0.7 < 64 / 0.3
  p.attention[0].backward.causal = {{128, 0.4}, {64, 0.3}};
  std::vector<std::string> fields;
  for (const Diagnostic& d : check(p)) fields.push_back(d.where);
  CHECK(fields == std::vector<std::string>{"attention[0].forward.full[1].fraction",
                                           "attention[0].backward.causal[1].head_dim"});
}

TEST_CASE("device: a collective takes its SMs from compute and bandwidth from memory kernels") {
  const Gpu gpu = sample::gpu();
  const Profile p = sample::profile();
  // 25 of 100 SMs gone, 0.95 of the rest.
  CHECK(kernel_rate(OperationKind::gemm, gpu, p, 25) == Approx(0.75 * 0.95));
  CHECK(kernel_rate(OperationKind::attention_backward, gpu, p, 25) == Approx(0.75 * 0.95));
  CHECK(kernel_rate(OperationKind::norm, gpu, p, 25) == Approx(0.8));
  CHECK(kernel_rate(OperationKind::gemm, gpu, p, 0) == 1);
  CHECK(collective_rate(p, false) == 0.9);
  CHECK(collective_rate(p, true) == 0.97);
}

}  // namespace sim::device
