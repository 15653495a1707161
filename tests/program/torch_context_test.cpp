// torch_context_test.cpp — PyTorch's context_parallel: bytes in closed form, dependencies, and
// repeated heads.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <map>
#include <string>

#include "sample.h"

using namespace sim;
using namespace sim::program;
using collective::Kind;

namespace {

Plan torch(const char* context, LayerKernels kernels, int cp) {
  Plan p = sample::llama_8b();
  p.architecture.layers = 1;
  p.mesh.tp = 1;
  p.mesh.cp = cp;
  p.mesh.context = context;
  p.batch.sequence = 8192;
  p.batch.global_batch = p.mesh.dp;
  p.stack.layer_kernels = kernels;
  p.sharding.data_parallel = DataParallelism::fsdp2;
  return p;
}

const Block& block(const Program& program, const std::string& name) {
  const auto found = std::ranges::find(program.blocks, name, &Block::name);
  REQUIRE(found != program.blocks.end());
  return *found;
}

// Bytes of a block's messages of one kind among the context-parallel ranks.
std::int64_t bytes(const Program& program, const std::string& name, Kind kind) {
  std::int64_t sum = 0;
  for (const Instruction& i : block(program, name).code)
    if (i.op == Op::collective && program.transfers[i.index].communicator == Stream::cp &&
        program.transfers[i.index].kind == kind)
      sum += program.transfers[i.index].bytes.n;
  return sum;
}

// The instructions of attention's core, line by line.
std::string picture(const Program& program, const std::string& name) {
  std::string text;
  bool inside = false;
  for (const Instruction& i : block(program, name).code) {
    const std::string& label = program.labels[i.label];
    if (label == "clear dq dk dv" || label == "cat k v" || label == "keys and values by head")
      inside = true;
    if (label == "row-parallel output" || label == "qkv" || label == "rope k backward")
      inside = false;
    if (!inside) continue;
    if (i.op == Op::kernel) text += label + "\n";
    if (i.op == Op::collective)
      text += fmt::format("{} {}\n", collective::name(program.transfers[i.index].kind), label);
    if (i.op == Op::wait) text += "waits\n";
  }
  return text;
}

}  // namespace

TEST_CASE("program: PyTorch's contexts gather once or pass on, gradients go all the way in fp32") {
  for (const LayerKernels kernels : {LayerKernels::eager, LayerKernels::compiled})
    for (const int cp : {2, 4, 8})
      for (const bool repeats : {false, true}) {
        Plan plan = torch("torch-allgather", kernels, cp);
        plan.stack.repeat_kv = repeats;
        const std::int64_t pair = 2 * (8192 / cp) * (repeats ? 32 : 8) * 128 * 2;
        const Program gathers = sample::job(plan).classes.front();
        CHECK(bytes(gathers, "layer forward", Kind::all_gather) == cp * pair);
        CHECK(bytes(gathers, "layer forward", Kind::ring_exchange) == 0);
        CHECK(bytes(gathers, "layer backward", Kind::all_gather) == cp * pair);
        CHECK(bytes(gathers, "layer backward", Kind::ring_exchange) == cp * 2 * pair);
        plan.mesh.context = "torch-alltoall";
        const Program passes = sample::job(plan).classes.front();
        CHECK(bytes(passes, "layer forward", Kind::ring_exchange) == (cp - 1) * pair);
        CHECK(bytes(passes, "layer backward", Kind::ring_exchange) == (cp - 1 + 2 * cp) * pair);
      }
}

TEST_CASE("program: operators send beside attention, a compiled layer waits at once") {
  const Plan eager = torch("torch-allgather", LayerKernels::eager, 2);
  const Program program = sample::job(eager).classes.front();
  CHECK(picture(program, "layer forward") == R"(keys and values by head
cat k v
all-gather keys and values
attention
output to fp32
waits
attention
output to fp32
subtract output
scale difference
merge output
cat outputs
output to 16 bits
)");
  CHECK(picture(program, "layer backward") == R"(clear dq dk dv
keys and values by head
cat k v
all-gather keys and values
attention backward
sum dk over query heads
sum dv over query heads
add dk dv
cat dk dv
ring-exchange dk and dv
add dq
waits
attention backward
sum dk over query heads
sum dv over query heads
waits
add dk dv
cat dk dv
ring-exchange dk and dv
add dq
cat dq
dq to 16 bits
waits
dk dv to 16 bits
)");
  const Plan compiled = torch("torch-allgather", LayerKernels::compiled, 2);
  CHECK(picture(sample::job(compiled).classes.front(), "layer forward") == R"(cat k v
all-gather keys and values
attention
attention
merge output
)");
}

