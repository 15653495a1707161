// program_test.cpp — the bytes and FLOPs of a rank, against the formulas of the sources.
#include <catch2/catch.hpp>
#include <map>
#include <string>

#include "sample.h"
#include "sim/job/schedule/schedule.h"

using namespace sim;
using namespace sim::program;

using sample::left_by;
using sample::llama_8b;

TEST_CASE("program: attention stays inside the documents that a sample packs") {
  for (const int cp : {1, 2}) {
    Plan plan = llama_8b();
    plan.mesh.cp = cp;
    plan.mesh.dp = 4 / cp;
    const auto attention = [&] {
      double flops = 0;
      std::int64_t bytes = 0;
      const Job job = sample::job(plan);
      for (const model::Operation& o : job.classes[0].operations) {
        if (o.kind != model::OperationKind::attention_forward &&
            o.kind != model::OperationKind::attention_backward)
          continue;
        flops += o.flops;
        bytes += o.bytes.n;
      }
      return std::pair{flops, bytes};
    };
    const auto [whole_flops, whole_bytes] = attention();
    plan.batch.packed_document = plan.batch.sequence / 32;
    REQUIRE(problems(plan).empty());
    const auto [packed_flops, packed_bytes] = attention();
    CAPTURE(cp);
    CHECK(packed_flops == whole_flops / 32);
    CHECK(packed_bytes == whole_bytes);
    plan.batch.packed_document = 1 + plan.batch.sequence;
    CHECK(problems(plan).front().message.find("packed_document is 8193 tokens; a mean") == 0);
  }
}

TEST_CASE("program: a query attends to its window alone") {
  Plan plan = llama_8b();
  const auto attention = [&plan] {
    std::map<model::OperationKind, double> flops;
    const Job job = sample::job(plan);
    for (const model::Operation& o : job.classes[0].operations) flops[o.kind] = o.flops;
    return std::pair{flops[model::OperationKind::attention_forward],
                     flops[model::OperationKind::attention_backward]};
  };
  const auto [forward, backward] = attention();
  for (const std::int64_t window : {1024, 4096, 8192, 16384}) {
    plan.architecture.sliding_window = window;
    CAPTURE(window);
    REQUIRE(problems(plan).empty());
    // Of a causal triangle with n rows, a window w = n / k keeps 2 / k - 1 / k^2.
    const double k = std::max(1.0, 8192.0 / static_cast<double>(window));
    const double part = 2 / k - 1 / (k * k);
    CHECK(attention().first == forward * part);
    CHECK(attention().second == backward * part);
  }
  plan.architecture.sliding_window = 4096;
  plan.mesh.cp = 2;
  REQUIRE(problems(plan).size() == 1);
  const std::string message = problems(plan).front().message;
  CHECK(message.find("windows of 4096 tokens, which context ring (cp 2) cannot") !=
        std::string::npos);
}

TEST_CASE("program: a layer keeps what the inventory says for Llama-3.1-8B at tp 2") {
  const Job job = sample::job(llama_8b());
  const auto left = left_by(job.classes[0], "layer forward");
  std::int64_t sum = 0;
  for (const auto& [label, bytes] : left) sum += bytes;
  // Shapes in INVENTORY.md section 8: two residuals and two norm outputs of 4096 x 4096, q, k, v,
  // attention output, fc1 and fc2 inputs, statistics; 34 s b h / t + 4 s b a / t + 8 s b / t, and
  // the 16 bytes of the random state.
  CHECK(sum == 570'982'400 + 16);
  CHECK(left.at("norm output") == 2 * 33'554'432);
  CHECK(left.at("residual stream") == 2 * 33'554'432);
  CHECK(left.at("query") == 33'554'432);
  CHECK(left.at("key") == 8'388'608);
  CHECK(left.at("value") == 8'388'608);
  CHECK(left.at("attention output") == 33'554'432);
  CHECK(left.at("lse") == 524'288);
  CHECK(left.at("fc1 output") == 234'881'024);
  CHECK(left.at("activation output") == 117'440'512);
}

TEST_CASE("program: the gradient buffer of Llama-3.1-8B at tp 2 has the buckets of Megatron-LM") {
  const Job job = sample::job(llama_8b());
  const Program& program = job.classes[0];
  CHECK(program.parameters == 4'015'263'744);
  // 65 buckets of fp32 gradients are reduced over D c = 4 ranks, and gathered in bf16.
  std::vector<std::int64_t> reduced;
  std::int64_t gathered = 0;
  sample::each_of_step(program, [&](const Instruction& i) {
    if (i.op != Op::collective) return;
    const Transfer& t = program.transfers[i.index];
    if (t.communicator != Stream::dp_cp) return;
    if (t.kind == collective::Kind::reduce_scatter) reduced.push_back(t.bytes.n / 4);
    if (t.kind == collective::Kind::all_gather) gathered += t.bytes.n / 2;
  });
  REQUIRE(reduced.size() == 65);
  CHECK(reduced[0] == 262'668'288);
  CHECK(reduced[1] == 88'084'480);
  CHECK(reduced[2] == 50'339'840);
  CHECK(reduced[3] == 58'720'256);
  CHECK(reduced.back() == 283'648'000);
  std::int64_t sum = 0;
  for (const std::int64_t n : reduced) sum += n;
  CHECK(sum == 4'015'263'744);
  CHECK(gathered == sum);
}

TEST_CASE("program: a step frees what it allocates and balances its slots") {
  for (const int pp : {1, 2, 4})
    for (const schedule::Schedule& schedule : schedule::catalog())
      for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
        Plan plan = llama_8b();
        plan.mesh.pp = pp;
        plan.pipeline.schedule = schedule.name;
        plan.pipeline.virtual_stages = schedule.chunks == 1 ? 1 : 2;
        plan.policy.recompute = recompute;
        if (!problems(plan).empty()) continue;
        CAPTURE(pp, schedule.name, static_cast<int>(recompute));
        for (const Program& program : sample::job(plan).classes) {
          sample::Walk walk(program);
          for (const auto* passes : {&program.setup, &program.first_step, &program.step}) {
            walk.run(*passes);
            CHECK(walk.broken().empty());
            // Between steps only fixed slots hold tensors.
            CHECK(walk.holds_only_fixed());
          }
        }
      }
}

TEST_CASE("program: sends and receives of neighbours match") {
  for (const int virtual_stages : {1, 2})
    for (const int pp : {2, 4}) {
      Plan plan = llama_8b();
      plan.mesh.pp = pp;
      plan.pipeline.virtual_stages = virtual_stages;
      if (virtual_stages > 1) plan.pipeline.schedule = "interleaved-1f1b";
      plan.batch.global_batch = 8 * plan.mesh.dp;
      REQUIRE(problems(plan).empty());
      const Job job = sample::job(plan);
      // Messages by (from, to, channel): equal numbers of sends and receives.
      std::map<std::tuple<int, int, int>, int> sends, receives;
      for (const Program& program : job.classes)
        sample::each_of_step(program, [&](const Instruction& i) {
          if (i.op != Op::exchange) return;
          for (const Message& m : program.exchanges[i.index].messages) {
            const int other = (program.stage + m.peer_offset + pp) % pp;
            if (m.send)
              ++sends[{program.stage, other, m.channel}];
            else
              ++receives[{other, program.stage, m.channel}];
          }
        });
      CHECK(sends == receives);
      CHECK(!sends.empty());
    }
}
