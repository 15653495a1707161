// fsdp_test.cpp — sharded parameters: the memory of a rank, and the number of gathers and
// reductions.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>

#include "sample.h"

using namespace sample;

namespace {

// Llama-3.1-8B with four layers on four ranks, four microbatches.
Plan sharded(DataParallelism kind) {
  Plan p = llama_8b();
  p.architecture.layers = 4;
  p.mesh.tp = 1;
  p.mesh.dp = 4;
  p.batch.global_batch = 16;
  p.sharding.data_parallel = kind;
  return p;
}

std::map<std::pair<collective::Kind, Stream>, int> collectives(const Program& program) {
  std::map<std::pair<collective::Kind, Stream>, int> count;
  each_of_step(program, [&](const Instruction& i) {
    if (i.op != Op::collective) return;
    const Transfer& t = program.transfers[i.index];
    ++count[{t.kind, t.communicator}];
  });
  return count;
}

int most_alive(const Program& program, const std::string& label) {
  Walk walk(program);
  walk.run(program.setup);
  walk.run(program.first_step);
  int most = 0;
  walk.run(program.step, [&](const Instruction&, const Block&, const Walk& now) {
    most = std::max(most, now.count(label));
  });
  return most;
}

bool says(const Diagnostics& all, const std::string& part) {
  return std::any_of(all.begin(), all.end(), [&](const Diagnostic& problem) {
    return problem.message.find(part) != std::string::npos;
  });
}

}  // namespace

TEST_CASE("program: a rank of four holds a quarter of the parameters in fp32") {
  // A layer: qkv 6144 x 4096, projection 4096 x 4096, fc1 28672 x 4096, fc2 4096 x 14336, two norms
  // of 4096. The root: two tables of 128256 x 4096 and a norm.
  const std::int64_t layer = 4096LL * (6144 + 4096 + 28672 + 14336 + 2);
  const std::int64_t root = 4096LL * (2 * 128256 + 1);
  for (const auto kind : {DataParallelism::fsdp1, DataParallelism::fsdp2}) {
    const Job made = job(sharded(kind));
    Walk walk(made.classes.front());
    walk.run(made.classes.front().setup);
    CHECK(walk.bytes("sharded parameter") == 4 * (4 * layer + root) / 4);
    CHECK(walk.bytes() == walk.bytes("sharded parameter"));
    walk.run(made.classes.front().first_step);
    CHECK(walk.bytes("exp_avg") == 4 * layer + root);
    CHECK(walk.bytes("exp_avg_sq") == 4 * layer + root);
  }
}

// PyTorch copies the parameters of a unit also where there is nobody to gather from
// [torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py:wait_for_unshard, world_size == 1].
TEST_CASE("program: on one rank FSDP2 copies parameters to bf16 and has no collective") {
  Plan p = sharded(DataParallelism::fsdp2);
  p.mesh.dp = 1;
  p.batch.global_batch = 4;
  const auto copies = [](const Plan& plan) {
    const Job made = job(plan);
    const Program& program = made.classes.front();
    CHECK(collectives(program).empty());
    int count = 0;
    each_of_step(program, [&](const Instruction& i) {
      if (program.labels[i.label] == "shard to all-gather output") ++count;
    });
    return count;
  };
  CHECK(copies(p) == 4 * (4 + 1 + 4));
  p.sharding.fsdp.low_precision_parameters = true;  // computes with the parameters that it holds
  CHECK(copies(p) == 0);
}

TEST_CASE("program: every unit is gathered twice in a microbatch and reduced once") {
  using collective::Kind;
  // Four layers and the root, whose parameters stay from forward to backward; four microbatches.
  for (const auto kind : {DataParallelism::fsdp1, DataParallelism::fsdp2}) {
    Plan p = sharded(kind);
    const auto count = [](const Plan& plan) { return collectives(job(plan).classes.front()); };
    auto all = count(p);
    CHECK(all.at({Kind::all_gather, Stream::shard}) == 4 * (4 + 1 + 4));
    CHECK(all.at({Kind::reduce_scatter, Stream::shard}) == 4 * (4 + 1));
    p.sharding.fsdp.reshard_after_forward = false;
    CHECK(count(p).at({Kind::all_gather, Stream::shard}) == 4 * (4 + 1));
    p.sharding.fsdp.no_sync = true;
    CHECK(count(p).at({Kind::reduce_scatter, Stream::shard}) == 4 + 1);
    p.sharding.fsdp.replicas = 2;
    CHECK(count(p).at({Kind::all_reduce, Stream::replicate}) == 4 + 1);
  }
}

