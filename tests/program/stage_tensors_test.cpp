// stage_tensors_test.cpp — tensors that PyTorch's pipeline stages hold longer than a microbatch.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "sample.h"

using namespace sample;

namespace {

constexpr int microbatches = 8;

// Llama-3.1-8B with eight layers on four stages.
Plan staged(const char* schedule = "1f1b", int chunks = 1) {
  Plan p = llama_8b();
  p.architecture.layers = 8;
  p.mesh.tp = 2;
  p.mesh.pp = 4;
  p.mesh.dp = 2;
  p.batch.global_batch = microbatches * p.mesh.dp;
  p.pipeline.schedule = schedule;
  p.pipeline.virtual_stages = chunks;
  p.sharding.data_parallel = DataParallelism::fsdp2;
  return p;
}

// The size of a message: bf16 rows of this rank's tokens.
std::int64_t message(const Plan& p) {
  return 2 * p.batch.micro_batch * (p.batch.sequence / p.mesh.tp) * p.architecture.hidden;
}

// By stage: the bytes alive under a label after `steps` later steps.
std::vector<int> left(const Plan& plan, const std::string& label, int steps = 1) {
  std::vector<int> counts;
  for (const Program& program : job(plan).classes) {
    Walk walk(program);
    walk.run(program.setup);
    walk.run(program.first_step);
    for (int step = 0; step < steps; ++step) walk.run(program.step);
    CHECK(walk.broken().empty());
    CHECK(walk.holds_only_fixed());
    counts.push_back(walk.count(label));
  }
  return counts;
}

// ... and the maximum in one of its backward passes of layers.
int most_beside_layers(const Plan& plan, std::size_t stage, const std::string& label) {
  const Job made = job(plan);
  const Program& program = made.classes[stage];
  Walk walk(program);
  walk.run(program.setup);
  walk.run(program.first_step);
  int most = 0;
  walk.run(program.step, [&](const Instruction&, const Block& block, const Walk& now) {
    if (block.name == "layer backward") most = std::max(most, now.count(label));
  });
  return most;
}

using Counts = std::vector<int>;

}  // namespace

TEST_CASE("program: PyTorch's stages receive into a buffer for each microbatch, for good") {
  constexpr int m = microbatches;
  for (const int steps : {0, 1, 2}) {
    CHECK(left(staged(), "receive buffer", steps) == Counts{0, m, m, m});
    CHECK(left(staged(), "gradient receive buffer", steps) == Counts{m, m, m, 0});
    const Plan chunks = staged("interleaved-1f1b", 2);
    CHECK(left(chunks, "receive buffer", steps) == Counts{m, 2 * m, 2 * m, 2 * m});
    CHECK(left(chunks, "gradient receive buffer", steps) == Counts{2 * m, 2 * m, 2 * m, m});
  }
  const Job made = job(staged());
  Walk walk(made.classes[1]);
  walk.run(made.classes[1].setup);
  CHECK(walk.bytes("receive buffer") == 0);
  walk.run(made.classes[1].first_step);
  CHECK(walk.bytes("receive buffer") == m * message(staged()));
  CHECK(walk.bytes("gradient receive buffer") == m * message(staged()));
  CHECK(walk.seen().count("received activations") == 0);
  // Megatron-LM receives into new tensors.
  Plan whole = staged();
  whole.sharding.data_parallel = DataParallelism::ddp;
  CHECK(left(whole, "receive buffer") == Counts{0, 0, 0, 0});
  Plan alone = staged();
  alone.mesh.pp = 1;
  CHECK(left(alone, "receive buffer") == Counts{0});
}

TEST_CASE("program: what a neighbour on the same rank made takes the place of a receive buffer") {
  // In a V the last stage holds parts 3 and 4. The second half of the model starts there, and its
  // gradient ends there.
  constexpr int m = microbatches;
  const Plan plan = staged("zb-v", 2);
  CHECK(left(plan, "receive buffer") == Counts{m, 2 * m, 2 * m, m});
  CHECK(left(plan, "gradient receive buffer") == Counts{m, 2 * m, 2 * m, m});
  CHECK(left(plan, "residual stream") == Counts{0, 0, 0, m});
  CHECK(left(plan, "gradient stream")[3] == m);
}

TEST_CASE("program: PyTorch's last stage holds its logits until the backward pass has run") {
  Plan plan = staged();
  CHECK(most_beside_layers(plan, 3, "logits") == 1);
  CHECK(left(plan, "logits") == Counts{0, 0, 0, 0});
  plan.sharding.data_parallel = DataParallelism::ddp;
  CHECK(most_beside_layers(plan, 3, "logits") == 0);
}

TEST_CASE("program: older stages of PyTorch keep outputs, and merge the last one's") {
  constexpr int m = microbatches;
  Plan plan = staged();
  const auto merges = [&plan] {
    std::vector<std::int64_t> bytes;
    for (const Program& program : job(plan).classes)
      bytes.push_back(most_in_step(program, "merged outputs"));
    return bytes;
  };
  const std::int64_t logits = 2LL * plan.batch.sequence * (128256 / 2);
  CHECK(merges() == std::vector<std::int64_t>{0, 0, 0, 0});
  plan.pipeline.kept_outputs = KeptOutputs::last_stage;
  for (const int steps : {1, 2}) {
    CHECK(left(plan, "residual stream", steps) == Counts{0, 0, 0, 0});
    CHECK(left(plan, "logits", steps) == Counts{0, 0, 0, m});
  }
  CHECK(merges() == std::vector<std::int64_t>{0, 0, 0, m * logits});
  plan.pipeline.kept_outputs = KeptOutputs::every_stage;
  for (const int steps : {1, 2}) {
    CHECK(left(plan, "residual stream", steps) == Counts{m, m, m, 0});
    CHECK(left(plan, "logits", steps) == Counts{0, 0, 0, m});
  }
  CHECK(merges() == std::vector<std::int64_t>{0, 0, 0, m * logits});
}

TEST_CASE("program: older stages of PyTorch keep the gradients of their inputs") {
  constexpr int m = microbatches;
  Plan plan = staged();
  CHECK(left(plan, "gradient stream") == Counts{0, 0, 0, 0});
  plan.pipeline.kept_input_gradients = true;
  for (const int steps : {1, 2}) CHECK(left(plan, "gradient stream", steps) == Counts{0, m, m, m});
  Plan splits = staged("zb-h1");
  splits.pipeline.kept_input_gradients = true;
  CHECK(left(splits, "gradient stream") == Counts{0, m, m, m});
}
