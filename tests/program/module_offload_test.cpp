// module_offload_test.cpp — modules of layers on the CPU: bytes copied and bytes kept in closed
// form, and the time at which each group comes up.
#include "sim/program/parallel/offload/module_offload.h"

#include <array>
#include <catch2/catch.hpp>
#include <map>

#include "sample.h"
#include "sim/program/parallel/offload/host_memory.h"

using namespace sim;
using namespace sim::program;
using enum sim::program::OffloadModule;

namespace {

// Bytes of a step's copies in both directions.
struct Moved {
  std::int64_t down = 0, up = 0;
};
Moved moved(const Program& program) {
  Moved bytes;
  sample::each_of_step(program, [&](const Instruction& i) {
    if (i.op != Op::kernel) return;
    if (i.stream == Stream::pcie_down) bytes.down += program.operations[i.index].bytes.n;
    if (i.stream == Stream::pcie_up) bytes.up += program.operations[i.index].bytes.n;
  });
  return bytes;
}

std::uint8_t bits(std::initializer_list<OffloadModule> modules) {
  std::uint8_t all = 0;
  for (const OffloadModule m : modules) all |= bit_of(m);
  return all;
}

// A layer of Llama-3.1-8B with 8,192 tokens on two tensor-parallel ranks: INVENTORY.md section 8.
constexpr std::int64_t residual = 33'554'432, normed = 33'554'432, query = 33'554'432,
                       keys = 16'777'216, attended = 33'554'432, lse = 524'288;

struct Travel {
  std::uint8_t modules;
  std::int64_t travels, leaves;  // per layer
};

}  // namespace

TEST_CASE("program: modules of all layers but the last go down and come back") {
  const Plan plan = sample::llama_8b();
  const std::int64_t all = sample::at_head(plan);
  for (const auto& [modules, travels, leaves] :
       {Travel{bits({qkv_linear}), residual + normed, residual + normed},
        // The projection also saves the core's output, so offloading one of them frees nothing of
        // it.
        Travel{bits({core_attn}), query + keys + attended, query + keys},
        // Both save it, and each copies it.
        Travel{bits({core_attn, attn_proj}), query + keys + 2 * attended, query + keys + attended},
        Travel{bits({qkv_linear, core_attn, attn_proj}),
               residual + normed + query + keys + 2 * attended,
               residual + normed + query + keys + attended}}) {
    Plan p = plan;
    p.policy.offload_modules = modules;
    INFO(offload_modules_text(p.policy, ","));
    REQUIRE(sample::rules(p).empty());
    const Moved bytes = moved(sample::job(p).classes[0]);
    CHECK(bytes.down == p.microbatches() * 31 * travels);
    CHECK(bytes.up == bytes.down);
    CHECK(all - sample::at_head(p) == 31 * leaves);
  }
}

TEST_CASE("program: tensors below the least size stay on the GPU") {
  Plan plan = sample::llama_8b();
  plan.policy.offload_modules = bits({core_attn});
  const auto down = [&](std::int64_t least) {
    plan.policy.offload_min_elements = least;
    return moved(sample::job(plan).classes[0]).down / plan.microbatches() / 31;
  };
  // The limit counts elements, not bytes; lse is in fp32.
  CHECK(down(lse / 4) == query + keys + attended + lse);
  CHECK(down(lse / 4 + 1) == query + keys + attended);
  CHECK(down(keys / 4 + 1) == query + attended);
  CHECK(down(query) == 0);
}

TEST_CASE("program: a stage keeps its last groups where their backward pass is the next") {
  Plan plan = sample::llama_8b();
  plan.mesh.pp = 4;
  plan.mesh.dp = 1;
  plan.batch.global_batch = 12;
  plan.policy.offload_modules = bits({qkv_linear, core_attn, attn_proj});
  const std::int64_t travels = residual + normed + query + keys + 2 * attended;
  const Job job = sample::job(plan);
  for (const Program& program : job.classes) {
    // The first microbatch's last groups stay on all stages, every microbatch's on the last stage.
    const int kept = program.stage == 3 ? 12 : 1;
    INFO(program.stage);
    CHECK(moved(program).down == (12 * 8 - kept) * travels);
    CHECK(moved(program).up == moved(program).down);
  }
}

