#include "sim/program/plan/plan.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <vector>

namespace {

using sim::program::Plan;
using Change = std::function<void(Plan&)>;

// Llama-3.1-8B's shape: 32 layers, 32 heads, 8 key-value heads.
Plan possible() {
  Plan plan;
  plan.architecture.layers = 32;
  plan.architecture.hidden = 4096;
  plan.architecture.ffn = 14336;
  plan.architecture.heads = 32;
  plan.architecture.kv_heads = 8;
  plan.architecture.head_dim = 128;
  plan.architecture.vocab = 128256;
  plan.architecture.max_positions = 131072;
  plan.mesh.tp = 2;
  plan.mesh.pp = 2;
  plan.mesh.dp = 8;
  plan.batch.global_batch = 1024;
  plan.batch.sequence = 8192;
  return plan;
}

std::vector<std::string> problems_after(const Change& change) {
  Plan plan = possible();
  change(plan);
  std::vector<std::string> messages;
  for (const sim::Diagnostic& problem : sim::program::problems(plan))
    messages.push_back(problem.message);
  return messages;
}

struct Case {
  const char* what;
  Change change;
  const char* said;  // part of the message
};

const std::vector<Case>& broken() {
  static const std::vector<Case> cases = {
      {"tp and heads", [](Plan& p) { p.mesh.tp = 3; },
       "tp 3 does not divide the 32 attention heads"},
      {"values for tp", [](Plan& p) { p.mesh.tp = 3; }, "tp may be 1, 2, 4, 8, 16 or 32"},
      {"tp and groups", [](Plan& p) { p.mesh.tp = 16; },
       "tp 16 does not divide the 8 key-value heads"},
      {"tp and MLP", [](Plan& p) { p.architecture.ffn = 14337; }, "14337 columns of the MLP"},
      {"pp and layers", [](Plan& p) { p.mesh.pp = 3; }, "pp may be 1, 2, 4, 8, 16 or 32"},
      {"batch", [](Plan& p) { p.mesh.dp = 3; }, "3 x 1 = 3; write 1023 or 1026"},
      {"batch below", [](Plan& p) { p.mesh.dp = 2048; }, "write 2048"},
      {"cp parts", [](Plan& p) { p.mesh.cp = 3; }, "2 x cp = 6 parts; write 8190 or 8196"},
      {"sp", [](Plan& p) { p.batch.sequence = 8191; }, "write sequence 8190 or 8192"},
      {"cp unfused",
       [](Plan& p) {
         p.mesh.cp = 2;
         p.stack.attention = sim::program::AttentionBackend::unfused;
       },
       "write attention flash or cudnn"},
      {"learned positions",
       [](Plan& p) {
         p.architecture.position = sim::model::Position::learned;
         p.architecture.max_positions = 2048;
       },
       "table of 2048 learned positions"},
      {"schedule", [](Plan& p) { p.pipeline.schedule = "1f1bb"; }, "did you mean '1f1b'?"},
      {"shape", [](Plan& p) { p.pipeline.virtual_stages = 2; }, "schedule 1f1b: "},
      {"interleaving",
       [](Plan& p) {
         p.pipeline.schedule = "interleaved-1f1b";
         p.pipeline.virtual_stages = 3;
       },
       "virtual_stages 3 does not divide the 16 layers of a stage; it may be 1, 2, 4, 8 or 16"},
      {"uniform recompute",
       [](Plan& p) {
         p.policy.recompute = sim::program::Recompute::full;
         p.policy.recompute_layers = 3;
       },
       "recompute_layers may be 1, 2, 4, 8 or 16"},
      {"block recompute",
       [](Plan& p) {
         p.policy.recompute = sim::program::Recompute::full;
         p.policy.recompute_method = sim::program::RecomputeMethod::block;
         p.policy.recompute_layers = 17;
       },
       "may be 0 to 16"},
      {"parameter gather", [](Plan& p) { p.sharding.distributed_optimizer = false; },
       "overlap_param_gather needs distributed_optimizer"},
      {"gather without reduce", [](Plan& p) { p.sharding.overlap_grad_reduce = false; },
       "overlap_param_gather needs overlap_grad_reduce"},
      {"fp8", [](Plan& p) { p.numerics.precision = sim::model::Precision::fp8; },
       "one of bf16, fp16"},
      {"zero", [](Plan& p) { p.mesh.tp = 0; }, "tp is 0; it must be 1 to 1048576"},
      {"negative", [](Plan& p) { p.batch.micro_batch = -1; }, "micro_batch is -1"},
      {"too many ranks", [](Plan& p) { p.mesh.tp = p.mesh.pp = p.mesh.dp = 1 << 20; },
       "more than 1048576 ranks"},
      {"too long a ring", [](Plan& p) { p.mesh.cp = 512; }, "cp is 512; it must be 1 to 256"},
      {"too large", [](Plan& p) { p.batch.sequence = 1 << 26; }, "a single tensor"},
      {"no model", [](Plan& p) { p.architecture = {}; }, "number of layers is 0"},
  };
  return cases;
}

}  // namespace

