// eager_test.cpp — PyTorch's own kernels: the kernels of a plan without fused ones.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sample.h"

using namespace sample;

namespace {

Plan sharded() {
  Plan p = gpt();
  p.stack.attention = AttentionBackend::flash;
  p.mesh.dp = 4;
  p.batch.global_batch = 16;
  p.sharding.data_parallel = DataParallelism::fsdp1;
  p.stack.layer_kernels = LayerKernels::eager;
  return p;
}

struct Kernels {
  int count = 0;
  std::int64_t bytes = 0;
  double flops = 0;
};

// Counts over the whole second step.
Kernels kernels(const Program& program, std::string_view name) {
  Kernels found;
  each_of_step(program, [&](const Instruction& i) {
    if (i.op != Op::kernel || program.operations[i.index].name != name) return;
    ++found.count;
    found.bytes += program.operations[i.index].bytes.n;
    found.flops += program.operations[i.index].flops;
  });
  return found;
}

}  // namespace

TEST_CASE("program: an eager LayerNorm reads its tensors a second time for its weights") {
  const Plan plan = sharded();
  const Job made = job(plan);
  const Program& program = made.classes.front();
  const std::int64_t u =
      2 * plan.batch.sequence * plan.batch.micro_batch * plan.architecture.hidden;
  const int norms = plan.microbatches() * (2 * static_cast<int>(plan.architecture.layers) + 1);
  CHECK(kernels(program, "norm weight gradient").count == norms);
  CHECK(kernels(program, "norm weight gradient").bytes == norms * 2 * u);
  for (const auto& o : program.operations)
    if (o.name == "norm weight gradient") CHECK(o.blocks == (plan.architecture.hidden + 31) / 32);
}

TEST_CASE("program: PyTorch's RMSNorm is operators, or the kernels of its LayerNorm") {
  Plan plan = sharded();
  const Job centred = job(plan);
  plan.architecture.norm = model::Norm::rms;
  const Job apart = job(plan);
  plan.stack.norm_fusion = true;
  const Job fused = job(plan);
  const int norms = plan.microbatches() * (2 * static_cast<int>(plan.architecture.layers) + 1);
  const auto of = [](const Job& made, std::string_view name) {
    return kernels(made.classes.front(), name);
  };
  CHECK(of(apart, "norm to fp32").count == norms);
  CHECK(of(apart, "norm").count == 0);
  CHECK(of(fused, "norm to fp32").count == 0);
  CHECK(of(fused, "norm square backward").count == 0);
  for (const char* name : {"norm", "norm backward", "norm weight gradient"}) {
    INFO(name);
    CHECK(of(fused, name).count == norms);
    CHECK(of(fused, name).bytes == of(centred, name).bytes);
  }
  // Kernels that exist in both modes are unchanged.
  plan.stack.layer_kernels = LayerKernels::fused;
  const Job te = job(plan);
  plan.stack.norm_fusion = false;
  CHECK(of(te, "norm weight gradient").bytes == of(job(plan), "norm weight gradient").bytes);
}

TEST_CASE("program: eager modules hand views to attention") {
  Plan plan = sharded();
  CHECK(kernels(job(plan).classes.front(), "value copy").count == 0);
  plan.stack.layer_kernels = LayerKernels::compiled;
  CHECK(kernels(job(plan).classes.front(), "value copy").count == 0);
  plan.stack.layer_kernels = LayerKernels::fused;
  CHECK(kernels(job(plan).classes.front(), "value copy").count > 0);
}

TEST_CASE("program: Adam of operators moves 20 numbers an element, tensor by tensor") {
  // 2 + 3 + 2 + 3 + 2 + 2 + 2 + 4 numbers of four bytes: 80 bytes; the fused kernel moves 28.
  Plan plan = sharded();
  const std::int64_t fused = kernels(job(plan).classes.front(), "adam").bytes;
  plan.stack.fused_optimizer = false;
  const Job made = job(plan);
  std::int64_t bytes = 0;
  for (const char* name :
       {"adam scale", "adam add", "adam add square", "adam root", "adam divide", "adam update"})
    bytes += kernels(made.classes.front(), name).bytes;
  CHECK(bytes * 28 == fused * 80);
}

TEST_CASE("program: separate products do the same work in five where two were") {
  Plan plan = llama_8b();
  plan.sharding.data_parallel = DataParallelism::fsdp2;
  plan.stack.layer_kernels = LayerKernels::eager;
  const Job joined = job(plan);
  plan.stack.separate_products = true;
  const Job apart = job(plan);
  for (const auto& [name, parts] : {std::pair{"qkv", 3}, std::pair{"fc1", 2}}) {
    INFO(name);
    const Kernels one = kernels(joined.classes.front(), name);
    const Kernels many = kernels(apart.classes.front(), name);
    CHECK(one.count > 0);
    CHECK(many.count == parts * one.count);
    CHECK(many.flops == one.flops);
  }
  // For each layer and microbatch: two sums of three input gradients, and one of two.
  const Kernels sums = kernels(apart.classes.front(), "add input gradients");
  CHECK(kernels(joined.classes.front(), "add input gradients").count == 0);
  CHECK(sums.count == 3 * plan.architecture.layers * plan.microbatches());
}

