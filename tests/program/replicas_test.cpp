// replicas_test.cpp — replicas with different numbers of microbatches: the program of each, their
// common collectives, and refused combinations.
#include "sim/program/plan/replicas.h"

#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <numeric>

#include "sample.h"
#include "sim/program/ir/print.h"

using namespace sim;
using namespace sim::program;

namespace {

Plan plan_of(std::vector<int> counts, int pp = 2) {
  Plan p = sample::llama_8b();
  p.architecture.layers = 4;
  p.mesh.pp = pp;
  p.mesh.dp = static_cast<int>(std::ssize(counts));
  p.batch.global_batch = std::accumulate(counts.begin(), counts.end(), 0);
  p.batch.replica_microbatches = std::move(counts);
  return p;
}

std::string first_problem(const Plan& plan) {
  const Diagnostics found = problems(plan);
  return found.empty() ? "" : found.front().where + ": " + found.front().message;
}

}  // namespace

TEST_CASE("program: a list of as many each is no list: every byte of the programs is the same") {
  Plan even = plan_of({6, 6, 6});
  const Job listed = sample::job(even);
  even.batch.replica_microbatches.clear();
  const Job plain = sample::job(even);
  REQUIRE(listed.classes.size() == plain.classes.size());
  for (std::size_t c = 0; c < plain.classes.size(); ++c)
    CHECK(print(listed.classes[c]) == print(plain.classes[c]));
}

TEST_CASE("program: the replica with most microbatches says how many a step has") {
  CHECK(plan_of({6, 3, 7}).microbatches() == 7);
  Plan p = plan_of({2, 2});
  p.batch.replica_microbatches.clear();
  p.batch.micro_batch = 2;
  for (const auto& [batch, even, balanced] :
       {std::tuple{12, 3, 3}, {14, 3, 4}, {13, 3, 4}, {16, 4, 4}}) {
    p.batch.global_batch = batch;
    p.batch.balances_microbatches = false;
    CHECK(p.microbatches() == even);
    p.batch.balances_microbatches = true;
    CHECK(p.microbatches() == balanced);
  }
}

TEST_CASE("program: replicas of one number are a class, and run as many passes as they say") {
  const std::vector<int> counts = {6, 3, 6, 2};
  const Job job = sample::job(plan_of(counts));
  CHECK(job.mesh.dp_classes() == 3);
  REQUIRE(job.classes.size() == 6);
  std::map<int, int> ranks;  // by forward passes
  for (const Program& program : job.classes) {
    int forward = 0;
    for (const Pass& pass : program.step)
      forward += program.templates[pass.pattern].kind == PassKind::forward;
    ranks[forward] += program.ranks;
  }
  CHECK(ranks == std::map<int, int>{{6, 2 * 2 * 2}, {3, 2 * 2}, {2, 2 * 2}});
  // With a class for each rank, too.
  const Job all = build(valid(plan_of(counts)), {}, true);
  REQUIRE(all.classes.size() == 16);
  for (std::size_t c = 0; c < all.classes.size(); ++c) {
    const Program& program = all.classes[c];
    const auto forward = std::ranges::count_if(program.step, [&](const Pass& pass) {
      return program.templates[pass.pattern].kind == PassKind::forward;
    });
    const int replica = all.mesh.coordinates(static_cast<int>(c)).dp_rank;
    CHECK(forward == counts[static_cast<std::size_t>(replica)]);
  }
}

TEST_CASE("program: unlike replicas meet as often as each other on what joins them") {
  for (const bool zero1 : {true, false})
    for (const bool overlaps : {true, false})
      for (const int pp : {1, 2, 4}) {
        Plan p = plan_of({5, 9, 4}, pp);
        p.sharding.distributed_optimizer = zero1;
        p.sharding.overlap_grad_reduce = overlaps;
        p.sharding.overlap_param_gather = overlaps && zero1;
        CAPTURE(zero1, overlaps, pp);
        REQUIRE(first_problem(p).empty());
        const Job job = sample::job(p);
        for (int c = 0; c < job.mesh.classes(); ++c) {
          const auto of = [&](int rank_class) {
            const Program& program = job.classes[static_cast<std::size_t>(rank_class)];
            std::vector<Transfer> met;
            sample::each_of_step(program, [&](const Instruction& i) {
              if (i.op != Op::collective) return;
              const Transfer& t = program.transfers[i.index];
              if (t.communicator == Stream::dp || t.communicator == Stream::dp_cp ||
                  t.communicator == Stream::world)
                met.push_back(t);
            });
            return met;
          };
          CHECK_FALSE(of(c).empty());
          CHECK(of(c) == of(job.mesh.class_of({job.mesh.coordinates(c).stage, 0, 0, 0})));
        }
      }
}