TEST_CASE("program: a plan that keeps every rule has no problems") {
  CHECK(problems_after([](Plan&) {}).empty());
  CHECK(problems_after([](Plan& p) {
          p.pipeline.schedule = "interleaved-1f1b";
          p.pipeline.virtual_stages = 4;
        }).empty());
  // Sequence parallelism is off at tp 1, so an odd sequence is possible there.
  CHECK(problems_after([](Plan& p) {
          p.mesh.tp = 1;
          p.batch.sequence = 8191;
        }).empty());
}

TEST_CASE("program: each broken rule is named with the values that would do") {
  for (const Case& one : broken()) {
    CAPTURE(one.what);
    const auto found = problems_after(one.change);
    std::string all;
    for (const std::string& text : found) all += text + '\n';
    CAPTURE(all);
    CHECK(all.find(one.said) != std::string::npos);
  }
}

TEST_CASE("program: all broken rules are named at once") {
  // tp 3 does not divide heads, key-value heads, the MLP (14336 = 3 x 4778 + 2) and 8192. pp 5 does
  // not divide the layers, dp 7 not the batch.
  const auto found = problems_after([](Plan& p) {
    p.mesh.tp = 3;
    p.mesh.pp = 5;
    p.mesh.dp = 7;
  });
  CHECK(found.size() == 6);
}

TEST_CASE("program: more microbatches than are replayed are refused with what would do") {
  const auto found = [](int batch) {
    return problems_after([&](Plan& p) {
      p.mesh.dp = p.mesh.tp = p.mesh.cp = 1;
      p.batch.micro_batch = 1;
      p.batch.global_batch = batch;
    });
  };
  CHECK(found(200'000).empty());
  const auto refused = found(200'001);
  REQUIRE(refused.size() == 1);
  CHECK(refused[0].find("raise dp or micro_batch") != std::string::npos);
}

TEST_CASE("program: the suggested values do keep the rule") {
  for (int tp = 1; tp <= 33; ++tp) {
    const auto found = problems_after([&](Plan& p) { p.mesh.tp = tp; });
    // 8 key-value heads limit tp; 8192 is a multiple of each
    CHECK(found.empty() == (8 % tp == 0));
  }
  for (int dp = 1; dp <= 40; ++dp) {
    const auto found = problems_after([&](Plan& p) { p.mesh.dp = dp; });
    CHECK(found.empty() == (1024 % dp == 0));
  }
}

TEST_CASE("program: a plan has a short name") {
  Plan plan = possible();
  CHECK(short_name(plan) == "tp2 cp1 pp2 dp8 mbs1 gbs1024 seq8192");
  plan.pipeline.virtual_stages = 4;
  CHECK(short_name(plan) == "tp2 cp1 pp2 vp4 dp8 mbs1 gbs1024 seq8192");
}