TEST_CASE("program: deterministic algorithms fill every tensor that is made") {
  Plan plan = llama_8b();
  const Job plain = job(plan);
  plan.stack.deterministic = true;
  const Job filled = job(plan);
  CHECK(kernels(plain.classes.front(), "fill").count == 0);
  int made = 0;
  std::int64_t bytes = 0;
  each_of_step(filled.classes.front(), [&](const Instruction& i) {
    if (i.op != Op::alloc) return;
    ++made;
    bytes += i.value;
  });
  CHECK(made > 0);
  CHECK(kernels(filled.classes.front(), "fill").count == made);
  CHECK(kernels(filled.classes.front(), "fill").bytes == bytes);
}

TEST_CASE("program: each metric of the logits is an fp32 copy and its log-softmax") {
  Plan plan = sharded();
  CHECK(kernels(job(plan).classes.front(), "log-softmax").count == 0);
  plan.stack.logit_metrics = 2;
  const Kernels found = kernels(job(plan).classes.front(), "log-softmax");
  CHECK(found.count == 2 * plan.microbatches());
}

TEST_CASE("program: tensors in fp32 are not cast, and PyTorch masks their scores") {
  Plan plan = gpt();
  const std::int64_t logits = 4 * 2048 * 51200, scores = 4LL * 16 * 2048 * 2048;
  const auto per_pass = [&](const Program& program, std::string_view name) {
    const Kernels found = kernels(program, name);
    return found.count == 0 ? 0 : found.bytes / found.count;
  };
  for (const LayerKernels run_by : {LayerKernels::fused, LayerKernels::eager}) {
    plan.stack.layer_kernels = run_by;
    plan.numerics.precision = model::Precision::bf16;
    const Job narrow = job(plan);
    CHECK(per_pass(narrow.classes.front(), "logits to fp32") == logits / 2 * 3);
    CHECK(per_pass(narrow.classes.front(), "gradient to bf16") == logits / 2 * 3);
    plan.numerics.precision = model::Precision::fp32;
    const Job wide = job(plan);
    const Program& program = wide.classes.front();
    CHECK(kernels(program, "logits to fp32").count == 0);
    CHECK(kernels(program, "gradient to bf16").count == 0);
    const bool fused = run_by == LayerKernels::fused;
    CHECK(per_pass(program, fused ? "divide" : "log softmax") == 2 * logits);
    std::int64_t most = 0;
    Walk walk(program);
    walk.run(program.step, [&](const Instruction&, const Block&, const Walk& now) {
      most = std::max(most, now.bytes("fp32 logits, then softmax") + now.bytes("log softmax"));
    });
    CHECK(most == logits);
    // masked_fill_ costs 13 bytes per element of 4; the backward pass fills a copy.
    CHECK(per_pass(program, "mask scores") == scores / 4 * 13);
    CHECK(per_pass(program, "clone gradient of masked scores") == 2 * scores);
    CHECK(per_pass(program, "mask backward") == scores / 4 * 13);
  }
}

// A quarter of the vocabulary on each of four stages.
TEST_CASE("program: a vocabulary over all stages has its logits in fp32 once") {
  for (const char* schedule : {"vocab-1", "vocab-2", "vocab-interlaced"}) {
    CAPTURE(schedule);
    Plan plan = gpt();
    plan.pipeline.schedule = schedule;
    plan.mesh.pp = 4;
    plan.stack.attention = AttentionBackend::unfused;
    plan.numerics.precision = model::Precision::fp32;
    REQUIRE(rules(plan) == "");
    const Program program = job(plan).classes[1];
    const std::int64_t logits = 4LL * 2048 * 51200 / 4;
    for (const char* cast : {"logits to fp32", "gradient to bf16", "softmax to 16 bits"})
      CHECK(kernels(program, cast).count == 0);
    CHECK(kernels(program, "exp").bytes == plan.microbatches() * 2 * logits);
    std::int64_t most = 0;
    Walk walk(program);
    walk.run(program.step, [&](const Instruction&, const Block& block, const Walk& now) {
      if (block.name == "output pass gradients")
        most =
            std::max(most, now.bytes("fp32 logits, then softmax") + now.bytes("logits gradient"));
    });
    CHECK(most > 0);
    CHECK(most % logits == 0);
  }
}

