// step_test.cpp — buckets, master weights and gradients of a step, against Megatron-LM's rules.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "sample.h"

using namespace sim;
using namespace sim::program;

namespace {

// Elements of the buckets that a rank reduces in a step, in order.
std::vector<std::int64_t> buckets(const Program& program, std::int64_t bytes_of_gradient) {
  std::vector<std::int64_t> result;
  sample::each_of_step(program, [&](const Instruction& i) {
    if (i.op != Op::collective) return;
    const Transfer& t = program.transfers[i.index];
    if (t.communicator == Stream::dp_cp && t.kind != collective::Kind::all_gather)
      result.push_back(t.bytes.n / bytes_of_gradient);
  });
  return result;
}

}  // namespace

TEST_CASE("program: a shared embedding is a bucket of its own on the first and the last stage") {
  Plan plan = sample::gpt();
  plan.mesh.pp = 2;
  REQUIRE(problems(plan).empty());
  const Job job = sample::job(plan);
  // 51200 x 1024; the other parameters of the last stage, which has no other bucket limit, follow.
  // Its 4 layers have 12 h^2 + 13 h each, the final norm 2 h; everything is a multiple of 128.
  const std::int64_t h = 1024;
  CHECK(buckets(job.classes[1], 4) ==
        std::vector<std::int64_t>{51200 * h, 4 * (12 * h * h + 13 * h) + 2 * h});
  // On the first stage the table comes last.
  const std::vector<std::int64_t> first = buckets(job.classes[0], 4);
  REQUIRE(!first.empty());
  CHECK(first.back() == 51200 * h);

  // Without the distributed optimizer nothing is sharded, and no parameter has a separate bucket.
  plan.sharding.distributed_optimizer = plan.sharding.overlap_param_gather = false;
  CHECK(buckets(sample::job(plan).classes[1], 4).size() == 1);
}

TEST_CASE("program: bf16 gradients are copied to fp32 from the optimizer step to the next step") {
  Plan plan = sample::llama_8b();
  plan.numerics.fp32_gradients = false;
  const Job job = sample::job(plan);
  const Program& program = job.classes[0];
  sample::Walk walk(program);
  walk.run(program.setup);
  CHECK(walk.bytes("fp32 gradient copy") == 0);
  walk.run(program.first_step);
  // Rank 0 owns a quarter of every bucket: 4,015,263,744 / 4 elements of 4 bytes.
  CHECK(walk.bytes("fp32 gradient copy") == 4'015'263'744);
  std::int64_t in_layers = 0;
  walk.run(program.step, [&](const Instruction&, const Block& block, const sample::Walk& w) {
    if (block.name == "layer forward") in_layers += w.bytes("fp32 gradient copy");
  });
  CHECK(in_layers == 0);
  CHECK(walk.bytes("fp32 gradient copy") == 4'015'263'744);

  const Job wide = sample::job(sample::llama_8b());
  sample::Walk other(wide.classes[0]);
  other.run(wide.classes[0].first_step);
  CHECK(other.bytes("fp32 gradient copy") == 0);
}

TEST_CASE("program: the gradient of learned positions is not summed over tensor parallel ranks") {
  Plan plan = sample::gpt();
  plan.mesh.tp = 2;
  const Job job = sample::job(plan);
  sample::Walk walk(job.classes[0]);
  std::int64_t flattened = 0;
  walk.run(job.classes[0].step, [&](const Instruction& i, const Block&, const sample::Walk& w) {
    if (i.op == Op::alloc && w.name(i) == "flattened norm gradients") flattened += i.value;
  });
  // 8 layers have two norms with weight and bias and two biases of row-parallel products, plus the
  // final norm: h elements each, fp32.
  CHECK(flattened == (8 * 6 + 2) * 1024 * 4);
}

TEST_CASE("program: a microbatch's data comes over PCIe, with the mask that its loader made") {
  Plan plan = sample::llama_8b();
  plan.batch.micro_batch = 2;
  REQUIRE(problems(plan).empty());
  const auto copied = [](const Plan& p) {
    std::int64_t sum = 0;
    const Job job = sample::job(p);
    const Program& program = job.classes[0];
    sample::each_of_step(program, [&](const Instruction& i) {
      if (i.op != Op::kernel) return;
      const model::Operation& o = program.operations[i.index];
      if (o.kind == model::OperationKind::host_copy) sum += o.bytes.n;
    });
    return sum;
  };
  // Words, labels and positions take 8 bytes, the loss mask 4, the attention mask 1 byte per entry.
  // A replica of 4 reads 16 of 64 sequences.
  const std::int64_t s = 8192, sequences = 16;
  CHECK(copied(plan) == sequences * (28 * s + s * s));
  plan.stack.attention_mask = false;
  CHECK(copied(plan) == sequences * 28 * s);
}
