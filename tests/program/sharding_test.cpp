// sharding_test.cpp — the times of parameter gathers and gradient reductions, for every schedule.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "draw.h"
#include "sample.h"
#include "sim/job/schedule/schedule.h"
#include "sim/program/ir/rank.h"
#include "sim/program/parallel/offload/host_memory.h"

using namespace sample;

namespace {

// A small plan on two stages that a schedule accepts.
Plan two_stages(const schedule::Schedule& schedule) {
  Plan p = llama_8b();
  p.architecture.layers = 8;
  p.mesh.tp = 1;
  p.mesh.pp = 2;
  p.mesh.dp = 2;
  p.batch.global_batch = 2 * 6;
  p.pipeline.schedule = schedule.name;
  p.pipeline.virtual_stages = schedule.problem({p.mesh.pp, 6, 1}).empty() ? 1 : 2;
  return p;
}

bool reduces(const Program& program, const Pass& pass) {
  for (const Call& call : program.templates[pass.pattern].calls)
    for (const Instruction& i : program.blocks[call.block].code)
      if (program.labels[i.label] == "gradient reduction") return true;
  return false;
}

}  // namespace

TEST_CASE("program: gradients are reduced in the last pass of a chunk that adds to them") {
  for (const schedule::Schedule& schedule : schedule::catalog()) {
    CAPTURE(schedule.name);
    const Plan plan = two_stages(schedule);
    if (!problems(plan).empty()) continue;  // the schedule exists only as a picture
    for (const Program& program : job(plan).classes) {
      std::vector<const Pass*> last(static_cast<std::size_t>(plan.pipeline.virtual_stages),
                                    nullptr);
      for (const Pass& pass : program.step) {
        const Template& t = program.templates[pass.pattern];
        if (pass.releases) last[static_cast<std::size_t>(t.chunk)] = &pass;
      }
      for (const Pass& pass : program.step) {
        const Template& t = program.templates[pass.pattern];
        if (!pass.releases && t.kind != PassKind::backward) continue;
        // Passes that end a microbatch add to the gradients of layers.
        CHECK((reduces(program, pass) && pass.releases) ==
              (&pass == last[static_cast<std::size_t>(t.chunk)]));
      }
    }
  }
}

namespace {

bool says(const Diagnostics& all, const std::string& part) {
  return std::ranges::any_of(all, [&](const Diagnostic& problem) {
    return problem.message.find(part) != std::string::npos;
  });
}

std::int64_t main_parameters(const Program& program) {
  Walk walk(program);
  walk.run(program.setup);
  return walk.bytes("fp32 main parameter");
}

// Bytes that a rank sends through its shard group, or its data-parallel group, in a later step.
std::int64_t moved(const Program& program, const std::string& label) {
  std::int64_t bytes = 0;
  each_of_step(program, [&](const Instruction& i) {
    if (i.op == Op::collective && program.labels[i.label] == label)
      bytes += program.transfers[i.index].bytes.n;
  });
  return bytes;
}

int times(const Program& program, const std::string& label) {
  int count = 0;
  each_of_step(program, [&](const Instruction& i) {
    count += i.op == Op::collective && program.labels[i.label] == label;
  });
  return count;
}

// Llama with 1,024 wide layers, on given numbers of stages and chunks; all sizes are multiples of
// 128.
Plan small(DataParallelism kind, int pp, int chunks) {
  Plan p = llama_8b();
  model::Architecture& a = p.architecture;
  a.layers = 2 * pp * chunks;
  a.hidden = 1024;
  a.ffn = 2816;
  a.heads = 16;
  a.kv_heads = 4;
  a.head_dim = 64;
  a.vocab = 32000;
  p.batch.sequence = 1024;
  p.mesh.tp = 1;
  p.mesh.pp = pp;
  p.pipeline.virtual_stages = chunks;
  p.pipeline.schedule = chunks > 1 ? "interleaved-1f1b" : "1f1b";
  p.mesh.dp = 4;
  p.batch.global_batch = p.mesh.dp * pp * 3;
  p.sharding.data_parallel = kind;
  return p;
}

// A layer: qkv (1024 + 2 x 256) x 1024, projection 1024 x 1024, fc1 5632 x 1024, fc2 1024 x 2816,
// two norms. The ends: a table of 32000 x 1024 on either side, and a norm on the last.
constexpr std::int64_t matrices = 1024LL * (1536 + 1024 + 5632 + 2816);
constexpr std::int64_t norms = 2 * 1024;
constexpr std::int64_t layer = matrices + norms;
std::int64_t root(const Program& program, int pp) {
  const std::int64_t table = 1024LL * 32000;
  return (program.stage == 0 ? table : 0) + (program.stage == pp - 1 ? table + 1024 : 0);
}

const std::vector<std::pair<int, int>> shapes = {{1, 1}, {2, 1}, {4, 1}, {2, 2}, {2, 3}, {4, 2}};

}  // namespace

