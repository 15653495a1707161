// bounds.cpp — the lower bounds of a plan's time never exceed the time of its replay.
#include "sim/study/plan/bounds.h"

#include "sim/answer/answer.h"
#include "sim/base/random.h"
#include "tests/answer/reasons.h"
#include "tests/study/plan/sample.h"

using namespace sim;

namespace {

// Samples `plans` plans of a space and checks each of their lower bounds against the replay.
void hold_bounds(const planner::Question& question, std::size_t plans) {
  const planner::Space space = sample::space(question);
  answer::Sites sites;
  std::map<planner::LayerCostsKey, planner::LayerCosts> layer_costs;
  Random random(7);
  for (std::size_t i = 0; i < plans; ++i) {
    const auto c =
        static_cast<std::size_t>(random.uniform() * static_cast<double>(space.cores().size()));
    const planner::PlanShape& core = space.cores()[c];
    const int variant = static_cast<int>(random.uniform() * space.variants(core));
    answer::Site& site = sample::site(sites, space, core.base);
    for (const planner::LayerCostsKey& key : planner::layer_costs_keys(space, core))
      if (!layer_costs.contains(key))
        layer_costs[key] = planner::make_layer_costs(space, key, site);
    planner::FirstBounds first(space, sites, layer_costs);
    const planner::Bound sums = first.of(core);
    const std::int64_t ordered = first.step_of_order(core);
    const program::Plan plan = space.plan(core, variant);
    INFO(space.words(core, variant));
    // Some orders of ranks are not possible with expert parallelism.
    if (plan.architecture.is_mixture() && !program::problems(plan).empty()) continue;
    REQUIRE(support::reasons(plan, site).empty());
    const planner::SecondBound second = planner::second_bound(first, core, plan, site);
    const planner::SecondBound third = planner::third_bound(answer::checked(plan, site));
    const answer::Answer answer = answer::evaluate(answer::checked(plan, site));
    std::int64_t needed = 0;
    for (const engine::ClassReport& one : answer.run.classes)
      needed = std::max({needed, one.needed.n, one.peak_allocated.n});
    CHECK(sums.bytes <= needed);
    if (answer.run.fits()) {
      CHECK(second.bytes <= needed);
      CHECK(second.room() >= 0);
      CHECK(third.bytes <= needed);
      CHECK(third.room() >= 0);
      CHECK((sums.step_ps > 0 || plan.draws_routes()));
      CHECK(sums.step_ps <= answer.run.step_time.ps);
      CHECK(ordered <= answer.run.step_time.ps);
      CHECK(second.step_ps <= answer.run.step_time.ps);
      CHECK(third.step_ps <= answer.run.step_time.ps);
    }
    if (second.room() < 0) CHECK(!answer.run.fits());
    if (second.room() < 0) CHECK(second.bytes <= needed);
    if (third.room() < 0) CHECK(!answer.run.fits());
  }
}

}  // namespace

TEST_CASE("planner: bounds are never above the replay, in spaces with everything") {
  hold_bounds(sample::question("llama-3.1-8b", "dgx-h100", 16, 64, 8192, {}), 60);
  hold_bounds(sample::question("llama-2-13b", "abci-a", 32, 64, 4096, {}), 30);
  hold_bounds(sample::question("gpt3-6.7b", "dgx-a100", 16, 32, 2048,
                               {"attention=unfused", "recompute=none,selective"}),
              15);
  hold_bounds(sample::question("llama-2-13b", "dgx-a100", 32, 64, 4096, {"zero=1", "pp=16"}), 20);
}

TEST_CASE("planner: bounds are never above the replay where replicas and fabric are unlike") {
  hold_bounds(sample::question("llama-3.1-8b", "tsubame4", 16, 64, 8192,
                               {"fabric.oversubscription=4", "fp32_gradients=false"}),
              15);
  // Schedules that split some of their backward passes.
  hold_bounds(sample::question("llama-3.1-8b", "tsubame4", 16, 64, 8192,
                               {"fabric.oversubscription=4", "fp32_gradients=false", "zero=1",
                                "tp=2", "cp=1", "pp=4", "schedule=dualpipe,dualpipe-v"}),
              10);
  hold_bounds(sample::question("llama-3.1-8b", "dgx-h100", 16, 32, 8192,
                               {"lora_rank=16", "condition={node: 1 gpu: 1 speed: 0.8}"}),
              10);
}

