// profile.cpp — invalid profiles, and the cost of a collective beside a kernel.
#include "sim/cluster/device/profile.h"

#include <catch2/catch.hpp>
#include <limits>

#include "sample.h"
#include "sim/cluster/device/overlap.h"

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

TEST_CASE("device: each number of a profile has bounds, and says what it may be") {
  const auto fields_of = [](const Profile& p) {
    std::vector<std::string> fields;
    for (const Diagnostic& d : check(p)) fields.push_back(d.where);
    return fields;
  };
  const auto only = [&](const Profile& p, const std::string& field) {
    INFO(field);
    CHECK(fields_of(p) == std::vector<std::string>{field});
  };
  const auto sound = [&](const Profile& p, const std::string& field) {
    INFO(field);
    CHECK(fields_of(p).empty());
  };
  const Profile base = sample::profile();
  // A field of the profile: outside [least, most] it is reported, at the limits it is not.
  const auto number = [&](const std::string& field, auto place, double least, double most) {
    for (const double bad : {-1e-9, most * 1.001, std::numeric_limits<double>::infinity()}) {
      Profile p = base;
      place(p) = bad;
      only(p, field);
    }
    for (const double good : {least, most}) {
      Profile p = base;
      place(p) = good;
      sound(p, field);
    }
    if (least == 0) return;
    Profile p = base;
    place(p) = 0;
    only(p, field);
  };
  const auto duration = [&](const std::string& field, auto place) {
    const Duration longest{1'000'000'000'000'000};
    for (const Duration bad : {Duration{-1}, Duration{longest.ps + 1}}) {
      Profile p = base;
      place(p) = bad;
      only(p, field);
    }
    Profile p = base;
    place(p) = longest;
    sound(p, field);
  };
  const auto bytes = [&](const std::string& field, auto place) {
    for (const Bytes bad : {Bytes{-1}, Bytes{(std::int64_t{1} << 40) + 1}}) {
      Profile p = base;
      place(p) = bad;
      only(p, field);
    }
  };
#define PLACE(member)        \
  [](Profile & p) -> auto& { \
    return p.member;         \
  }
#define FRACTION(member) number(#member, PLACE(member), 1e-9, 1)
#define SHARE(member) number(#member, PLACE(member), 0, 1)
#define DURATION(member) duration(#member, PLACE(member))
#define BYTES(member) bytes(#member, PLACE(member))
  FRACTION(gemm.sustained);
  FRACTION(gemm.forward);
  FRACTION(gemm.input_gradient);
  FRACTION(gemm.weight_gradient);
  FRACTION(gemm.hbm);
  FRACTION(gemm.throttled);
  FRACTION(gemm.misaligned);
  FRACTION(gemm.peaks[0].fraction);
  FRACTION(gemm.tiles[0].efficiency);
  SHARE(gemm.wave_quantisation);
  SHARE(gemm.exposed_accumulation);
  number("gemm.ramp_k", PLACE(gemm.ramp_k), 0, 1e6);
  DURATION(gemm.boost);
  FRACTION(attention[0].sustained);
  FRACTION(attention[0].hbm);
  for (const bool back : {false, true}) {
    const std::string name = back ? "attention[0].backward." : "attention[0].forward.";
    const auto pass = [back](Profile& p) -> AttentionPass& {
      return back ? p.attention[0].backward : p.attention[0].forward;
    };
    const auto ramp = [&](const char* field, double AttentionPass::*member) {
      number(
          name + field, [=](Profile& p) -> double& { return pass(p).*member; }, 0, 1e6);
    };
    ramp("ramp_keys", &AttentionPass::ramp_keys);
    ramp("ramp_keys_causal", &AttentionPass::ramp_keys_causal);
    ramp("tail", &AttentionPass::tail);
  }
  for (const std::int64_t bad : {0, -1, 65537}) {
    Profile p = base;
    p.attention[0].block_queries = bad;
    only(p, "attention[0].block_queries");
  }
  FRACTION(norm.hbm);
  FRACTION(elementwise.hbm);
  FRACTION(softmax.hbm);
  FRACTION(copy.hbm);
  FRACTION(reduction.hbm);
  FRACTION(optimizer.hbm);
  FRACTION(embedding.hbm);
  BYTES(norm.ramp);
  BYTES(embedding.ramp);
  DURATION(kernel_overhead);
  DURATION(host.kernel);
  DURATION(host.collective);
  DURATION(host.point_to_point);
  DURATION(host.event);
  DURATION(host.allocation);
  DURATION(host.release);
  DURATION(host.cuda_malloc);
  DURATION(host.cuda_malloc_per_gib);
  DURATION(host.cuda_free);
  DURATION(host.synchronisation);
  DURATION(host.layer_forward);
  DURATION(host.layer_backward);
  DURATION(host.experts_forward);
  DURATION(host.experts_backward);
  DURATION(host.expert);
  DURATION(host.microbatch);
  DURATION(host.step);
  DURATION(host.loader.mask);
  FRACTION(overlap.compute);
  FRACTION(overlap.memory);
  FRACTION(overlap.collective_node);
  FRACTION(overlap.collective_network);
  DURATION(overlap.arrival);
  BYTES(memory.context);
  BYTES(memory.libraries);
  BYTES(memory.cublas_workspace);
  BYTES(memory.engine_workspace);
#undef PLACE
#undef FRACTION
#undef SHARE
#undef DURATION
#undef BYTES
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