TEST_CASE("program: what a step gathers and reduces is the parameters once where they stay whole") {
  for (const auto& [pp, chunks] : shapes) {
    CAPTURE(pp, chunks);
    Plan plan = small(DataParallelism::ddp, pp, chunks);
    const auto check = [&](std::int64_t gathered, std::int64_t reduced) {
      REQUIRE(problems(plan).empty());
      for (const Program& program : job(plan).classes) {
        CAPTURE(program.stage);
        const std::int64_t all = 2 * chunks * layer + root(program, pp);
        CHECK(program.parameters == all);
        CHECK(moved(program, "parameter gather") == gathered * all);
        CHECK(moved(program, "gradient reduction") == reduced * all);
      }
    };
    check(2, 4);  // bf16 parameters, fp32 gradients
    plan.sharding.overlap_param_gather = false;
    check(2, 4);
    // Whole parameters: summed on all ranks, each sent once by the rank that updates it.
    plan.sharding.whole_parameters = true;
    check(0, 4);
    for (const Program& program : job(plan).classes)
      CHECK(moved(program, "updated parameters") == 2 * program.parameters);
    plan.sharding.whole_parameters = false;
    plan.sharding.distributed_optimizer = false;
    check(0, 4);
    plan.numerics.fp32_gradients = false;
    check(0, 2);
    for (const auto kind : {DataParallelism::fsdp1, DataParallelism::fsdp2}) {
      plan = small(kind, pp, chunks);
      plan.sharding.fsdp.reshard_after_forward = false;
      plan.sharding.fsdp.no_sync = true;
      // Without stages FSDP2 frees parameters after each backward pass.
      check(pp == 1 && kind == DataParallelism::fsdp2 ? 2 * 3 : 2, 4);
      plan.numerics.fp32_gradients = false;
      check(pp == 1 && kind == DataParallelism::fsdp2 ? 2 * 3 : 2, 2);
    }
  }
}

// 4 ranks, 2 copies: halves of a bucket are reduced among 2 ranks, then each half over both copies.
TEST_CASE("program: copies of the optimizer reduce inside a group, then over the copies") {
  for (const bool overlapped : {true, false}) {
    CAPTURE(overlapped);
    Plan plan = small(DataParallelism::ddp, 1, 1);
    plan.sharding.optimizer_replicas = 2;
    plan.sharding.overlap_grad_reduce = plan.sharding.overlap_param_gather = overlapped;
    REQUIRE(problems(plan).empty());
    const Job built = job(plan);
    const Program& program = built.classes.front();
    CHECK(moved(program, "gradient reduction") == 4 * program.parameters);
    CHECK(moved(program, "gradient all-reduce") == 4 * program.parameters / 2);
    CHECK(moved(program, "parameter gather") == 2 * program.parameters);
    CHECK(built.mesh.groups(mesh::Communicator::shard).ranks.front().size() == 2);
    // Half of the state; without copies each of four ranks would hold a quarter.
    Plan one = plan;
    one.sharding.optimizer_replicas = 1;
    CHECK(main_parameters(program) == 2 * main_parameters(job(one).classes.front()));
  }
}

// Greedy, the largest first: tables of 32,768,000 to ranks 0 and 1, two fc1 of 5,767,168 to ranks 2
// and 3. A rank with a table gets nothing else.
TEST_CASE("program: of whole parameters the rank with most keeps the state of one table") {
  Plan plan = small(DataParallelism::ddp, 1, 1);
  plan.sharding.whole_parameters = true;
  plan.sharding.overlap_param_gather = false;
  REQUIRE(problems(plan).empty());
  const Job built = job(plan);
  CHECK(main_parameters(built.classes.front()) == 4LL * 1024 * 32000);
}