TEST_CASE("program: PyTorch's cross entropy holds five times its logits, in backward six") {
  for (const int tp : {0, 1, 2}) {  // 0: compiled, on one shard
    const bool compiled = tp == 0;
    Plan plan = llama_8b();
    plan.mesh.tp = std::max(tp, 1);
    plan.sharding.data_parallel = DataParallelism::fsdp2;
    plan.stack.layer_kernels = LayerKernels::compiled;
    if (compiled) plan.stack.cross_entropy = CrossEntropy::one_kernel;
    const Job made = job(plan);
    const Program& program = made.classes.front();
    const std::int64_t logits = 2 * plan.batch.sequence * 128256 / plan.mesh.tp;
    std::map<std::string, std::int64_t> top;  // by block
    Walk walk(program);
    walk.run(program.step, [&](const Instruction&, const Block& block, const Walk& now) {
      std::int64_t held = 0;
      for (const char* label :
           {"logits", "fp32 logits", "shifted logits", "exp of logits", "log softmax",
            "gradient of log softmax", "unscaled gradient of fp32 logits",
            "gradient of fp32 logits", "logits gradient"})
        held += now.bytes(label);
      top[block.name] = std::max(top[block.name], held);
    });
    INFO(tp);
    CHECK(top.at("head and loss") == (compiled ? 1 : tp == 1 ? 5 : 7) * logits);
    CHECK(top.at("head and loss backward") == (compiled ? 2 : tp == 1 ? 6 : 8) * logits);
  }
}

TEST_CASE("program: a compiler puts weight gradients behind what the pass goes on with") {
  // As recorded (results/captured-steps). fc2's weight gradient runs after the activation's
  // gradient; those of qkv and the projection run after their norm's gradient. In a recomputed
  // layer the activation's output has no earlier reader, so one kernel computes it with the
  // gradients.
  Plan plan = sharded();
  plan.mesh.tp = 1;
  plan.architecture.hidden_dropout = 0;
  plan.architecture.activation = model::Activation::swiglu;
  plan.policy.recompute = Recompute::full;
  plan.stack.checkpoint_early_stop = true;
  const auto order = [](const Plan& of, std::string_view name) {
    const Job made = job(of);
    const Program& program = made.classes.front();
    const auto found = std::ranges::find(program.blocks, name, &Block::name);
    REQUIRE(found != program.blocks.end());
    std::vector<std::string> kernels;
    for (const Instruction& i : found->code) {
      if (i.op != Op::kernel) continue;
      const model::Operation& o = program.operations[i.index];
      const bool weight =
          o.kind == model::OperationKind::gemm && o.role == model::GemmRole::weight_gradient;
      kernels.push_back(std::string(o.name) + (weight ? " weight" : ""));
    }
    return kernels;
  };
  const auto at = [](const std::vector<std::string>& kernels, const char* name) {
    return std::ranges::find(kernels, name) - kernels.begin();
  };
  for (const LayerKernels how : {LayerKernels::fused, LayerKernels::compiled}) {
    const bool compiled = how == LayerKernels::compiled;
    plan.stack.layer_kernels = how;
    REQUIRE(problems(plan).empty());
    const auto back = order(plan, "layer backward"), again = order(plan, "layer recompute");
    CHECK((at(back, "swiglu backward") < at(back, "fc2 weight")) == compiled);
    CHECK((at(back, "attention backward") < at(back, "projection weight")) == compiled);
    CHECK(at(back, "qkv weight") < std::ssize(back));
    CHECK((std::ranges::count(again, "swiglu") == 0) == compiled);
  }
}

TEST_CASE("program: a checkpoint that stops early lacks the last product of each group") {
  for (const int group : {1, 2})
    for (const bool fp8 : {false, true})
      for (const LayerKernels how : {LayerKernels::eager, LayerKernels::compiled}) {
        Plan plan = sharded();
        plan.architecture.layers = 4;
        plan.architecture.hidden_dropout = 0;
        plan.stack.layer_kernels = how;
        plan.numerics.fp8 = fp8;
        plan.policy.recompute = Recompute::full;
        plan.policy.recompute_layers = group;
        const Job whole = job(plan);
        plan.stack.checkpoint_early_stop = true;
        const Job stopped = job(plan);
        const Program &a = whole.classes.front(), &b = stopped.classes.front();
        CAPTURE(group, fp8);
        // A function of fp8 saves its operands after its kernel; a compiler sees all readers.
        const bool stops = how == LayerKernels::compiled || !fp8;
        const int left_out = stops ? plan.microbatches() * 4 / group : 0;
        CHECK(kernels(a, "fc2").count - kernels(b, "fc2").count == left_out);
        CHECK(kernels(a, "residual add").count - kernels(b, "residual add").count == left_out);
        CHECK(kernels(a, "fc1").count == kernels(b, "fc1").count);
        // A later operator saves a tensor, so the product runs.
        plan.architecture.hidden_dropout = 0.1;
        const Job dropped = job(plan);
        CHECK(kernels(dropped.classes.front(), "fc2").count == kernels(a, "fc2").count);
      }
}