TEST_CASE("program: experts in shards are split over the ranks that hold the same ones") {
  using collective::Kind;
  // Two layers of 8 experts with 3 x 1024 x 1024 weights; eight ranks, four microbatches.
  for (const int ep : {1, 2, 4, 8}) {
    Plan p = mixture();
    p.architecture.layers = 2;
    p.mesh.pp = 1;
    p.mesh.dp = 8;
    p.mesh.ep = ep;
    p.batch.global_batch = 32;
    p.sharding.data_parallel = DataParallelism::fsdp2;
    const std::int64_t experts = 2LL * 8 * 3 * 1024 * 1024;
    // Attention: q, k, v 2048 x 1024 and the projection; the router; two norms. The root: two
    // tables and a norm.
    const std::int64_t layer = 1024LL * (2048 + 1024 + 8 + 2);
    const std::int64_t root = 1024LL * (2 * 32000 + 1);
    const Job made = job(p);
    Walk walk(made.classes.front());
    walk.run(made.classes.front().setup);
    CHECK(walk.bytes("sharded parameter") == 4 * (experts + 2 * layer + root) / 8);
    walk.run(made.classes.front().first_step);
    CHECK(walk.bytes("exp_avg") == 4 * (experts + 2 * layer + root) / 8);
    auto all = collectives(made.classes.front());
    CHECK(all[{Kind::all_gather, Stream::shard}] == 4 * (2 + 1 + 2));
    CHECK(all[{Kind::reduce_scatter, Stream::shard}] == 4 * (2 + 1));
    const bool apart = ep > 1 && ep < 8;
    CHECK(all[{Kind::all_gather, Stream::edp}] == (apart ? 4 * (2 + 2) : 0));
    CHECK(all[{Kind::reduce_scatter, Stream::edp}] == (apart ? 4 * 2 : 0));
    // The bytes of a layer's collectives are those of its parameters on this rank.
    std::int64_t of_experts = 0, of_others = 0;
    each_of_step(made.classes.front(), [&](const Instruction& i) {
      if (i.op != Op::collective) return;
      const Transfer& t = made.classes.front().transfers[i.index];
      if (t.kind != Kind::reduce_scatter) return;
      (t.communicator == Stream::edp ? of_experts : of_others) += t.bytes.n;
    });
    const std::int64_t here = experts / ep;
    CHECK(of_experts == (apart ? 4 * 4 * here : 0));
    CHECK(of_others == 4 * 4 * (2 * layer + root + (ep == 1 ? here : 0)));
  }
}

TEST_CASE("program: experts in shards of their own need fully_shard and one copy") {
  Plan p = mixture();
  p.sharding.data_parallel = DataParallelism::fsdp2;
  CHECK(problems(p).empty());
  p.sharding.fsdp.replicas = 2;
  CHECK(says(problems(p), "leave fsdp.replicas out"));
  p.sharding.fsdp.replicas = 1;
  p.sharding.deepspeed_optimizer = true;
  CHECK(says(problems(p), "DeepSpeed's ZeRO-3 shards whole experts; write ep 1"));
  p.sharding.deepspeed_optimizer = false;
  p.sharding.data_parallel = DataParallelism::fsdp1;
  CHECK(says(problems(p), "write data_parallel fsdp2, or ep 1 without etp"));
  p.mesh.ep = 1;
  CHECK(problems(p).empty());
}

TEST_CASE("program: whole parameters are there for as long as the mode says") {
  // The root, the current layer and, in the backward pass, the layer gathered ahead.
  Plan p = sharded(DataParallelism::fsdp1);
  CHECK(most_alive(job(p).classes.front(), "flat parameters") == 3);
  p.sharding.fsdp.backward_prefetch = 0;
  CHECK(most_alive(job(p).classes.front(), "flat parameters") == 2);
  p.sharding.fsdp.backward_prefetch = 3;
  CHECK(most_alive(job(p).classes.front(), "flat parameters") == 5);
  p.sharding.fsdp.reshard_after_forward = false;
  CHECK(most_alive(job(p).classes.front(), "flat parameters") == 5);
  // FSDP2 copies 6 parameters per layer and 3 in the root. The gathered tensor of the previous
  // layer lives until the one of this layer exists.
  p = sharded(DataParallelism::fsdp2);
  CHECK(most_alive(job(p).classes.front(), "unsharded parameter") == 3 + 6);
  CHECK(most_alive(job(p).classes.front(), "all-gather output") == 2);
}