// Autograd's gradients live from the first backward pass on; later ones are added to them. The
// weights and the other parameters are one flat tensor each, and two ranks hold a half of each.
TEST_CASE("program: DeepSpeed's ZeRO-1 keeps gradients as tensors until the step ends") {
  Plan plan = small(DataParallelism::ddp, 2, 1);
  deepspeed(plan);
  REQUIRE(problems(plan).empty());
  for (const Program& program : job(plan).classes) {
    CAPTURE(program.stage);
    CHECK(main_parameters(program) == 4 * program.parameters / plan.mesh.dp);
    CHECK(moved(program, "gradient reduction") == 2 * program.parameters);
    CHECK(moved(program, "parameter gather") == 2 * program.parameters);
    Walk walk(program);
    walk.run(program.setup);
    // After set-up and after a step only weights, master weights and moments remain.
    const auto held = [&] { return walk.bytes(); };
    const std::int64_t state = program.parameters * (2 + 12 / plan.mesh.dp);
    CHECK(held() == state);
    std::int64_t gradients = 0;
    walk.run(program.step, [&](const Instruction& i, const Block&, const Walk& w) {
      if (w.name(i) == "reduce bucket" && i.op == Op::alloc) gradients = w.bytes() - state;
    });
    CHECK(gradients - 1'000'000'000 == 2 * program.parameters);
    CHECK(held() == state);
  }
}

// The GPU keeps only 16-bit parameters. Gradients of the part are copied down in fp32, and the CPU
// runs Adam.
TEST_CASE("program: DeepSpeed's ZeRO-1 leaves its state to the CPU where it is told to") {
  Plan plan = small(DataParallelism::ddp, 2, 1);
  deepspeed(plan);
  plan.optimizer.offload_fraction = 1;
  REQUIRE(problems(plan).empty());
  for (const Program& program : job(plan).classes) {
    CAPTURE(program.stage);
    CHECK(main_parameters(program) == 0);
    std::int64_t down = 0, updated = 0;
    each_of_step(program, [&](const Instruction& i) {
      if (i.op != Op::kernel) return;
      const model::Operation& o = program.operations[i.index];
      if (o.name == "gradient down") down += o.bytes.n;
      if (o.kind == model::OperationKind::cpu_update) updated += o.bytes.n;
      CHECK(o.kind != model::OperationKind::optimizer);
    });
    CHECK(down == 4 * program.parameters / plan.mesh.dp);
    CHECK(updated == blocking_update_bytes * program.parameters / plan.mesh.dp);
    CHECK(moved(program, "parameter gather") == 2 * program.parameters);
    Walk walk(program);
    walk.run(program.setup);
    const std::int64_t held = walk.bytes();
    CHECK(held - walk.bytes("buffer of offloaded gradients") == 2 * program.parameters);
    walk.run(program.step);
    CHECK(walk.bytes() == held);
  }
  plan.optimizer.offload_fraction = 0.5;
  plan.optimizer.overlap_offload = true;
  CHECK(says(problems(plan), "write optimizer_offload_fraction 1 or 0"));
  CHECK(says(problems(plan), "updates on the CPU behind all copies"));
}

// Every rank receives every sum: twice the bytes of reductions to their owners.
TEST_CASE("program: DeepSpeed sums whole buckets on all ranks where it is told to") {
  Plan plan = small(DataParallelism::ddp, 2, 1);
  deepspeed(plan);
  plan.sharding.deepspeed_all_reduce = true;
  REQUIRE(problems(plan).empty());
  for (const Program& program : job(plan).classes) {
    CAPTURE(program.stage);
    CHECK(moved(program, "gradient reduction") == 0);
    CHECK(moved(program, "gradient sum") == 2 * program.parameters);
    CHECK(moved(program, "parameter gather") == 2 * program.parameters);
    each_of_step(program, [&](const Instruction& i) {
      if (i.op == Op::collective && program.labels[i.label] == "gradient sum")
        CHECK(program.transfers[i.index].kind == collective::Kind::all_reduce);
    });
  }
  plan.sharding.deepspeed_optimizer = false;
  CHECK(says(problems(plan), "turn deepspeed_optimizer on"));
}

// A bucket takes 500 million elements, and a larger gradient is summed by itself. The whole bucket
// is scaled even if partly filled; an empty one is not.
TEST_CASE(
    "program: DeepSpeed scales a bucket for each gradient that does not fit, and one of the "
    "rest") {
  Plan plan = small(DataParallelism::ddp, 1, 1);
  deepspeed(plan);
  const auto scaled = [&plan] {
    std::vector<std::int64_t> elements;
    const Job made = job(plan);
    const Program& program = made.classes.front();
    each_of_step(program, [&](const Instruction& i) {
      if (i.op == Op::kernel && program.operations[i.index].name == "bucket scale")
        elements.push_back(program.operations[i.index].bytes.n / 4);
    });
    return elements;
  };
  CHECK(scaled() == std::vector<std::int64_t>{500'000'000});
  // Embedding and head do not fit; a norm follows the head.
  plan.architecture.vocab = 585'984;
  plan.architecture.tied_embeddings = false;
  const std::int64_t large = plan.architecture.vocab * plan.architecture.hidden;
  CHECK(scaled() == std::vector<std::int64_t>{large, 500'000'000, large, 500'000'000});
}

// ZeRO-3 with reduce_scatter false: the same bytes, and all ranks get the sum.
TEST_CASE("program: shards are cut from sums that all ranks have, where DeepSpeed is told to") {
  using sim::collective::Kind;
  Plan plan = small(DataParallelism::fsdp2, 1, 1);
  plan.sharding.deepspeed_optimizer = true;
  REQUIRE(problems(plan).empty());
  const auto kinds = [&plan](Kind kind) {
    int count = 0;
    const Job made = job(plan);
    const Program& program = made.classes.front();
    each_of_step(program, [&](const Instruction& i) {
      if (i.op == Op::collective && program.labels[i.label] == "gradient reduction")
        count += program.transfers[i.index].kind == kind;
    });
    return count;
  };
  const int units = kinds(Kind::reduce_scatter);
  const auto bytes = moved(job(plan).classes.front(), "gradient reduction");
  REQUIRE(units > 0);
  plan.sharding.deepspeed_all_reduce = true;
  REQUIRE(problems(plan).empty());
  CHECK(kinds(Kind::reduce_scatter) == 0);
  CHECK(kinds(Kind::all_reduce) == units);
  CHECK(moved(job(plan).classes.front(), "gradient reduction") == bytes);
}

TEST_CASE("program: DeepSpeed's ZeRO-1 has rules") {
  Plan plan = small(DataParallelism::ddp, 2, 2);
  plan.sharding.deepspeed_optimizer = true;
  plan.sharding.distributed_optimizer = false;
  plan.sharding.optimizer_replicas = 2;
  plan.numerics.fp8 = true;
  const auto found = problems(plan);
  for (const char* rule :
       {"turn distributed_optimizer on", "turn overlap_grad_reduce", "leave optimizer_replicas",
        "turn fp32_gradients", "write precision bf16", "write schedule 1f1b"})
    CHECK(says(found, rule));
}

// A tensor held by a function's local variable stays, although nothing reads it any more.
TEST_CASE("program: older layers name the scores until attention returns") {
  using sim::program::LayerCode;
  const auto live_at = [](LayerCode code, const char* tensor, const char* at) {
    Plan plan = gpt();
    plan.stack.attention = sim::program::AttentionBackend::unfused;
    plan.policy.recompute = sim::program::Recompute::full;
    plan.stack.layer_code = code;
    REQUIRE(problems(plan).empty());
    const Job built = job(plan);
    Walk walk(built.classes.front());
    walk.run(built.classes.front().setup);
    bool live = false, seen = false;
    walk.run(built.classes.front().step, [&](const Instruction& i, const Block& b, const Walk& w) {
      if (seen || b.name != "layer forward without saving" || i.op != Op::alloc || w.name(i) != at)
        return;
      seen = true;
      live = w.count(tensor) > 0;
    });
    REQUIRE(seen);
    return live;
  };
  for (const LayerCode code : {LayerCode::core, LayerCode::before_core, LayerCode::one_function}) {
    CHECK(live_at(code, "scores", "row-parallel output") == (code == LayerCode::one_function));
    CHECK(live_at(code, "norm output", "attention output") == (code != LayerCode::core));
    CHECK(live_at(code, "row-parallel output", "fc1 output") == (code != LayerCode::core));
  }
}

TEST_CASE("program: copies of the optimizer have rules") {
  Plan plan = small(DataParallelism::ddp, 1, 1);
  plan.sharding.optimizer_replicas = 3;
  CHECK(says(problems(plan),
             "optimizer_replicas 3 does not divide dp x cp = 4; it may be 1, 2 or "
             "4"));
  plan.sharding.optimizer_replicas = 2;
  plan.sharding.distributed_optimizer = plan.sharding.overlap_param_gather = false;
  CHECK(says(problems(plan), "turn distributed_optimizer on"));
  plan = small(DataParallelism::ddp, 1, 1);
  plan.sharding.whole_parameters = true;
  CHECK(says(problems(plan), "turn overlap_param_gather off"));
}

TEST_CASE("program: chunks in rounds are gathered one ahead of the one that runs") {
  Plan plan = small(DataParallelism::ddp, 3, 4);
  plan.sharding.distributed_optimizer = plan.sharding.overlap_param_gather = true;
  REQUIRE(problems(plan).empty());
  const Job made = job(plan);
  const Program& program = made.classes[1];  // no embedding and no head: a bucket a chunk
  std::vector<int> gathered;                 // before each chunk's wait
  int dispatched = 0;
  each_of_step(program, [&](const Instruction& i) {
    dispatched += i.op == Op::collective && program.labels[i.label] == "parameter gather";
    if (i.op != Op::wait || i.event < chunk_event || i.event >= graph_event) return;
    CHECK(i.event == chunk_event + chunk_events * static_cast<int>(gathered.size() % 2));
    gathered.push_back(dispatched);
  });
  CHECK(gathered == std::vector<int>{2, 3, 4, 4});
}

// Each wait is for the bucket in use, while the next one, of any chunk, is in flight.
TEST_CASE("program: where no loop gathers chunks a bucket's first use dispatches the next one") {
  const auto waited = [](const char* schedule, int chunks) {
    Plan plan = small(DataParallelism::ddp, 4, chunks);
    plan.pipeline.schedule = schedule;
    plan.batch.global_batch = 8 * plan.mesh.dp;
    plan.sharding.distributed_optimizer = plan.sharding.overlap_param_gather = true;
    CAPTURE(schedule);
    REQUIRE(problems(plan).empty());
    std::vector<int> gathered;  // before each wait
    int dispatched = 0;
    each_of_step(job(plan).classes[1], [&](const Instruction& i) {
      if (i.op == Op::wait && i.event == parameter_event) gathered.push_back(dispatched);
      dispatched += i.op == Op::collective && i.event == parameter_event;
    });
    return gathered;
  };
  for (const char* schedule : {"zb-v", "v-half", "v-min", "dualpipe-v", "interleaved-zb"})
    CHECK(waited(schedule, 2) == std::vector{1, 2});
  CHECK(waited("breadth-first", 3) == std::vector{1, 2, 3});
  CHECK(waited("1f1b", 1) == std::vector{1});
  // If a part exists twice, either copy may be used first.
  CHECK(waited("dualpipe", 2) == std::vector{2, 2});
}

TEST_CASE("program: units that go behind a forward pass are gathered as often as the order asks") {
  for (const int pp : {2, 3, 4})
    for (int m = 1; m <= 7; ++m) {
      CAPTURE(pp, m);
      Plan plan = small(DataParallelism::fsdp2, pp, 1);
      plan.batch.global_batch = plan.mesh.dp * m;
      REQUIRE(problems(plan).empty());
      for (const Program& program : job(plan).classes) {
        // The w forward passes before the first backward pass gather two layers each. Later ones
        // find the parameters that the backward pass before them gathered. Backward passes after a
        // forward pass gather: m - w + 1. The root is gathered once.
        const bool has_root = program.stage == 0 || program.stage == pp - 1;
        CHECK(times(program, "parameter gather") == 2 * (m + 1) + has_root);
        CHECK(times(program, "gradient reduction") == 2 + has_root);
      }
      plan.sharding.data_parallel = DataParallelism::fsdp1;
      for (const Program& program : job(plan).classes) {
        // FSDP1 frees layers after both passes, and the root after backward passes. The root is
        // gathered again by each backward pass that follows another one, and by each forward pass
        // after one.
        CHECK(times(program, "gradient reduction") ==
              2 + (program.stage == 0 || program.stage == pp - 1));
        CHECK(moved(program, "gradient reduction") == 4 * (2 * layer + root(program, pp)));
      }
    }
}

TEST_CASE("program: a rank of any number holds its part of each parameter, rounded up") {
  for (const int dp : {1, 3, 4, 7, 40})
    for (const auto& [pp, chunks] : shapes) {
      CAPTURE(dp, pp, chunks);
      const auto part = [&](std::int64_t n) { return (n + dp - 1) / dp; };
      Plan plan = small(DataParallelism::fsdp2, pp, chunks);
      plan.mesh.dp = dp;
      plan.batch.global_batch = dp * pp * 2;
      for (const auto kind : {DataParallelism::fsdp1, DataParallelism::fsdp2}) {
        plan.sharding.data_parallel = kind;
        for (const Program& program : job(plan).classes) {
          const bool first = program.stage == 0, last = program.stage == pp - 1;
          std::int64_t held = 0;
          const std::int64_t table = 1024LL * 32000;
          if (kind == DataParallelism::fsdp1)
            held = 2 * chunks * part(layer) +
                   (chunks == 1 || pp == 1 ? part(root(program, pp)) : part(root(program, pp)));
          else
            held = 2 * chunks *
                       (part(1024 * 1536) + part(1024 * 1024) + part(1024 * 5632) +
                        part(1024 * 2816) + 2 * part(1024)) +
                   (first ? part(table) : 0) + (last ? part(table) + part(1024) : 0);
          Walk walk(program);
          walk.run(program.setup);
          CHECK(walk.bytes("sharded parameter") == 4 * held);
          walk.run(program.first_step);
          CHECK(walk.bytes("exp_avg") == 4 * held);
          CHECK(walk.bytes("exp_avg_sq") == 4 * held);
          walk.run(program.step);
          CHECK(walk.broken().empty());
        }
      }
    }
}

TEST_CASE("program: whole gradients of a stage wait in the type of their reduction") {
  for (const bool fp32 : {true, false}) {
    Plan plan = small(DataParallelism::fsdp2, 2, 1);
    plan.numerics.fp32_gradients = fp32;
    for (const Program& program : job(plan).classes)
      CHECK(most_in_step(program, "accumulated gradients") ==
            (fp32 ? 4 : 2) * (2 * layer + root(program, 2)));
  }
}

TEST_CASE("program: with adapters in shards only they are reduced and have state") {
  Plan plan = small(DataParallelism::fsdp2, 2, 1);
  plan.lora.rank = 16;
  // A and B of each product: 16 rows of its input, 16 columns of its output.
  const std::int64_t adapters = 2 * 16LL * (1024 + 1536 + 1024 + 1024 + 1024 + 5632 + 2816 + 1024);
  for (const auto kind : {DataParallelism::fsdp1, DataParallelism::fsdp2}) {
    plan.sharding.data_parallel = kind;
    REQUIRE(problems(plan).empty());
    const bool flat = kind == DataParallelism::fsdp1;
    for (const Program& program : job(plan).classes) {
      const std::int64_t frozen = 2 * layer + root(program, 2);
      // A flat parameter is reduced whole if any part of it is trained, and has a single type.
      CHECK(moved(program, "gradient reduction") == 4 * (adapters + (flat ? 2 * layer : 0)));
      Walk walk(program);
      walk.run(program.setup);
      CHECK(walk.bytes("sharded parameter") == (adapters * 4 + frozen * (flat ? 4 : 2)) / 4);
      walk.run(program.first_step);
      CHECK(walk.bytes("exp_avg") == adapters);
    }
  }
}

TEST_CASE("program: adapters in units of their own leave frozen weights in 16 bits") {
  // peft wraps each trained leaf, so a frozen flat parameter needs no gradient and no fp32 copy.
  Plan plan = small(DataParallelism::fsdp1, 2, 1);
  plan.lora.rank = 16;
  plan.sharding.fsdp.separate_adapters = true;
  REQUIRE(problems(plan).empty());
  const std::int64_t adapters = 2 * 16LL * (1024 + 1536 + 1024 + 1024 + 1024 + 5632 + 2816 + 1024);
  for (const Program& program : job(plan).classes) {
    CHECK(moved(program, "gradient reduction") == 4 * adapters);
    Walk walk(program);
    walk.run(program.setup);
    CHECK(walk.bytes("sharded parameter") ==
          (adapters * 4 + (2 * layer + root(program, 2)) * 2) / 4);
    walk.run(program.first_step);
    CHECK(walk.bytes("exp_avg") == adapters);
  }
}

TEST_CASE("program: Megatron-FSDP keeps 16-bit shards and fp32 main parameters") {
  Plan plan = small(DataParallelism::fsdp2, 2, 1);
  plan.sharding.fsdp.main_parameters = true;
  REQUIRE(problems(plan).empty());
  for (const Program& program : job(plan).classes) {
    const std::int64_t all = 2 * layer + root(program, 2);
    Walk walk(program);
    walk.run(program.setup);
    CHECK(walk.bytes("sharded parameter") == 2 * all / 4);
    CHECK(walk.bytes("fp32 main parameter") == 4 * all / 4);
  }
}

TEST_CASE("program: matrices that are gathered in fp8 travel as a byte an element") {
  for (const auto& [pp, chunks] : shapes) {
    Plan plan = small(DataParallelism::fsdp2, pp, chunks);
    plan.numerics.fp8 = plan.numerics.fp8_parameters = true;
    plan.sharding.fsdp.reshard_after_forward = false;
    plan.batch.global_batch = plan.mesh.dp * pp;
    REQUIRE(problems(plan).empty());
    for (const Program& program : job(plan).classes) {
      CHECK(moved(program, "parameter gather") ==
            2 * chunks * (matrices + 2 * norms) + 2 * root(program, pp));
      // One reduction of the maxima of four matrices a layer.
      CHECK(moved(program, "scale all-reduce") == 4 * 2 * chunks * 4);
    }
    plan.sharding.data_parallel = DataParallelism::fsdp1;
    CHECK(problems(plan).front().message.find("fp8_parameters") == 0);
  }
}

TEST_CASE("program: layers that are recomputed together are gathered once more than one by one") {
  Plan plan = small(DataParallelism::fsdp2, 1, 1);
  plan.architecture.layers = 4;
  plan.policy.recompute = Recompute::full;
  plan.sharding.fsdp.backward_prefetch = 0;
  // Three microbatches; the root and four layers, forward and backward.
  CHECK(times(job(plan).classes.front(), "parameter gather") == 3 * (1 + 4 + 4));
  plan.policy.recompute_layers =
      2;  // the first layer of each pair is gathered again before its backward pass
  REQUIRE(problems(plan).empty());
  CHECK(times(job(plan).classes.front(), "parameter gather") == 3 * (1 + 4 + 4 + 2));
}

TEST_CASE("program: any plan in shards holds nothing but its shards between steps") {
  int checked = 0;
  for (std::uint64_t number = 0; number < 1500; ++number) {
    Plan plan = draw(number);
    if (!plan.shards_parameters() || !problems(plan).empty()) continue;
    CAPTURE(number);
    ++checked;
    for (const Program& program : job(plan).classes) {
      Walk walk(program);
      walk.run(program.setup);
      walk.run(program.first_step);
      const std::int64_t before = walk.bytes();
      walk.run(program.step);
      CHECK(walk.broken().empty());
      CHECK(walk.holds_only_fixed());
      CHECK(walk.bytes() == before);
      CHECK(walk.count("flat parameters") + walk.count("unsharded parameter") == 0);
      CHECK(walk.count("accumulated gradients") + walk.count("reduce-scatter input") == 0);
    }
  }
  CHECK(checked > 100);
}