// Megatron-LM's post_warmup_callback. The last group of each name of the first pass stays. Then
// bytes stay by the stage's number, then a share of the rest of each pass.
TEST_CASE("program: a stage keeps more groups than the one before it, and a share of them") {
  Plan plan = sample::llama_8b();
  plan.mesh.pp = 4;
  plan.mesh.dp = 1;
  plan.batch.global_batch = 12;
  plan.policy.offload_modules = bits({qkv_linear, core_attn, attn_proj});
  const std::array<std::int64_t, 3> of_group = {residual + normed, query + keys + attended,
                                                attended};
  const std::int64_t layer = of_group[0] + of_group[1] + of_group[2];
  const auto down = [&plan](int stage) {
    REQUIRE(sample::rules(plan).empty());
    const Moved bytes = moved(sample::job(plan).classes[static_cast<std::size_t>(stage)]);
    CHECK(bytes.up == bytes.down);
    return bytes.down;
  };
  const std::int64_t all = (12 * 8 - 1) * layer;
  // A layer's bytes plus one: two layers and a group for stage 2, then a whole group.
  plan.policy.offload_delta_bytes = layer + 1;
  CHECK(down(0) == all);
  CHECK(down(1) == all - layer - of_group[0]);
  CHECK(down(2) == all - 2 * layer - of_group[0]);
  // A pass has 24 groups, the first one 21: int(24 x 0.3) = 7 and int(21 x 0.3) = 6 of the last
  // ones stay. On the last stage, some of these would stay anyway.
  plan.policy.offload_delta_bytes = 0;
  plan.policy.activation_offload_fraction = 0.7;
  CHECK(down(0) == all - 11 * (2 * layer + of_group[2]) - 2 * layer);
  CHECK(down(3) == 12 * (8 - 3) * layer + 11 * (layer - of_group[2]));
  plan.policy.activation_offload_fraction = 0;
  CHECK(down(1) == 0);
  plan.policy.activation_offload_fraction = 1.5;
  CHECK(!sample::rules(plan).empty());
}

// The microbatches in flight, each with its offloaded bytes.
TEST_CASE("program: the CPUs hold what travels of the microbatches under way") {
  Plan plan = sample::llama_8b();
  plan.mesh.pp = 4;
  plan.mesh.dp = 1;
  plan.batch.global_batch = 12;
  CHECK(host_activations(sample::job(plan).classes[0]) == 0);
  plan.policy.offload_modules = bits({qkv_linear, core_attn, attn_proj});
  const std::int64_t layer = residual + normed + query + keys + 2 * attended;
  const Job made = sample::job(plan);
  for (const Program& program : made.classes) {
    INFO(program.stage);
    // The last group of each name stays in the first pass, and on the last stage in every pass.
    CHECK(host_activations(program) == (4 - program.stage) * 8 * layer - layer);
  }
}

TEST_CASE("program: a group comes up while as many others go back as a layer has") {
  Plan plan = sample::llama_8b();
  plan.mesh.pp = 2;
  plan.mesh.dp = 1;
  plan.batch.global_batch = 8;
  plan.policy.offload_modules = bits({core_attn, attn_proj});
  const Program first = sample::job(plan).classes[0];
  // For each copy up: the number of waits of the backward pass before that for its own group.
  std::map<std::uint16_t, int> on_their_way;
  int most = 0, least = 1 << 20, waits = 0;
  sample::each_of_step(first, [&](const Instruction& i) {
    if (i.op == Op::record && i.stream == Stream::pcie_up) {
      CHECK(++on_their_way[i.event] == 1);
    } else if (i.op == Op::wait && on_their_way.contains(i.event) && on_their_way[i.event] > 0) {
      --on_their_way[i.event];
      ++waits;
    }
    int all = 0;
    for (const auto& [event, count] : on_their_way) all += count;
    most = std::max(most, all);
    if (waits > 4 && waits < 200) least = std::min(least, all);
  });
  CHECK(waits == 2 * (8 * 16 - 1));
  CHECK(most == 2);
  CHECK(least >= 0);
}

