// nearness.cpp — how near the bounds are to the replay: loose bounds would make the search replay
// every plan. Also the costs that the bounds add up.
#include <algorithm>

#include "sim/answer/answer.h"
#include "sim/study/plan/bounds.h"
#include "sim/study/plan/layer_costs.h"
#include "tests/answer/reasons.h"
#include "tests/study/plan/sample.h"

using namespace sim;

namespace {

// The smallest ratio of each bound to the replay, over every n-th plan of a space that fits.
struct Nearness {
  double sums = 1e9, ordered = 1e9, second = 1e9, third = 1e9;
  double sums_bytes = 1e9, second_bytes = 1e9, third_bytes = 1e9;
  int plans = 0;
};

Nearness nearness(const planner::Question& question, std::size_t every, std::size_t plans) {
  const planner::Space space = sample::space(question);
  answer::Sites sites;
  std::map<planner::LayerCostsKey, planner::LayerCosts> layer_costs;
  Nearness all;
  const auto least = [](double& so_far, std::int64_t bound, std::int64_t is) {
    so_far = std::min(so_far, static_cast<double>(bound) / static_cast<double>(is));
  };
  for (std::size_t c = 0; c < space.cores().size() && plans > 0; c += every) {
    const planner::PlanShape& core = space.cores()[c];
    answer::Site& site = sample::site(sites, space, core.base);
    for (const planner::LayerCostsKey& key : planner::layer_costs_keys(space, core))
      if (!layer_costs.contains(key))
        layer_costs[key] = planner::make_layer_costs(space, key, site);
    planner::FirstBounds first(space, sites, layer_costs);
    const planner::Bound sums = first.of(core);
    const program::Plan plan = space.plan(core, 0);
    if (!support::reasons(plan, site).empty()) continue;
    const answer::Answer answer = answer::evaluate(answer::checked(plan, site));
    if (!answer.run.fits()) continue;
    --plans;
    ++all.plans;
    std::int64_t needed = 0;
    for (const engine::ClassReport& one : answer.run.classes)
      needed = std::max({needed, one.needed.n, one.peak_allocated.n});
    const std::int64_t step = answer.run.step_time.ps;
    const planner::SecondBound second = planner::second_bound(first, core, plan, site);
    const planner::SecondBound third = planner::third_bound(answer::checked(plan, site));
    least(all.sums, sums.step_ps, step);
    least(all.ordered, first.step_of_order(core), step);
    least(all.second, second.step_ps, step);
    least(all.third, third.step_ps, step);
    least(all.sums_bytes, sums.bytes, needed);
    least(all.second_bytes, second.bytes, needed);
    least(all.third_bytes, third.bytes, needed);
  }
  return all;
}

planner::LayerCosts layer_costs_of(const planner::Question& question, int tp, int micro_batch = 1) {
  const planner::Space space = sample::space(question);
  answer::Sites sites;
  for (const planner::PlanShape& core : space.cores())
    for (const planner::LayerCostsKey& key : planner::layer_costs_keys(space, core))
      if (std::get<1>(key) == tp && std::get<2>(key) == 1 && std::get<3>(key) == micro_batch)
        return planner::make_layer_costs(space, key, sample::site(sites, space, core.base));
  FAIL("no such key");
  return {};
}

// Recomputing a layer takes the time of its forward pass.
void hold_relations(const planner::LayerCosts& p) {
  CHECK(p.again.forward == p.kept.forward);
  CHECK(p.again.backward == p.kept.forward + p.kept.backward);
  CHECK(p.kept.weight == 0);
  CHECK(p.first.forward > 0);
  CHECK(p.last.backward > 0);
  // The backward pass has two products for each one of the forward pass.
  CHECK(p.kept.backward > 1.7 * static_cast<double>(p.kept.forward));
  CHECK(p.kept.backward < 2.4 * static_cast<double>(p.kept.forward));
}

}  // namespace

TEST_CASE("planner: bounds are near to what plans take and need") {
  const Nearness dense = nearness(
      sample::question("llama-3.1-8b", "dgx-h100", 16, 32, 4096, {"zero=1", "pp=1,2"}), 97, 3);
  CHECK(dense.plans == 3);
  CHECK(dense.sums > 0.85);
  CHECK(dense.second > 0.91);
  CHECK(dense.third > 0.99);
  CHECK(dense.sums_bytes > 0.9);
  CHECK(dense.second_bytes > 0.99);
  CHECK(dense.third_bytes > 0.99);
  const Nearness again = nearness(
      sample::question("llama-2-13b", "abci-a", 32, 32, 2048, {"recompute=full", "pp=2"}), 31, 3);
  CHECK(again.plans == 3);
  CHECK(again.sums > 0.69);
  CHECK(again.second > 0.91);
  CHECK(again.third > 0.98);
  CHECK(again.sums_bytes > 0.93);
  CHECK(again.second_bytes > 0.99);
  const Nearness mixture = nearness(
      sample::question("qwen3-30b-a3b", "dgx-h100", 16, 16, 2048, {"zero=1", "pp=1"}), 61, 2);
  CHECK(mixture.plans == 2);
  CHECK(mixture.third > 0.77);
  CHECK(mixture.third_bytes > 0.99);
  // DualPipe holds each parameter on two stages, whose replicas share the optimizer's state.
  const Nearness twice =
      nearness(sample::question("llama-3.1-8b", "dgx-h100", 16, 32, 4096,
                                {"zero=1", "tp=2", "cp=1", "pp=4", "schedule=dualpipe",
                                 "micro_batch=1", "recompute=full"}),
               1, 2);
  CHECK(twice.plans == 2);
  CHECK(twice.sums_bytes > 0.87);
}

