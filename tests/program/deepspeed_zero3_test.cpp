// deepspeed_zero3_test.cpp — DeepSpeed's ZeRO-3 with its optimizer on the GPU or on the CPU:
// traffic and memory in closed form.
#include "sim/program/parallel/deepspeed/deepspeed_zero3.h"

#include <catch2/catch.hpp>
#include <map>
#include <string>

#include "sample.h"
#include "sim/program/parallel/offload/host_memory.h"

using namespace sample;

namespace {

Plan offloaded() {
  Plan p = llama_8b();
  p.architecture.layers = 4;
  p.architecture.hidden = 1024;
  p.architecture.ffn = 2816;
  p.architecture.heads = 16;
  p.architecture.kv_heads = 4;
  p.architecture.head_dim = 64;
  p.architecture.vocab = 32000;
  p.batch.sequence = 1024;
  p.mesh.tp = 1;
  p.mesh.dp = 4;
  p.batch.global_batch = 4;
  p.sharding.data_parallel = DataParallelism::fsdp2;
  p.sharding.deepspeed_optimizer = true;
  p.numerics.fp32_gradients = false;
  p.optimizer.offload_fraction = 1;
  p.optimizer.sub_group = 1'500'000;
  return p;
}

// Elements of a rank, by the home of their state.
struct Elements {
  std::int64_t all = 0, cpu = 0, fetched = 0, gpu = 0, last_fetched = 0;
};

// A layer: qkv 1536 x 1024, projection, fc1 and fc2 of 1024 x 1024, 5632 x 1024, 1024 x 2816, two
// norms. The ends: a table on either side and a norm. In the order of the model, a quarter of each.
Elements by_hand(const Plan& plan, const Program& program) {
  offload::OptimizerShard shape;
  const auto add = [&](std::int64_t whole) { shape.tensors.push_back(whole / 4); };
  add(32000 * 1024);
  for (int layer = 0; layer < 4; ++layer)
    for (const std::int64_t width : {1, 1536, 1024, 1, 5632, 2816}) add(width * 1024);
  add(1024);
  add(32000 * 1024);
  Elements sum;
  for (const std::int64_t tensor : shape.tensors) sum.all += tensor;
  CHECK(sum.all == program.parameters / 4);
  shape.parameters = sum.all;
  shape.sub_group = plan.optimizer.sub_group;
  shape.fraction = plan.optimizer.offload_fraction;
  shape.stride = plan.optimizer.gpu_stride;
  const offload::Split parts = offload::split(shape);
  sum.gpu = parts.remainder;
  for (std::size_t g = 0; g < parts.on_cpu.size(); ++g) {
    const bool fetched = shape.stride > 0 && (g + 1) % static_cast<std::size_t>(shape.stride) == 0;
    (fetched ? sum.fetched : sum.cpu) += parts.on_cpu[g];
    if (fetched) sum.last_fetched = parts.on_cpu[g];
  }
  return sum;
}

std::map<Stream, std::int64_t> host_bytes_of(const Program& program) {
  std::map<Stream, std::int64_t> bytes;
  each_of_step(program, [&](const Instruction& i) {
    if (i.op != Op::kernel) return;
    if (i.stream == Stream::pcie_up || i.stream == Stream::pcie_down || i.stream == Stream::cpu)
      bytes[i.stream] += program.operations[i.index].bytes.n;
  });
  return bytes;
}

}  // namespace