TEST_CASE("planner: bounds are never above the replay where the order goes by times") {
  // Schedules where a slow rank delays all ranks.
  hold_bounds(sample::question("llama-3.1-8b", "dgx-h100", 16, 64, 4096,
                               {"zero=1", "tp=2,4", "cp=1", "pp=4", "micro_batch=1",
                                "schedule=zb-1p,zb-2p,vocab-1,vocab-2"}),
              8);
  hold_bounds(
      sample::question("llama-3.1-8b", "dgx-h100", 16, 64, 4096,
                       {"zero=1", "tp=4", "cp=1", "pp=4", "micro_batch=1",
                        "schedule=zb-1p,vocab-1,1f1b", "condition={node: 1 gpu: 1 speed: 0.5}"}),
      6);
}

TEST_CASE("planner: bounds are never above the replay where modules wait on the CPU") {
  hold_bounds(sample::question("llama-3.1-8b", "dgx-h100", 16, 64, 8192,
                               {"zero=1", "offload_modules=\"core_attn,attn_proj\"",
                                "activation_offload_fraction=1,0.5"}),
              15);
}

TEST_CASE("planner: bounds are never above the replay of mixtures of experts") {
  hold_bounds(sample::question("qwen3-30b-a3b", "dgx-h100", 16, 32, 4096, {"zero=0,1"}), 30);
  hold_bounds(sample::question("mixtral-8x7b", "dgx-h100", 32, 32, 4096, {}), 20);
  // Parameters in shards, also of latent attention.
  hold_bounds(sample::question("mixtral-8x7b", "dgx-h100", 32, 32, 4096, {"zero=2,3"}), 20);
  hold_bounds(sample::question("deepseek-v2", "dgx-h200", 128, 128, 4096, {"zero=3"}), 12);
  // The first layers are dense, attention is latent, and a module predicts one more token.
  hold_bounds(sample::question("deepseek-v3", "dgx-h200", 512, 512, 4096,
                               {"zero=1", "pp=16", "tp=1,2", "cp=1", "first_stage_layers=1"}),
              12);
  // 61 layers, padded to a multiple of the stages.
  hold_bounds(sample::question("deepseek-v3", "dgx-h200", 512, 512, 4096,
                               {"zero=1", "pp=8,16", "tp=1,2", "cp=1"}),
              12);
  hold_bounds(
      sample::question("qwen3-30b-a3b", "dgx-h100", 16, 32, 4096, {"zero=1", "router=skewed"}), 12);
}

TEST_CASE("planner: bounds are never above the replay of more microbatches than are put in order") {
  hold_bounds(sample::question("llama-2-7b", "dgx-h100", 8, 20'000, 1024,
                               {"zero=1", "tp=2", "cp=1", "pp=4", "micro_batch=1",
                                "schedule=1f1b,interleaved-1f1b,zb-h1"}),
              6);
}

namespace {

std::int64_t bytes_of_first_stage(const program::Plan& plan, answer::Site& site,
                                  std::int64_t (*bytes)(const program::Program&)) {
  const program::Environment environment =
      engine::environment(site.machine.gpu, site.profile.device);
  return bytes(program::build(program::valid(plan), environment).classes.front());
}

}  // namespace

TEST_CASE("planner: all orders of ranks have the same tensors") {
  answer::Sites sites;
  Random random(3);
  for (const char* cluster : {"dgx-h100", "abci-a"}) {
    const planner::Space space =
        sample::space(sample::question("llama-3.1-8b", cluster, 32, 64, 4096, {}));
    int compared = 0;
    while (compared < 40) {
      const planner::PlanShape& core = space.cores()[static_cast<std::size_t>(
          random.uniform() * static_cast<double>(space.cores().size()))];
      if (space.orders(core) == 1) continue;
      ++compared;
      INFO(space.words(core, 0));
      answer::Site& site = sample::site(sites, space, core.base);
      CHECK(bytes_of_first_stage(space.plan(core, 0), site, planner::bytes_of_tensors) ==
            bytes_of_first_stage(space.plan(core, space.allocators()), site,
                                 planner::bytes_of_tensors));
    }
  }
}