TEST_CASE("program: what unlike replicas cannot do is refused with the rule and what would do") {
  CHECK(first_problem(plan_of({6, 3})).empty());
  const auto said = [](const std::function<void(Plan&)>& change) {
    Plan p = plan_of({6, 3});
    change(p);
    return first_problem(p);
  };
  CHECK(said([](Plan& p) { p.batch.global_batch = 10; }) ==
        "replica_microbatches: replica_microbatches sum to 9, and global_batch 10 is 10 "
        "microbatches of 1; write numbers that sum to 10");
  CHECK(said([](Plan& p) { p.batch.replica_microbatches = {9}; }) ==
        "replica_microbatches: replica_microbatches has 1 numbers for the 2 data-parallel "
        "replicas; write one for each");
  CHECK(said([](Plan& p) {
          p.batch.replica_microbatches = {9, 0};
        }) ==
        "replica_microbatches: each replica does 1 microbatch at least; write "
        "replica_microbatches so");
  CHECK(said([](Plan& p) { p.batch.micro_batch = 2; }) ==
        "global_batch: global_batch 9 is not a multiple of micro_batch 2; write 8 or 10");
  CHECK(said([](Plan& p) {
          p.batch.replica_microbatches.clear();
          p.batch.balances_microbatches = true;
          p.batch.global_batch = 1;
        }) ==
        "replica_microbatches: 1 microbatches are fewer than the 2 data-parallel replicas; write "
        "global_batch 2 or more, or less dp");
  // Each setting alone.
  CHECK(said([](Plan& p) {
          p.pipeline.schedule = "interleaved-1f1b";
          p.pipeline.virtual_stages = 2;
        }).starts_with("schedule: schedule interleaved-1f1b: "));
  for (const auto& [field, change] : std::map<std::string, std::function<void(Plan&)>>{
           {"data_parallel", [](Plan& p) { p.sharding.data_parallel = DataParallelism::fsdp2; }},
           {"reset_attention_mask",
            [](Plan& p) { p.stack.attention_mask = p.stack.reset_attention_mask = true; }}})
    CHECK(said(change).starts_with(field + ": replica_microbatches lets replicas do unlike"));
  // Experts within a replica's ranks of a stage belong to it alone.
  const auto experts = [](int tp, int cp, int ep, int etp) {
    Plan p = sample::mixture();
    p.mesh.tp = tp;
    p.mesh.cp = cp;
    p.mesh.ep = ep;
    p.mesh.etp = etp;
    p.mesh.dp = 4;
    p.batch.replica_microbatches = {6, 6, 6, 7};
    p.batch.global_batch = 25;
    return first_problem(p);
  };
  const std::string several =
      "ep: replica_microbatches lets replicas do unlike numbers of microbatches, and experts over "
      "several replicas exchange tokens in each; write ep x etp of at most tp x cp";
  CHECK(experts(1, 1, 2, 1) == several);
  CHECK(experts(2, 1, 2, 2) == several);
  CHECK(experts(2, 1, 4, 1) == several);
  CHECK(experts(2, 2, 4, 2) == several);
  CHECK(experts(2, 1, 2, 1).empty());
  CHECK(experts(2, 2, 4, 1).empty());
  CHECK(experts(2, 2, 2, 2).empty());
}

TEST_CASE("program: microbatches of replicas are said in short") {
  CHECK(text_of({12, 12, 4}) == "2x12,4");
  CHECK(text_of({4}) == "4");
  CHECK(text_of({4, 12, 4}) == "4,12,4");
}
