// schedule_programs_test.cpp — programs of schedules that train differently: two copies of each
// part, slices of sequences, a loss for each part.
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <tuple>

#include "sample.h"
#include "sim/program/plan/schedule_plan.h"

using namespace sim;
using namespace sim::program;

namespace {

Plan of_four_stages(const char* schedule, int chunks) {
  Plan plan = sample::llama_8b();
  plan.mesh.pp = 4;
  plan.mesh.dp = 2;
  plan.architecture.layers = 8;
  plan.batch.global_batch = 2 * 8;
  plan.pipeline.schedule = schedule;
  plan.pipeline.virtual_stages = chunks;
  return plan;
}

std::string first_problem(const Plan& plan) {
  return problems(plan).empty() ? "" : problems(plan).front().message;
}

}  // namespace

TEST_CASE("program: stages that mirror each other hold the same parts and share their state") {
  const Plan plan = of_four_stages("dualpipe", 2);
  REQUIRE(first_problem(plan) == "");
  const Job job = sample::job(plan);
  Plan single = of_four_stages("1f1b", 1);
  const Job alone = sample::job(single);
  REQUIRE(job.classes.size() == 4);
  // Bytes that a stage sends to its mirror, by channel.
  std::map<std::tuple<int, int, int>, std::int64_t> sent, received;
  for (const Program& program : job.classes)
    sample::each_of_step(program, [&](const Instruction& i) {
      if (i.op != Op::exchange) return;
      for (const Message& m : program.exchanges[i.index].messages) {
        if (m.channel < 4) continue;
        const int other = program.stage + m.peer_offset;
        CHECK(other == 3 - program.stage);
        if (m.send)
          sent[{program.stage, other, m.channel}] += m.bytes.n;
        else
          received[{other, program.stage, m.channel}] += m.bytes.n;
      }
    });
  CHECK(sent == received);
  REQUIRE(sent.size() == 8);
  for (int stage = 0; stage < 4; ++stage) {
    const auto own = static_cast<std::size_t>(stage), mirror = static_cast<std::size_t>(3 - stage);
    CAPTURE(stage);
    // Two parts; one of them belongs to the mirror.
    CHECK(job.classes[own].parameters == job.classes[mirror].parameters);
    CHECK(job.classes[own].parameters ==
          alone.classes[own].parameters + alone.classes[mirror].parameters);
    // It sends fp32 gradients of half of the mirror's part, because the two replicas have reduced
    // them. It receives the 16-bit parameters of its own part. Padding of buffers is less than a
    // thousandth.
    const auto half = [&](std::size_t of) {
      return static_cast<double>(alone.classes[of].parameters) / 2;
    };
    CHECK(static_cast<double>(sent[{stage, 3 - stage, 4}]) ==
          Approx(4 * half(mirror)).epsilon(1e-3));
    CHECK(static_cast<double>(sent[{stage, 3 - stage, 5}]) == Approx(2 * half(own)).epsilon(1e-3));
  }
  // The optimizer state of a single part.
  const auto state = [](const Program& program) {
    std::int64_t bytes = 0;
    for (const auto* passes : {&program.setup, &program.first_step})
      for (const Pass& pass : *passes)
        for (const Call& call : program.templates[pass.pattern].calls)
          for (const Instruction& i : program.blocks[call.block].code)
            if (i.op == Op::alloc &&
                (i.category == Category::optimizer || i.category == Category::master_weights))
              bytes += i.value;
    return bytes;
  };
  for (std::size_t stage = 0; stage < 4; ++stage)
    CHECK(static_cast<double>(state(job.classes[stage])) ==
          Approx(static_cast<double>(state(alone.classes[stage]))).epsilon(1e-3));
}

TEST_CASE("program: slices of a sequence attend to as much as the whole sequence") {
  const Plan plan = of_four_stages("terapipe", 1), whole = of_four_stages("1f1b", 1);
  REQUIRE(first_problem(plan) == "");
  REQUIRE(slice_count(plan) == 4);
  const auto attention = [](const Plan& of) {
    std::map<model::OperationKind, double> flops;
    const Job job = sample::job(of);
    sample::each_of_step(job.classes[1], [&](const Instruction& i) {
      if (i.op == Op::kernel)
        flops[job.classes[1].operations[i.index].kind] += job.classes[1].operations[i.index].flops;
    });
    return flops;
  };
  const auto in_slices = attention(plan), at_once = attention(whole);
  // Slice k of n tokens has n queries and (k + 1/2) n keys on average: K^2 n^2 / 2 for K slices.
  for (const auto kind : {model::OperationKind::attention_forward,
                          model::OperationKind::attention_backward, model::OperationKind::gemm})
    CHECK(in_slices.at(kind) == Approx(at_once.at(kind)).epsilon(1e-12));
  Plan odd = plan;
  odd.batch.sequence = 8190;
  CHECK(first_problem(odd).find("8190 tokens do not split into 4; write 8192") !=
        std::string::npos);
  odd = plan;
  odd.stack.attention = AttentionBackend::unfused;
  CHECK(first_problem(odd).find("needs fused attention") != std::string::npos);
}

TEST_CASE("program: parts that are trained alone have a head each, and send no gradient") {
  const Plan plan = of_four_stages("local", 1);
  REQUIRE(first_problem(plan) == "");
  for (const Program& program : sample::job(plan).classes) {
    int heads = 0, gradients = 0;
    sample::each_of_step(program, [&](const Instruction& i) {
      if (i.op == Op::kernel && program.operations[i.index].name == "head") ++heads;
      if (i.op != Op::exchange) return;
      for (const Message& m : program.exchanges[i.index].messages) gradients += m.channel == 1;
    });
    CAPTURE(program.stage);
    CHECK(heads == 3 * 8);  // forward, input and weight gradients of each microbatch
    CHECK(gradients == 0);
  }
  Plan tied = plan;
  tied.architecture.tied_embeddings = true;
  CHECK(first_problem(tied).find("an output layer and a loss of its own") != std::string::npos);
}

TEST_CASE("program: what a two-way schedule cannot have is said") {
  Plan plan = of_four_stages("dualpipe", 2);
  plan.batch.global_batch = 2 * 7;
  CHECK(first_problem(plan).find("at least 8 microbatches") != std::string::npos);
  plan = of_four_stages("dualpipe", 2);
  plan.sharding.distributed_optimizer = plan.sharding.overlap_param_gather = false;
  CHECK(first_problem(plan).find("turn distributed_optimizer on") != std::string::npos);
  plan = of_four_stages("dualpipe", 2);
  plan.sharding.data_parallel = DataParallelism::fsdp2;
  CHECK(first_problem(plan).find("write data_parallel ddp") != std::string::npos);
}