TEST_CASE("program: ZeRO-3 on the CPU sends gradients down and parameters up, by the byte") {
  for (const int microbatches : {1, 3})
    for (const double fraction : {0.3, 1.0})
      for (const int stride : {0, 2, 3})
        for (const bool async : {false, true}) {
          CAPTURE(microbatches, fraction, stride, async);
          Plan plan = offloaded();
          plan.batch.global_batch = 4 * microbatches;
          plan.optimizer.offload_fraction = fraction;
          plan.optimizer.gpu_stride = stride;
          plan.optimizer.async_gradient_copy = async;
          REQUIRE(rules(plan) == "");
          const Program program = job(plan).classes[0];
          const Elements n = by_hand(plan, program);
          auto bytes = host_bytes_of(program);
          // Sums of gradients lie on the CPU: each microbatch copies them down and up again.
          const std::int64_t sums = 2 * n.all * microbatches;
          CHECK(bytes[Stream::pcie_down] == sums + (async ? 4 : 2) * n.cpu + 12 * n.fetched);
          CHECK(bytes[Stream::pcie_up] == sums + 2 * n.cpu + 12 * n.fetched);
          // Parameters go up by blocking copies, except with Deep Optimizer States.
          CHECK(bytes[Stream::cpu] == (stride == 0 ? 36 + 12 : 36) * n.cpu + 24 * n.fetched);
        }
}

// The bucket is sorted by rank before it is scattered, and divided; the norm of the shard is in
// double.
TEST_CASE("program: ZeRO-3 on the CPU passes over a gradient as DeepSpeed's reduction does") {
  for (const bool wide : {false, true})
    for (const bool all_reduce : {false, true}) {
      CAPTURE(wide, all_reduce);
      Plan plan = offloaded();
      plan.batch.global_batch = 8;
      plan.numerics.fp32_gradients = wide;
      plan.sharding.deepspeed_all_reduce = all_reduce;
      const Program program = job(plan).classes[0];
      std::map<std::string, std::int64_t> bytes;
      each_of_step(program, [&](const Instruction& i) {
        if (i.op != Op::kernel || i.stream != Stream::reduce) return;
        bytes[program.labels[i.label]] += program.operations[i.index].bytes.n;
      });
      const std::int64_t width = wide ? 4 : 2, passes = 2 * 2 * width * program.parameters;
      CHECK(bytes["gradients by rank"] == (all_reduce ? 0 : passes));
      CHECK(bytes["divide gradients"] == passes);
      CHECK(bytes["gradient norm"] == (width + 8 + 8) * (program.parameters / 4));
    }
}

// Bytes in a step; those of reductions on their stream.
std::map<std::string, std::int64_t> passes_of(const Program& program, bool reductions) {
  std::map<std::string, std::int64_t> bytes;
  each_of_step(program, [&](const Instruction& i) {
    if (i.op == Op::kernel && (i.stream == Stream::reduce) == reductions)
      bytes[program.labels[i.label]] += program.operations[i.index].bytes.n;
  });
  return bytes;
}

TEST_CASE("program: ZeRO-3 of DeepSpeed adds gradients in 16 bits and updates by sub-group") {
  for (const int microbatches : {1, 3})
    for (const bool wide : {false, true}) {
      CAPTURE(microbatches, wide);
      Plan plan = offloaded();
      plan.batch.global_batch = 4 * microbatches;
      plan.optimizer.offload_fraction = 0;
      plan.numerics.fp32_gradients = wide;
      REQUIRE(rules(plan) == "");
      const Program program = job(plan).classes[0];
      const std::int64_t all = program.parameters / 4, width = wide ? 4 : 2;
      auto reduced = passes_of(program, true);
      CHECK(reduced["gradients by rank"] == microbatches * 2 * width * program.parameters);
      CHECK(reduced["keep gradient"] == 2 * width * all);
      CHECK(reduced["add to gradient sum"] == (microbatches - 1) * 3 * width * all);
      CHECK(reduced["gradient norm"] == 0);
      auto step = passes_of(program, false);
      CHECK(step["gradient norm"] == (width + 8 + 8) * all);
      CHECK(step["gradients of a sub-group"] == 2 * width * all);
      CHECK(step["gradients to fp32"] == (wide ? 0 : 2 + 4) * all);
      CHECK(step["scale gradients"] == 8 * all);
      CHECK(step["adam"] == 28 * all);
      CHECK(step["master to model"] == 6 * all);
      CHECK(host_bytes_of(program).empty());
      // Parameters and sums of gradients, and parameters and two moments in fp32.
      Walk walk(program);
      walk.run(program.setup);
      CHECK(walk.bytes() == (2 + width + 12) * all);
      CHECK(walk.bytes("gradient sums") == width * all);
      walk.run(program.first_step);
      CHECK(walk.bytes("sharded parameter") == 2 * all);
      CHECK(walk.bytes("gradients in fp32") == 0);
      CHECK(walk.bytes("gradients of a sub-group") == 0);
      const std::int64_t held = walk.bytes();
      walk.run(program.step);
      CHECK(walk.bytes() == held);
      CHECK(host_bytes(plan) == 0);
    }
}

