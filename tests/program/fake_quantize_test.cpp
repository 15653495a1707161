// fake_quantize_test.cpp — quantisation-aware training: the number of roundings of each operand,
// the rounded tensors that are kept, the cost of clipping, and refused plans.
#include <catch2/catch.hpp>
#include <string>

#include "sample.h"

using namespace sample;

namespace {

Plan rounded(FakeQuantization what) {
  Plan p = llama_8b();
  p.architecture.layers = 4;
  p.stack.gradient_accumulation_fusion = false;
  p.numerics.fake_quantization = what;
  return p;
}

// Bytes that kernels of this name move in a step.
std::int64_t moved(const Plan& plan, const std::string& name) {
  REQUIRE(rules(plan).empty());
  const Job built = job(plan);
  const Program& program = built.classes.front();
  std::int64_t bytes = 0;
  each_of_step(program, [&](const Instruction& i) {
    if (i.op != Op::kernel) return;
    const model::Operation& o = program.operations[i.index];
    if (o.name == name) bytes += o.bytes.n;
  });
  return bytes;
}

// For all layers of a rank, and for one microbatch.
std::int64_t weight_bytes(const Plan& p) {
  const model::Architecture& a = p.architecture;
  return 2 * a.layers * a.hidden * (2 * a.query_width() + 2 * a.kv_width() + 3 * a.ffn) / p.mesh.tp;
}
std::int64_t input_bytes(const Plan& p) {
  const model::Architecture& a = p.architecture;
  const std::int64_t tokens = p.batch.micro_batch * p.batch.sequence;
  const int rows = p.uses_sequence_parallel() ? p.mesh.tp : 1;
  return 2 * a.layers * tokens * (2 * a.hidden / rows + (a.query_width() + a.ffn) / p.mesh.tp);
}

std::int64_t most_alive(const Plan& plan, const std::string& label) {
  const Job built = job(plan);
  Walk walk(built.classes.front());
  walk.run(built.classes.front().setup);
  std::int64_t most = 0;
  walk.run(built.classes.front().step, [&](const Instruction&, const Block&, const Walk& live) {
    most = std::max(most, live.bytes(label));
  });
  return most;
}

}  // namespace

TEST_CASE("program: each forward pass rounds the operands of the layers' products") {
  for (const bool sequence_parallel : {true, false})
    for (const Recompute recompute : {Recompute::none, Recompute::full}) {
      Plan plan = rounded(FakeQuantization::operands);
      plan.mesh.sequence_parallel = sequence_parallel;
      plan.policy.recompute = recompute;
      const std::int64_t passes = plan.microbatches() * (recompute == Recompute::full ? 2 : 1);
      CHECK(moved(plan, "rounded weight") == 2 * passes * weight_bytes(plan));
      CHECK(moved(plan, "rounded input") == 2 * passes * input_bytes(plan));
      plan.numerics.fake_quantization = FakeQuantization::weights;
      CHECK(moved(plan, "rounded weight") == 2 * passes * weight_bytes(plan));
      CHECK(moved(plan, "rounded input") == 0);
    }
}

TEST_CASE("program: gradients are clipped once a microbatch, whatever runs again") {
  for (const Recompute recompute : {Recompute::none, Recompute::full}) {
    Plan plan = rounded(FakeQuantization::operands);
    plan.policy.recompute = recompute;
    CHECK(moved(plan, "clipped weight gradient") == 0);
    CHECK(moved(plan, "clipped input gradient") == 0);
    plan.numerics.fake_quantization_clips = true;
    CHECK(moved(plan, "clipped weight gradient") == 3 * plan.microbatches() * weight_bytes(plan));
    CHECK(moved(plan, "clipped input gradient") == 3 * plan.microbatches() * input_bytes(plan));
  }
}

TEST_CASE("program: what is rounded stays for its backward pass, in the place of what it was") {
  Plan plan = rounded(FakeQuantization::operands);
  CHECK(most_alive(plan, "rounded weight") == weight_bytes(plan));
  CHECK(most_alive(plan, "rounded input") == input_bytes(plan));
  const std::int64_t norms =
      2 * plan.batch.micro_batch * plan.batch.sequence * plan.architecture.hidden / plan.mesh.tp;
  CHECK(most_alive(plan, "norm output") == norms);
  plan.numerics.fake_quantization_clips = true;
  CHECK(most_alive(plan, "norm output") == 2 * plan.architecture.layers * norms);
  plan.policy.recompute = Recompute::full;
  CHECK(most_alive(plan, "rounded weight") == weight_bytes(plan) / plan.architecture.layers);
  // A copy of the weights for each microbatch in flight.
  plan = rounded(FakeQuantization::weights);
  plan.mesh.pp = 4;
  CHECK(most_alive(plan, "rounded weight") == 4 * weight_bytes(plan) / 4);
}

TEST_CASE("program: what quantisation-aware training does not go with is said") {
  Plan p = rounded(FakeQuantization::weights);
  REQUIRE(rules(p).empty());
  p.stack.gradient_accumulation_fusion = true;
  p.numerics.fp8 = true;
  p.stack.tp_comm_overlap = true;
  const std::string said = rules(p);
  CHECK(said.find("gradient_accumulation_fusion: fake_quantization makes each weight's gradient "
                  "pass what is rounded") != std::string::npos);
  CHECK(said.find("fp8: fake_quantization rounds operands of products in 16 bits; write fp8 "
                  "false") != std::string::npos);
  CHECK(said.find("tp_comm_overlap: fake_quantization has products of their own kind") !=
        std::string::npos);
  p = rounded(FakeQuantization::none);
  p.numerics.fake_quantization_clips = true;
  CHECK(rules(p) ==
        "fake_quantization_clips: fake_quantization_clips says how gradients pass what is rounded; "
        "write fake_quantization weights or operands\n");
}