TEST_CASE(
    "planner: tensors hold their bytes in units until they are freed, where they move to too") {
  using program::Op;
  using program::Space;
  const auto alloc = [](Space space, std::uint32_t slot, std::int64_t bytes) {
    return program::Instruction{.op = Op::alloc, .space = space, .index = slot, .value = bytes};
  };
  const auto move = [](Space space, std::uint32_t slot, program::Slot to) {
    return program::Instruction{
        .op = Op::move, .space = space, .index = slot, .value = program::packed(to)};
  };
  const auto release = [](Space space, std::uint32_t slot) {
    return program::Instruction{.op = Op::free, .space = space, .index = slot};
  };
  program::Program program;
  program.fixed_slots = 1;
  program.local_slots = 2;
  program.frame_slots = 2;
  program.frames = 2;
  const auto peak = [&](std::vector<program::Instruction> code, std::vector<std::uint32_t> frames,
                        std::uint32_t layer = 0) {
    program.blocks = {{"block", std::move(code)}};
    program.templates = {{program::PassKind::forward, 0, {{0, -1, layer}}}};
    program.first_step.clear();
    for (const std::uint32_t frame : frames) program.first_step.push_back({0, 0, frame});
    return planner::bytes_of_tensors(program);
  };
  CHECK(peak({alloc(Space::local, 0, 513)}, {0}) == 1024);
  // A slot that is filled again holds the new block only. A moved or freed slot is empty.
  CHECK(peak({alloc(Space::local, 0, 512), alloc(Space::local, 0, 1024)}, {0}) == 1024);
  CHECK(peak({alloc(Space::local, 0, 512), move(Space::local, 0, {Space::local, 1}),
              alloc(Space::local, 0, 512)},
             {0}) == 1024);
  CHECK(peak({alloc(Space::local, 0, 512), release(Space::local, 0), alloc(Space::local, 1, 512)},
             {0, 0}) == 1024);
  CHECK(peak({alloc(Space::local, 0, 512), move(Space::local, 0, {Space::local, 1}),
              release(Space::local, 1), alloc(Space::local, 0, 512)},
             {0}) == 512);
  // All passes share fixed and local slots. Each frame has its own slots.
  CHECK(peak({alloc(Space::fixed, 0, 512), alloc(Space::local, 0, 512),
              alloc(Space::microbatch, 0, 512)},
             {0, 1}) == 2048);
  CHECK(peak({alloc(Space::layer, 0, 512), alloc(Space::microbatch, 1, 1024)}, {0}, 1) == 1024);
  CHECK(peak({alloc(Space::layer, 0, 512), alloc(Space::microbatch, 1, 1024)}, {0}, 0) == 1536);
  // Blocks allocated before the first step stay. Of the steady step as many passes count as the
  // first step has.
  program.setup = {{0, 0, 0}};
  program.step = {{0, 0, 0}, {0, 0, 1}};
  CHECK(peak({alloc(Space::microbatch, 0, 512)}, {0}) == 512);
  CHECK(peak({alloc(Space::microbatch, 0, 512)}, {1, 1}) == 1024);
}

TEST_CASE("planner: the pieces of a stage have their parameters and what they keep") {
  const planner::Question dense =
      sample::question("llama-3.1-8b", "dgx-h100", 16, 64, 8192, {"zero=1", "recompute=none,full"});
  const planner::LayerCosts whole = layer_costs_of(dense, 1), half = layer_costs_of(dense, 2);
  hold_relations(whole);
  hold_relations(half);
  // Query, key and value; the projection; three matrices of the MLP; two norms.
  CHECK(whole.layer_parameters ==
        4096 * (4096 + 2 * 1024) + 4096 * 4096 + 3 * 4096 * 14336 + 2 * 4096);
  CHECK(half.layer_parameters ==
        (4096 * (4096 + 2 * 1024) + 4096 * 4096 + 3 * 4096 * 14336) / 2 + 2 * 4096);
  CHECK(whole.first_parameters == 128256 * 4096);
  CHECK(whole.last_parameters == 128256 * 4096 + 4096);
  CHECK(half.first_parameters == 128256 * 4096 / 2);
  CHECK(half.last_parameters == 128256 * 4096 / 2 + 4096);
  CHECK(whole.again_bytes == 2 * 8192 * 4096);
  CHECK(half.again_bytes == 8192 * 4096);
  CHECK(whole.kept_bytes == 1141964816);
  CHECK(half.kept_bytes == 570982416);
  CHECK(whole.first_bytes == 138641408);
  CHECK(half.first_bytes == 105160704);
  CHECK(whole.last_bytes == 4269776896);
  CHECK(half.last_bytes == 2134794240);
  // A model with dense and mixture layers: the bound uses the smaller of both.
  const planner::LayerCosts mixed = layer_costs_of(
      sample::question("deepseek-v3", "dgx-h200", 512, 512, 4096,
                       {"zero=1", "pp=16", "tp=1,2", "cp=1", "first_stage_layers=1"}),
      1);
  CHECK(mixed.layer_parameters == 583483392);  // a dense layer's
  CHECK(mixed.first_parameters == 129280 * 7168);
  CHECK(mixed.kept_bytes == 1394671632);
  CHECK(mixed.again_bytes == 2 * 4096 * 7168);
  hold_relations(
      layer_costs_of(sample::question("qwen3-30b-a3b", "dgx-h100", 16, 32, 4096, {"zero=1"}), 1));
}