TEST_CASE("program: experts leave their inputs and what the activation reads") {
  Plan plan = sample::mixture();
  plan.mesh.pp = 1;
  plan.mesh.dp = 8;
  const model::Architecture& a = plan.architecture;
  // 2,048 tokens with two experts each; a rank receives as many rows as it sends.
  const std::int64_t rows = 2 * 2048, tokens = 2048;
  const std::int64_t fc1 = 2 * rows * a.hidden, act = 2 * rows * 2 * a.experts.ffn;
  const std::int64_t probabilities = 4 * rows, stream_bytes = 2 * tokens * a.hidden;
  for (const auto& [modules, travels] : std::map<std::uint8_t, std::int64_t>{
           {bits({expert_fc1}), fc1},
           {bits({moe_act}), act + probabilities},
           {bits({mlp_norm}), stream_bytes},
           {bits({expert_fc1, moe_act, mlp_norm}), fc1 + act + probabilities + stream_bytes}}) {
    Plan p = plan;
    p.policy.offload_modules = modules;
    p.policy.offload_min_elements = 0;
    INFO(offload_modules_text(p.policy, ","));
    REQUIRE(sample::rules(p).empty());
    CHECK(moved(sample::job(p).classes[0]).down == p.microbatches() * 3 * travels);
    CHECK(sample::at_head(plan) - sample::at_head(p) == 3 * travels);
  }
}

// The module that predicts has the last group of each name, so every layer before it offloads its
// own. Without it the last layer's groups stay.
TEST_CASE("program: the groups of a module that predicts stay on the GPU") {
  Plan plan = sample::mixture();
  plan.mesh.pp = 1;
  plan.mesh.dp = 8;
  const std::int64_t rows = 2 * 2048, fc1 = 2 * rows * plan.architecture.hidden;
  plan.policy.offload_modules = bits({expert_fc1});
  for (const int predicted : {0, 1}) {
    plan.architecture.predicted_tokens = predicted;
    INFO(predicted);
    REQUIRE(sample::rules(plan).empty());
    const Moved bytes = moved(sample::job(plan).classes[0]);
    CHECK(bytes.down == plan.microbatches() * (3 + predicted) * fc1);
    CHECK(bytes.up == bytes.down);
  }
}

TEST_CASE("program: what modules on the CPU ask of a plan") {
  const auto refused = [](auto change) {
    Plan p = sample::mixture();
    p.policy.offload_modules = bits({core_attn, attn_proj, expert_fc1});
    change(p);
    return sample::rules(p);
  };
  CHECK(refused([](Plan&) {}).empty());
  const auto says = [&](const char* text, auto change) {
    INFO(text);
    CHECK(refused(change).find(text) != std::string::npos);
  };
  says("write core_attn beside it", [](Plan& p) { p.policy.offload_modules = bit_of(attn_proj); });
  says("leave offload_layers and layer_choices out", [](Plan& p) {
    p = sample::llama_8b();
    p.policy.offload_modules = bit_of(core_attn);
    p.policy.offload_layers = 1;
  });
  says("write recompute none or selective", [](Plan& p) { p.policy.recompute = Recompute::full; });
  says("leave moe out of recompute_modules", [](Plan& p) {
    p.policy.recompute = Recompute::selective;
    p.policy.recompute_modules.moe = true;
  });
  says("write schedule 1f1b", [](Plan& p) { p.pipeline.schedule = "zb-h1"; });
  says("write mtp_layers 1", [](Plan& p) { p.architecture.predicted_tokens = 2; });
  says("follows directly; write schedule 1f1b", [](Plan& p) {
    p.architecture.predicted_tokens = 1;
    p.pipeline.schedule = "gpipe";
  });
  says("write fp8 false", [](Plan& p) { p.numerics.fp8 = true; });
  says("must be 0 or more", [](Plan& p) { p.policy.offload_min_elements = -1; });
  says("this model's layers have none of these",
       [](Plan& p) { p.policy.offload_modules = bit_of(attn_norm); });
}