TEST_CASE("program: copies of keys are saved for every query head, unless they are made again") {
  const auto left = [](int cp, bool again) {
    Plan p = torch("torch-allgather", LayerKernels::compiled, cp);
    p.stack.repeat_kv = true;
    if (again) {
      p.policy.recompute = Recompute::selective;
      p.policy.recompute_modules = {};
      p.policy.recompute_modules.core_attention = false;
      p.policy.recompute_modules.operators = true;
    }
    return sample::left_by(sample::job(p).classes.front(), "layer forward");
  };
  const std::int64_t key = 8192 * 8 * 128 * 2, query = 8192 * 32 * 128 * 2;
  for (const int cp : {1, 2, 4}) {
    std::map<std::string, std::int64_t> all = left(cp, false);
    CHECK(all["keys of all heads"] == query / cp);
    CHECK(all["values of all heads"] == query / cp);
    CHECK(all["key"] + all["value"] == 0);
    all = left(cp, true);
    CHECK(all["keys of all heads"] + all["values of all heads"] + all["key"] == 0);
    CHECK(all["value"] == key / cp);
  }
}

TEST_CASE("program: DTensor's products save what was gathered, and gather nothing again") {
  const auto gathers = [](LayerKernels kernels, Recompute recompute) {
    Plan p = torch("ring", kernels, 1);
    p.mesh.tp = 2;
    p.policy.recompute = recompute;
    p.policy.recompute_modules.core_attention = false;
    p.policy.recompute_modules.operators = recompute == Recompute::selective;
    int count = 0;
    const Program program = sample::job(p).classes.front();
    for (const char* name : {"layer forward", "layer backward"})
      for (const Instruction& i : block(program, name).code)
        count += i.op == Op::collective && program.labels[i.label] == "all-gather" &&
                 program.transfers[i.index].communicator == Stream::tp;
    return count;
  };
  // Two inputs forward, two gradients backward; Megatron-LM gathers the inputs again.
  CHECK(gathers(LayerKernels::compiled, Recompute::none) == 4);
  CHECK(gathers(LayerKernels::eager, Recompute::selective) == 6);
  CHECK(gathers(LayerKernels::fused, Recompute::none) == 6);
}

TEST_CASE("program: products of layers are cut beside their messages, those of the ends are not") {
  Plan p = torch("ring", LayerKernels::compiled, 1);
  p.mesh.tp = 2;
  p.batch.micro_batch = 2;
  p.batch.global_batch = 2 * p.mesh.dp;
  p.stack.tp_comm_overlap = true;
  const auto pieces = [](const Program& program, const char* name) {
    std::set<int> found;
    for (const Instruction& i : block(program, name).code)
      if (i.op == Op::collective && program.transfers[i.index].communicator == Stream::tp &&
          program.transfers[i.index].kind != Kind::all_reduce)
        found.insert(program.transfers[i.index].pieces);
    return found;
  };
  const auto copies = [](const Program& program, const char* name) {
    return std::ranges::count_if(block(program, name).code, [&](const Instruction& i) {
      return i.op == Op::alloc && program.labels[i.label] == "gathered sequences";
    });
  };
  const Program compiled = sample::job(p).classes.front();
  CHECK(copies(compiled, "layer forward") == 0);
  CHECK(copies(compiled, "head and loss") == 1);
  p.stack.layer_kernels = LayerKernels::fused;
  p.sharding = {};
  const Program fused = sample::job(p).classes.front();
  // A compiler cuts every product into one piece a rank. TransformerEngine pipelines forward
  // row-parallel products in four; the backward pass of column-parallel ones has whole messages.
  for (const char* layer : {"layer forward", "layer backward"})
    CHECK(pieces(compiled, layer) == std::set{2});
  CHECK(pieces(fused, "layer forward") == std::set{2, 4});
  CHECK(pieces(fused, "layer backward") == std::set{1, 2});
  const auto taken = [](const Program& program) {
    std::map<std::string, int> found;
    for (const Instruction& i : block(program, "layer forward").code) {
      if (i.op != Op::kernel) continue;
      const model::Operation& one = program.operations[i.index];
      if (one.kind == model::OperationKind::gemm) found[std::string(one.name)] = one.sms_taken;
    }
    return found;
  };
  CHECK(taken(fused) ==
        std::map<std::string, int>{{"qkv", 0}, {"projection", 16}, {"fc1", 0}, {"fc2", 16}});
  for (const Program* program : {&compiled, &fused}) {
    for (const char* end : {"embedding", "head and loss", "head and loss backward"})
      CHECK(pieces(*program, end) == std::set{1});
  }
}

TEST_CASE("program: copies of keys where no core makes them are refused with what would do") {
  Plan plan = torch("ring", LayerKernels::eager, 2);
  CHECK(sample::rules(plan) == "");
  plan.stack.repeat_kv = true;
  CHECK(sample::rules(plan) ==
        "repeat_kv: repeat_kv goes with PyTorch's context_parallel, not with context ring; write "
        "context torch-allgather, or repeat_kv false\n");
  plan.mesh.context = "torch-alltoall";
  CHECK(sample::rules(plan) == "");
  plan = sample::llama_8b();
  plan.mesh.pp = 2;
  plan.pipeline.schedule = "terapipe";
  plan.stack.repeat_kv = true;
  CHECK(sample::rules(plan).find("repeat_kv goes with whole sequences") != std::string::npos);
}