// Buckets of 500,000,000 elements: the whole model, or less than one layer.
TEST_CASE("program: ZeRO-3 of DeepSpeed reduces a bucket that has no room for the next layer") {
  for (const bool large : {false, true})
    for (const Recompute recompute : {Recompute::none, Recompute::full}) {
      CAPTURE(large, recompute);
      Plan plan = offloaded();
      plan.policy.recompute = recompute;
      if (large) plan.architecture.ffn = 200'000;
      const Program program = job(plan).classes[0];
      std::int64_t reductions = 0;
      each_of_step(program, [&](const Instruction& i) {
        reductions += i.op == Op::collective && program.labels[i.label] == "gradient reduction";
      });
      CHECK(reductions == plan.architecture.layers + 1);  // and the rest of the model
      int full = 0, passes = 0;
      for (const Template& pattern : program.templates) {
        passes += pattern.kind == PassKind::backward;
        for (std::size_t i = 0; i + 1 < pattern.calls.size(); ++i) {
          const auto name = [&](std::size_t call) {
            return std::string(program.blocks[pattern.calls[call].block].name);
          };
          if (name(i) != "bucket is full") continue;
          ++full;
          CHECK(name(i + 1) == "layer backward");
        }
      }
      CHECK(full == (large ? 3 * passes : 0));
    }
}

// Nothing is widened: pinned memory takes the copy in its own type.
TEST_CASE("program: ZeRO-3 on the CPU has no use for pageable memory where gradients are in fp32") {
  for (const bool wide : {false, true}) {
    Plan plan = offloaded();
    plan.numerics.fp32_gradients = wide;
    const Program program = job(plan).classes[0];
    std::int64_t pageable = 0, down = 0;
    each_of_step(program, [&](const Instruction& i) {
      if (i.op != Op::kernel || i.stream != Stream::pcie_down) return;
      const model::Operation& o = program.operations[i.index];
      (o.kind == model::OperationKind::pageable_copy ? pageable : down) += o.bytes.n;
    });
    const std::int64_t all = program.parameters / 4;
    CHECK(pageable == (wide ? 0 : 2 * all));
    CHECK(down == (wide ? 2 * 4 : 2) * all);
  }
}

TEST_CASE("program: ZeRO-3 on the CPU leaves shards of 16 bits on the GPU, and what is fetched") {
  for (const double fraction : {0.0001, 0.5, 1.0})
    for (const int stride : {0, 2, 5}) {
      CAPTURE(fraction, stride);
      Plan plan = offloaded();
      plan.optimizer.offload_fraction = fraction;
      plan.optimizer.gpu_stride = stride;
      REQUIRE(rules(plan) == "");
      const Program program = job(plan).classes[0];
      const Elements n = by_hand(plan, program);
      Walk walk(program);
      walk.run(program.setup);
      CHECK(walk.bytes() == 2 * n.all + 16 * n.gpu);
      walk.run(program.first_step);
      const std::int64_t held = walk.bytes();
      CHECK(walk.bytes("sharded parameter") == 2 * n.all);
      CHECK(walk.bytes("fp32 main parameter") == 4 * n.gpu);
      CHECK(walk.bytes("fetched parameters") == 4 * n.last_fetched);
      CHECK(walk.bytes("fetched exp_avg") == 4 * n.last_fetched);
      CHECK(walk.bytes("gradients in fp32") == 0);
      CHECK(walk.bytes("gradients of a sub-group") == 0);
      walk.run(program.step);
      CHECK(walk.bytes() == held);
    }
}

