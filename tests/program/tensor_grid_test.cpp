// tensor_grid_test.cpp — AxoNN's grid of tensor-parallel ranks with rows, columns and depth:
// traffic of each communicator in closed form over all small grids, memory of a rank, and refused
// plans.
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <utility>

#include "sample.h"

using namespace sample;

namespace {

Plan grid(int rows, int columns, int depth, int replicas) {
  Plan p = gpt();
  p.mesh.tp = rows * columns;
  p.mesh.tensor_columns = columns;
  p.mesh.dp = depth * replicas;
  p.mesh.tensor_depth = depth;
  p.mesh.pp = 1;
  p.mesh.cp = 1;
  p.mesh.sequence_parallel = false;
  p.batch.global_batch = p.mesh.dp * p.batch.micro_batch;
  p.sharding.distributed_optimizer = p.sharding.overlap_param_gather =
      p.sharding.overlap_grad_reduce = false;
  p.stack.gradient_accumulation_fusion = false;
  return p;
}

// Bytes of a step by communicator and kind of collective, inside layers.
std::map<std::pair<Stream, collective::Kind>, std::int64_t> carried(const Plan& plan) {
  REQUIRE(problems(plan).empty());
  const Job built = job(plan);
  const Program& program = built.classes.front();
  std::map<std::pair<Stream, collective::Kind>, std::int64_t> bytes;
  for (const Pass& pass : program.step)
    for (const Call& call : program.templates[pass.pattern].calls) {
      if (call.layer < 0) continue;
      for (const Instruction& i : program.blocks[call.block].code)
        if (i.op == Op::collective) {
          const Transfer& t = program.transfers[i.index];
          bytes[{t.communicator, t.kind}] += t.bytes.n;
        }
    }
  return bytes;
}

}  // namespace

// arXiv:2305.13525 section V and its code. A column-parallel product sums its output over the
// columns and its input gradient over the rows. A row-parallel product does the reverse.
TEST_CASE("program: rows and columns of a grid carry what their products make") {
  for (const int rows : {1, 2, 4})
    for (const int columns : {2, 4}) {
      for (const Recompute recompute : {Recompute::none, Recompute::full}) {
        Plan plan = grid(rows, columns, 1, 2);
        plan.policy.recompute = recompute;
        INFO("rows " << rows << " columns " << columns);
        const auto bytes = carried(plan);
        const model::Architecture& a = plan.architecture;
        const std::int64_t tokens = plan.batch.sequence * plan.batch.micro_batch;
        const std::int64_t forwards = recompute == Recompute::full ? 2 : 1;
        const std::int64_t qkv = a.query_width() + 2 * a.kv_width();
        const std::int64_t over_columns =
            forwards * (qkv + a.ffn) / rows + (a.query_width() + a.ffn) / rows;
        CHECK(bytes.at({Stream::tensor_columns, collective::Kind::all_reduce}) ==
              2 * tokens * a.layers * over_columns);
        const std::int64_t over_rows = (2 * forwards + 2) * a.hidden / columns;
        const auto found = bytes.find({Stream::tensor_rows, collective::Kind::all_reduce});
        CHECK((found == bytes.end() ? 0 : found->second) ==
              (rows == 1 ? 0 : 2 * tokens * a.layers * over_rows));
        CHECK(bytes.count({Stream::tp, collective::Kind::all_reduce}) == 0);
      }
    }
}

// Each visit gathers all weights of a layer, and their gradients are scattered once.
TEST_CASE("program: weights over several ranks are gathered around each of their products") {
  for (const int depth : {2, 4})
    for (const bool overlaps : {true, false})
      for (const Recompute recompute : {Recompute::none, Recompute::full}) {
        Plan plan = grid(2, 2, depth, 2);
        plan.policy.recompute = recompute;
        plan.stack.overlap_depth_gather = plan.stack.overlap_depth_scatter = overlaps;
        const auto bytes = carried(plan);
        const model::Architecture& a = plan.architecture;
        const std::int64_t qkv = a.query_width() + 2 * a.kv_width();
        const std::int64_t matrices =
            a.hidden * (qkv + a.query_width() + 2 * a.ffn) / plan.mesh.tp * a.layers;
        const std::int64_t gathers = recompute == Recompute::full ? 3 : 2;
        CHECK(bytes.at({Stream::shard, collective::Kind::all_gather}) == gathers * 2 * matrices);
        CHECK(bytes.at({Stream::shard, collective::Kind::reduce_scatter}) == 2 * matrices);
        // Weights that autograd saved are not gathered again.
        plan.stack.saved_depth_weights = true;
        const auto saved = carried(plan);
        CHECK(saved.at({Stream::shard, collective::Kind::all_gather}) ==
              (gathers - 1) * 2 * matrices);
        CHECK(saved.at({Stream::shard, collective::Kind::reduce_scatter}) == 2 * matrices);
      }
}