TEST_CASE("planner: a searched order needs what ZB-H1 needs up to its first backward pass") {
  answer::Sites sites;
  Random random(11);
  const planner::Space space = sample::space(sample::question(
      "llama-3.1-8b", "dgx-h100", 16, 64, 4096, {"pp=2,4,8", "cp=1,2", "schedule=zb-1p,zb-2p"}));
  for (int i = 0; i < 40; ++i) {
    const planner::PlanShape& core = space.cores()[static_cast<std::size_t>(
        random.uniform() * static_cast<double>(space.cores().size()))];
    program::Plan plan = space.plan(core, 0);
    INFO(space.words(core, 0));
    answer::Site& site = sample::site(sites, space, core.base);
    const std::int64_t whole = bytes_of_first_stage(plan, site, planner::bytes_of_tensors);
    // Any times of passes: the search follows them.
    for (double* time : {&plan.pipeline.pass_times.forward, &plan.pipeline.pass_times.backward,
                         &plan.pipeline.pass_times.weight})
      *time = 0.1 + 3 * random.uniform();
    plan.pipeline.pass_times.transfer = random.uniform();
    const std::int64_t timed = bytes_of_first_stage(plan, site, planner::bytes_of_tensors);
    plan.pipeline.schedule = "zb-h1";
    const std::int64_t least = bytes_of_first_stage(plan, site, planner::bytes_until_backward);
    CHECK(least <= whole);
    CHECK(least <= timed);
    CHECK(2 * least > whole);
  }
}

TEST_CASE("planner: the order of every schedule has in flight what its moments say") {
  Random random(5);
  for (const schedule::Schedule& row : schedule::catalog()) {
    if (row.by_times && row.output != schedule::Output::last_part) continue;
    for (int i = 0; i < 40; ++i) {
      schedule::PipelineShape shape;
      shape.stages = 2 + static_cast<int>(random.uniform() * 7);
      shape.microbatches = shape.stages * (1 + static_cast<int>(random.uniform() * 40));
      shape.chunks = row.chunks;
      shape.slices = row.slices;
      // Any times of passes: searched orders depend on them.
      for (double* time : {&shape.times.forward, &shape.times.backward, &shape.times.weight})
        *time = 0.1 + 3 * random.uniform();
      shape.times.transfer = random.uniform();
      shape.times.kept = random.uniform();
      if (!row.problem(shape).empty()) continue;
      INFO(row.name << " " << shape.stages << " stages, " << shape.microbatches);
      std::vector<int> now(static_cast<std::size_t>(shape.chunks));
      int most = 0;
      const std::vector<schedule::Order> orders = row.orders(shape);
      for (const schedule::ScheduledPass& step : orders.front()) {
        const bool forward = step.pass == schedule::Pass::forward;
        if (!forward && step.pass != schedule::Pass::backward && step.pass != schedule::Pass::input)
          continue;
        now[static_cast<std::size_t>(step.chunk)] += forward ? 1 : -1;
        int sum = 0;
        for (const int chunk : now) sum += chunk / shape.slices;
        most = std::max(most, sum);
      }
      for (const planner::Moment& moment : planner::moments_of(row, shape)) {
        int sum = 0;
        for (const planner::InFlight& chunk : moment) sum += chunk.microbatches;
        CHECK(sum <= most);
      }
    }
  }
}

TEST_CASE("planner: bounds are never above the replay of stages whose parameters are sharded") {
  hold_bounds(sample::question("llama-3.1-8b", "dgx-h100", 16, 64, 4096,
                               {"zero=2,3", "pp=2,4,8", "cp=1", "recompute=none,full"}),
              30);
  hold_bounds(sample::question("llama-2-7b", "dgx-h100", 8, 32, 2048,
                               {"data_parallel=fsdp1,fsdp2", "pp=1,2,4", "tp=1,2", "cp=1"}),
              20);
}

TEST_CASE("planner: without a driver call in the step, a replay without tensors is exact") {
  const auto question = sample::question("llama-3.1-8b", "dgx-h100", 8, 32, 2048,
                                         {"zero=1", "tp=2", "recompute=full"});
  const planner::Space space = sample::space(question);
  answer::Sites sites;
  int equal = 0, plans = 0;
  for (const planner::PlanShape& core : space.cores()) {
    if (core.micro_batch > 1 || plans == 12) continue;
    ++plans;
    answer::Site& site = sample::site(sites, space, core.base);
    const program::Plan plan = space.plan(core, 0);
    const answer::Answer answer = answer::evaluate(answer::checked(plan, site));
    equal += planner::third_bound(answer::checked(plan, site)).step_ps == answer.run.step_time.ps;
  }
  CHECK(plans == 12);
  CHECK(equal >= 6);
}