TEST_CASE("program: the CPU waits for the second-last free before it gathers in FSDP1 only") {
  const auto waits = [](const Plan& plan) {
    const Job made = job(plan);
    int count = 0;
    for (const Block& block : made.classes.front().blocks)
      for (const Instruction& i : block.code) count += i.op == Op::sync_event;
    return count;
  };
  Plan p = sharded(DataParallelism::fsdp1);
  CHECK(waits(p) > 0);
  p.sharding.fsdp.limit_all_gathers = false;
  CHECK(waits(p) == 0);
  CHECK(waits(sharded(DataParallelism::fsdp2)) == 0);
}

TEST_CASE("program: flat shards do not split their backward pass and copies divide the replicas") {
  Plan p = sharded(DataParallelism::fsdp2);
  CHECK(problems(p).empty());
  p.mesh.pp = 2;
  p.pipeline.schedule = "zb-h1";
  CHECK(problems(p).empty());
  p.sharding.data_parallel = DataParallelism::fsdp1;
  CHECK(says(problems(p), "which fsdp1's flat parameters cannot"));
  p = sharded(DataParallelism::fsdp2);
  p.sharding.fsdp.replicas = 3;
  CHECK(says(problems(p), "fsdp.replicas 3 does not divide dp 4; it may be 1, 2 or 4"));
  p = sharded(DataParallelism::fsdp2);
  p.sharding.fsdp.backward_prefetch = 7;
  CHECK(says(problems(p), "fsdp.backward_prefetch is 7; it must be 0 to 6"));
}

TEST_CASE("program: uneven stages share all layers") {
  Plan p = llama_8b();
  p.mesh.pp = 4;
  p.architecture.layers = 14;
  CHECK(says(problems(p), "pp 4 does not divide the 14 layers"));
  p.pipeline.account_for_embedding = p.pipeline.account_for_loss = true;
  CHECK(problems(p).empty());
  // 16 places; the embedding and the head take one each.
  CHECK(p.chunk_layers(0, 0) == 3);
  CHECK(p.chunk_layers(1, 0) == 4);
  CHECK(p.chunk_layers(3, 0) == 3);
  p.pipeline.account_for_embedding = p.pipeline.account_for_loss = false;
  p.pipeline.first_stage_layers = 2;
  p.pipeline.last_stage_layers = 4;
  CHECK(problems(p).empty());
  CHECK(p.chunk_layers(0, 0) == 2);
  CHECK(p.chunk_layers(2, 0) == 4);
  CHECK(p.chunk_layers(3, 0) == 4);
  p.pipeline.last_stage_layers = 3;
  CHECK(says(problems(p), "leave 9 layers for 2 other stages"));
  // Eight chunks of one place each: the first holds only the embedding, the last only the head.
  Plan alone = llama_8b();
  alone.architecture.layers = 6;
  alone.mesh.pp = 2;
  alone.pipeline.schedule = "interleaved-1f1b";
  alone.pipeline.virtual_stages = 4;
  alone.pipeline.account_for_embedding = alone.pipeline.account_for_loss = true;
  CHECK(problems(alone).empty());
  CHECK(alone.chunk_layers(0, 0) == 0);
  CHECK(alone.chunk_layers(0, 1) == 1);
  CHECK(alone.chunk_layers(1, 3) == 0);
  alone.pipeline.virtual_stages = 1;  // a stage must have layers
  alone.pipeline.schedule = "1f1b";
  alone.mesh.pp = 8;
  CHECK(says(problems(alone), "not a multiple (at least 2) of pp x virtual_stages = 8"));
  // Global layer numbers continue from stage to stage.
  p.pipeline.last_stage_layers = 4;
  const Job made = job(p);
  std::vector<int> first;
  for (const Program& program : made.classes)
    for (const Template& t : program.templates)
      if (t.kind == PassKind::forward) {
        for (const Call& call : t.calls)
          if (call.layer >= 0) {
            first.push_back(call.layer);
            break;
          }
        break;
      }
  CHECK(first == std::vector<int>{0, 2, 6, 10});
}