TEST_CASE("program: weights that are saved stay whole from the forward to the backward pass") {
  Plan plan = grid(2, 1, 4, 1);
  plan.stack.saved_depth_weights = true;
  const model::Architecture& a = plan.architecture;
  const std::int64_t layer =
      2 * a.hidden * (a.query_width() + 2 * a.kv_width() + a.query_width() + 2 * a.ffn) / 2;
  const auto most = [&] {
    const Job built = job(plan);
    Walk walk(built.classes.front());
    walk.run(built.classes.front().setup);
    std::int64_t bytes = 0;
    walk.run(built.classes.front().step, [&](const Instruction&, const Block&, const Walk& live) {
      bytes = std::max(bytes, live.bytes("gathered weight"));
    });
    CHECK(walk.broken().empty());
    return bytes;
  };
  CHECK(most() == a.layers * layer);
  plan.policy.recompute = Recompute::full;
  CHECK(most() == layer);
  plan.policy.recompute_layers = 2;
  CHECK(most() == 2 * layer);
}

TEST_CASE("program: a rank holds its part of the matrices, and all of what is none") {
  const auto held = [](int depth) {
    const Plan plan = grid(2, 2, depth, 2);
    const Job built = job(plan);
    std::map<std::string, std::int64_t> bytes;
    const Program& program = built.classes.front();
    for (const Pass& pass : program.setup)
      for (const Call& call : program.templates[pass.pattern].calls)
        for (const Instruction& i : program.blocks[call.block].code)
          if (i.op == Op::alloc) bytes[std::string(program.labels[i.label])] += i.value;
    return bytes;
  };
  auto whole = held(1), half = held(2);
  for (const char* matrix :
       {"linear_qkv.weight", "linear_proj.weight", "linear_fc1.weight", "linear_fc2.weight"})
    CHECK(whole[matrix] == 2 * half[matrix]);
  for (const char* other :
       {"linear_qkv.layer_norm_weight", "linear_fc1.bias", "word embedding", "final norm"})
    CHECK(whole[other] == half[other]);
}

TEST_CASE("program: what a grid of tensors does not go with is said") {
  const Plan plan = grid(2, 2, 2, 2);
  REQUIRE(rules(plan).empty());
  Plan p = plan;
  p.mesh.tensor_columns = 3;
  p.mesh.tensor_depth = 3;
  CHECK(rules(p) ==
        "tensor_columns: tensor_columns 3 does not divide tp 4; it may be 1, 2 or 4\n"
        "tensor_depth: tensor_depth 3 does not divide dp 4, of which it is a part; it may be 1, 2 "
        "or 4\n");
  p = plan;
  p.mesh.sequence_parallel = true;
  p.sharding.distributed_optimizer = true;
  p.stack.gradient_accumulation_fusion = true;
  const std::string said = rules(p);
  CHECK(said.find("sequence_parallel: tensor_columns goes with whole sequences") !=
        std::string::npos);
  CHECK(said.find("distributed_optimizer: tensor_columns goes with Megatron-LM's DDP") !=
        std::string::npos);
  CHECK(said.find("gradient_accumulation_fusion: ") != std::string::npos);
  p = plan;
  p.mesh.pp = 2;
  CHECK(rules(p).find("pp: tensor_columns goes with one stage; write pp 1") != std::string::npos);
}

// Each option alone, because a rule that names two must be broken by either.
TEST_CASE("program: all that a grid of tensors does not go with is refused by its name") {
  const auto names = [](const char* field, void (*change)(Plan&)) {
    Plan p = grid(2, 2, 1, 2);
    REQUIRE(rules(p).empty());
    change(p);
    INFO(rules(p));
    CHECK(rules(p).find(std::string(field) + ": tensor_columns goes with ") != std::string::npos);
  };
  names("pp", [](Plan& p) { p.mesh.pp = 2; });
  names("pp", [](Plan& p) { p.pipeline.virtual_stages = 2; });
  names("cp", [](Plan& p) { p.mesh.cp = 2; });
  names("fp8", [](Plan& p) { p.numerics.fp8 = true; });
  names("lora_rank", [](Plan& p) { p.lora.rank = 8; });
  names("model", [](Plan& p) { p.architecture.experts.count = 8; });
  names("model", [](Plan& p) { p.architecture.latent.kv_rank = 512; });
  names("model", [](Plan& p) { p.architecture.input_norms = model::InputNorms::shared; });
  names("data_parallel", [](Plan& p) { p.sharding.data_parallel = DataParallelism::fsdp2; });
  names("layer_kernels", [](Plan& p) { p.stack.layer_kernels = LayerKernels::eager; });
  names("recompute", [](Plan& p) { p.policy.recompute = Recompute::selective; });
  names("layer_choices", [](Plan& p) { p.policy.plans_choices = true; });
  names("offload_layers", [](Plan& p) { p.policy.offload_layers = 1; });
  names("tp_comm_overlap", [](Plan& p) { p.stack.tp_comm_overlap = true; });
}