TEST_CASE("program: the CPUs hold sums of gradients beside the state that ZeRO-3 leaves there") {
  Plan plan = offloaded();
  plan.optimizer.offload_fraction = 0.5;
  const auto all = static_cast<double>(model::parameters(plan.architecture));
  CHECK(host_gradient_sums(plan) == Approx(2 * all / 4));
  CHECK(host_bytes(plan) == Approx((2 + 0.5 * 16) * all / 4));
  plan.numerics.fp32_gradients = true;
  CHECK(host_gradient_sums(plan) == Approx(4 * all / 4));
  plan.optimizer = {};
  CHECK(host_gradient_sums(plan) == 0);
}

// A layer's adapters: A [8, 1024] and B [1536, 8] for qkv, [8, 1024] and [1024, 8] for the
// projection, [8, 1024] and [5632, 8], [8, 2816] and [1024, 8] in the MLP.
TEST_CASE("program: ZeRO-3 on the CPU has the state of adapters there, and of nothing else") {
  constexpr std::int64_t adapters =
      4 * 8 * (1024 + 1536 + 1024 + 1024 + 1024 + 5632 + 2816 + 1024) / 4;
  for (const bool async : {false, true}) {
    Plan plan = offloaded();
    plan.lora.rank = 8;
    plan.optimizer.async_gradient_copy = async;
    plan.optimizer.sub_group = 65'536;
    REQUIRE(rules(plan) == "");
    const Program program = job(plan).classes[0];
    auto bytes = host_bytes_of(program);
    CHECK(bytes[Stream::pcie_down] == (2 + (async ? 4 : 2)) * adapters);
    CHECK(bytes[Stream::pcie_up] == (2 + 2) * adapters);
    CHECK(bytes[Stream::cpu] == 48 * adapters);
    CHECK(host_bytes(plan) == Approx((2 + 16) * adapters));
  }
}

TEST_CASE("program: what ZeRO-3 on the CPU cannot be says what to write") {
  const auto says = [](auto change, const std::string& what) {
    Plan plan = offloaded();
    change(plan);
    INFO(rules(plan));
    CHECK(rules(plan).find(what) != std::string::npos);
  };
  says([](Plan& p) { p.sharding.data_parallel = DataParallelism::fsdp1; },
       "write data_parallel fsdp2");
  says([](Plan& p) { p.mesh.pp = 2, p.batch.global_batch = 8; }, "write pp 1");
  says([](Plan& p) { p.numerics.fp8 = true; }, "without fp8");
  says([](Plan& p) { p.sharding.fsdp.replicas = 2; }, "leave fsdp.no_sync and fsdp.replicas out");
  says([](Plan& p) { p.optimizer.overlap_offload = true; }, "leave overlap_cpu_optimizer out");
  says([](Plan& p) { p.optimizer.gpu_stride = 1; }, "2 or more, or 0");
  says([](Plan& p) { p.optimizer.sub_group = 10; }, "65536 or more");
  for (const auto& [field, change] :
       {std::pair{"optimizer_gpu_stride", +[](Plan& p) { p.optimizer.gpu_stride = 2; }},
        {"async_gradient_copy", +[](Plan& p) { p.optimizer.async_gradient_copy = true; }}})
    says(
        [change = change](Plan& p) {
          p.optimizer = {};
          change(p);
        },
        std::string(field) + " says how ZeRO-3 keeps");
  const auto of_pytorch = [](Plan& p) {
    p.optimizer = {};
    p.sharding.deepspeed_optimizer = false;
  };
  says(
      [&](Plan& p) {
        of_pytorch(p);
        p.optimizer.sub_group = 1 << 20;
      },
      "optimizer_sub_group says how DeepSpeed's ZeRO-3 cuts");
  says(
      [&](Plan& p) {
        of_pytorch(p);
        p.sharding.deepspeed_all_reduce = true;
      },
      "deepspeed_all_reduce says how deepspeed_optimizer");
  says([](Plan& p) { p.sharding.deepspeed_optimizer = false; }, "turn deepspeed_optimizer on");
}