TEST_CASE("program: products in fp8 save operands of one byte") {
  Plan p = llama_8b();
  p.mesh.tp = 1;
  const auto saved = [](const Plan& plan) {
    return left_by(job(plan).classes.front(), "layer forward");
  };
  auto whole = saved(p);
  p.numerics.fp8 = true;
  auto cast = saved(p);
  CHECK(2 * cast.at("norm output") == whole.at("norm output"));
  CHECK(2 * cast.at("activation output in fp8") == whole.at("activation output"));
  CHECK(2 * cast.at("projection input") == whole.at("attention output"));
  p.numerics.precision = model::Precision::fp32;
  CHECK(says(problems(p), "fp8 needs 16-bit parameters"));
}

TEST_CASE("program: a recomputed MLP saves its input alone and runs its products again") {
  Plan p = llama_8b();
  const auto saved = [](const Plan& plan) {
    return left_by(job(plan).classes.front(), "layer forward");
  };
  const auto products = [](const Plan& plan) {
    const Job made = job(plan);
    for (const Block& block : made.classes.front().blocks) {
      if (block.name != "layer backward") continue;
      return std::count_if(block.code.begin(), block.code.end(), [&](const Instruction& i) {
        return i.op == Op::kernel &&
               made.classes.front().operations[i.index].kind == model::OperationKind::gemm;
      });
    }
    return std::ptrdiff_t{0};
  };
  auto whole = saved(p);
  CHECK(products(p) == 8);  // two for each of four
  p.policy.recompute = Recompute::selective;
  p.policy.recompute_modules = {false, true};
  auto less = saved(p);
  CHECK(whole.count("fc1 output") == 1);
  CHECK(less.count("fc1 output") == 0);
  CHECK(less.count("activation output") == 0);
  CHECK(2 * less.at("norm output") == whole.at("norm output"));
  CHECK(less.at("residual stream") == whole.at("residual stream"));
  CHECK(products(p) == 10);
}

TEST_CASE("program: narrow optimizer state has the bytes asked for and the CPU takes its share") {
  Plan p = llama_8b();
  const auto held = [](const Plan& plan, const std::string& label) {
    const Job made = job(plan);
    Walk walk(made.classes.front());
    walk.run(made.classes.front().setup);
    walk.run(made.classes.front().first_step);
    return walk.bytes(label);
  };
  const std::int64_t whole = held(p, "exp_avg");
  p.numerics.fp32_gradients = false;
  CHECK(held(p, "fp32 gradient copy") == whole);
  p.optimizer = {true, 2, 2, 1};
  REQUIRE(problems(p).empty());
  CHECK(held(p, "fp32 gradient copy") == 0);
  CHECK(held(p, "fp32 main parameter") * 2 == whole);
  CHECK(held(p, "exp_avg") * 2 == whole);
  CHECK(held(p, "exp_avg_sq") * 4 == whole);
  p.optimizer.offload_fraction = 1;
  CHECK(held(p, "exp_avg") == 0);
  CHECK(held(p, "fp32 main parameter") == 0);
  p.optimizer.precision_aware = false;
  CHECK(says(problems(p), "needs precision_aware_optimizer"));
}

TEST_CASE("program: Adam copies narrow moments to fp32 unless its kernel casts them") {
  // TransformerEngine's kernel casts two bf16 moments since 2.13; before, and in other types, all
  // moments of an optimizer are copied at once.
  Plan p = sample::llama_8b();
  p.numerics.fp32_gradients = false;
  const auto copied = [&](int first, int second, bool separate) {
    p.optimizer = {true, 2, first, second};
    p.optimizer.separate_casts = separate;
    REQUIRE(problems(p).empty());
    const Job made = job(p);
    const Program& program = made.classes.front();
    std::int64_t bytes = 0;
    for (const Block& block : program.blocks)
      for (const Instruction& i : block.code)
        if (i.op == Op::alloc && program.labels[i.label] == "fp32 moment") bytes += i.value;
    return bytes;
  };
  const std::int64_t both = copied(2, 2, true);
  CHECK(both > 0);
  CHECK(copied(2, 2, false) == 0);
  CHECK(copied(4, 4, true) == 0);
  CHECK(copied(2, 4, false) * 2 == both);
  CHECK(copied(1, 2, false) == both);
}
