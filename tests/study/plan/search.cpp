// search.cpp — the search finds the plans that an exhaustive replay finds.
#include "sim/study/plan/search.h"

#include <algorithm>
#include <map>

#include "sim/input/plan/grid.h"
#include "sim/study/plan/constraints.h"
#include "sim/study/plan/refine.h"
#include "tests/study/plan/sample.h"

using namespace sim;

namespace {

planner::Wanted wanted(int best, int workers = 2) {
  planner::Wanted wanted;
  wanted.best = best;
  wanted.workers = workers;
  return wanted;
}

// Step times of every plan that fits, the shortest first.
std::vector<std::int64_t> exhaustive(const planner::Space& space, answer::Sites& sites,
                                     const planner::Wanted& how) {
  std::vector<std::int64_t> times;
  for (std::uint32_t c = 0; c < space.cores().size(); ++c) {
    const planner::PlanShape& core = space.cores()[c];
    answer::Site& site = sample::site(sites, space, core.base);
    for (int v = 0; v < space.variants(core); ++v) {
      const planner::Replayed one = planner::replay_plan(space, c, v, site, how);
      if (one.fits) times.push_back(one.step_ps);
    }
  }
  std::ranges::sort(times);
  return times;
}

void same_as_exhaustive(const planner::Question& question, int best) {
  const planner::Space space = sample::space(question);
  INFO(question.model << " " << space.cores().size() << " cores");
  answer::Sites sites;
  for (const planner::Base& base : space.bases()) REQUIRE(sites.of(base.file.machine));
  const planner::Wanted how = wanted(best);
  const planner::Outcome found = planner::find_best(space, sites, how, sample::always);
  REQUIRE(found.complete);
  const planner::Counts& c = found.counts;
  CHECK(c.plans == c.impossible + c.cut_by_time + c.cut_by_memory + c.replayed);
  const std::vector<std::int64_t> all = exhaustive(space, sites, how);
  REQUIRE(found.best.size() == std::min(all.size(), static_cast<std::size_t>(best)));
  for (std::size_t i = 0; i < found.best.size(); ++i) CHECK(found.best[i].step_ps == all[i]);
}

}  // namespace

namespace {

// Every `stride`-th of twenty-one spaces.
void check_spaces(std::size_t stride) {
  const std::vector<std::string> one_order = {"rank_order=tp-cp-ep-dp-pp",
                                              "allocator_options=expandable_segments:True",
                                              "virtual_stages=1,2"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), one_order.begin(), one_order.end());
    return more;
  };
  struct Case {
    const char *model, *cluster;
    int gpus, batch, sequence;
    std::vector<std::string> settings;
  };
  const Case cases[] = {
      {"llama-3.1-8b",
       "abci-a",
       8,
       16,
       4096,
       {"zero=1", "recompute=none", "schedule=1f1b", "cp=1,2"}},
      {"llama-3.1-8b", "abci-a", 8, 16, 4096, {"zero=3", "recompute=none,full", "pp=1", "cp=1"}},
      {"llama-3.1-8b",
       "abci-a",
       8,
       16,
       8192,
       {"zero=1", "tp=4", "micro_batch=1", "schedule=1f1b,zb-v"}},
      {"llama-3.1-8b", "tsubame4", 8, 16, 8192, {"zero=1,2,3", "tp=1", "cp=1", "pp=1"}},
      {"llama-3.1-8b",
       "tsubame4",
       8,
       32,
       8192,
       {"zero=1", "tp=1", "cp=1", "recompute=none", "pp=1,2"}},
      {"llama-3.1-8b",
       "tsubame4",
       8,
       16,
       16384,
       {"zero=1", "tp=2", "recompute=full", "pp=1", "cp=1,2"}},
      {"llama-3.1-8b",
       "dgx-h100",
       16,
       32,
       8192,
       {"zero=1", "tp=2", "cp=1", "recompute=none", "pp=2"}},
      {"llama-3.1-8b", "dgx-h100", 16, 32, 8192, {"tp=1", "cp=2", "pp=1", "recompute=none"}},
      {"llama-3.1-8b", "dgx-a100", 16, 32, 4096, {"zero=1", "tp=2,4", "cp=1", "schedule=zb-h1"}},
      {"llama-2-7b", "abci-a", 8, 32, 4096, {"zero=1", "tp=2", "schedule=1f1b", "recompute=none"}},
      {"llama-2-7b", "dgx-h100", 8, 32, 4096, {"zero=1", "pp=2", "recompute=none", "tp=1"}},
      {"llama-2-13b",
       "dgx-a100",
       16,
       16,
       4096,
       {"zero=1", "tp=4", "cp=1", "micro_batch=1", "pp=2"}},
      {"llama-2-13b", "dgx-h100", 16, 32, 4096, {"zero=2,3", "tp=1", "pp=1", "cp=1"}},
      {"llama-2-13b", "dgx-h100", 8, 16, 4096, {"zero=1", "tp=2", "pp=4", "recompute=none"}},
      {"gpt3-6.7b", "dgx-a100", 8, 16, 2048, {"zero=1", "cp=1", "schedule=1f1b", "pp=1,2"}},
      {"gpt3-6.7b", "dgx-h100", 8, 16, 2048, {"zero=0,1", "cp=1", "tp=1", "recompute=none"}},
      {"mistral-7b", "dgx-h100", 8, 16, 4096, {"zero=1", "cp=1", "pp=1", "recompute=none"}},
      {"gpt3-1.3b",
       "dgx-a100",
       8,
       32,
       2048,
       {"zero=1", "tp=1", "cp=1", "recompute=none", "pp=1,4"}},
      {"gpt3-1.3b",
       "dgx-a100",
       16,
       16,
       2048,
       {"zero=1", "tp=1", "cp=1", "recompute=none,full", "pp=16", "micro_batch=1"}},
      {"gpt3-22b",
       "dgx-a100",
       16,
       16,
       2048,
       {"zero=1", "tp=4,8", "cp=1", "recompute=none", "schedule=1f1b"}},
      {"llama-3.1-70b",
       "tsubame4",
       64,
       64,
       8192,
       {"zero=1", "tp=4", "cp=1", "recompute=none", "pp=8", "micro_batch=1"}}};
  for (std::size_t i = 0; i < std::size(cases); i += stride) {
    const Case& one = cases[i];
    same_as_exhaustive(sample::question(one.model, one.cluster, one.gpus, one.batch, one.sequence,
                                        with(one.settings)),
                       3);
  }
}

}  // namespace

TEST_CASE("planner: what is found is what every plan replayed would show, in seven spaces") {
  check_spaces(3);
}

TEST_CASE("planner: so it is in all twenty-one spaces", "[.][campaign]") {
  check_spaces(1);
}

TEST_CASE("planner: so it is for mixtures of experts, whose degrees are searched as well") {
  const std::vector<std::string> usual = {"rank_order=tp-cp-ep-dp-pp", "recompute=none",
                                          "allocator_options=expandable_segments:True",
                                          "micro_batch=1,2"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), usual.begin(), usual.end());
    return more;
  };
  same_as_exhaustive(sample::question("qwen3-30b-a3b", "dgx-h100", 16, 16, 4096,
                                      with({"zero=1", "pp=1", "cp=1", "schedule=1f1b"})),
                     3);
  same_as_exhaustive(sample::question("mixtral-8x7b", "dgx-h100", 32, 32, 4096,
                                      with({"zero=1", "pp=4", "cp=1", "schedule=1f1b"})),
                     3);
  same_as_exhaustive(
      sample::question("mixtral-8x7b", "dgx-h100", 32, 32, 8192,
                       with({"zero=1", "pp=4", "cp=1,2", "ep=2,4", "tp=2", "schedule=1f1b"})),
      3);
}

namespace {

// The 18 groups of the paper's grid, each with the values of its plans.
void check_groups(int gpus_max, int groups_max) {
  ::setenv("REHEARSE_ROOT", REHEARSE_SOURCE_DIR, 1);
  const auto grid = input::load_grid(REHEARSE_SOURCE_DIR "/workloads/paper-454.textproto");
  REQUIRE(grid);
  struct Group {
    std::map<std::string, std::vector<std::string>> values;
    std::string cluster;
    int gpus = 0, sequence = 0;
  };
  std::map<std::string, Group> groups;
  for (std::size_t i = 0; i < grid->size(); ++i) {
    const input::GridPoint point = grid->point(i);
    if (point.family.starts_with("completion") || !point.problems.empty()) continue;
    const int gpus = point.plan.world();
    Group& group = groups[point.family + std::to_string(gpus)];
    group.cluster = point.machine->cluster.name;
    group.gpus = gpus;
    group.sequence = static_cast<int>(point.plan.batch.sequence);
    const auto add = [&](const char* name, int value) {
      std::vector<std::string>& all = group.values[name];
      const std::string text = std::to_string(value);
      if (std::ranges::find(all, text) == all.end()) all.push_back(text);
    };
    add("tp", point.plan.mesh.tp);
    add("cp", point.plan.mesh.cp);
    add("pp", point.plan.mesh.pp);
    add("micro_batch", point.plan.batch.micro_batch);
  }
  REQUIRE(groups.size() == 18);
  int done = 0;
  for (const auto& [name, group] : groups) {
    if (group.gpus > gpus_max || done == groups_max) continue;
    ++done;
    std::vector<std::string> settings = {"schedule=1f1b",
                                         "recompute=none",
                                         "zero=1",
                                         "rank_order=tp-cp-ep-dp-pp",
                                         "allocator_options=expandable_segments:False",
                                         "account_for_loss=false",
                                         "logs_optimizer_state=true",
                                         "reset_attention_mask=true"};
    for (const auto& [field, values] : group.values) {
      std::string text = field + "=";
      for (std::size_t i = 0; i < values.size(); ++i) text += (i == 0 ? "" : ",") + values[i];
      settings.push_back(text);
    }
    INFO(name);
    same_as_exhaustive(
        sample::question("llama-3.1-8b", group.cluster, group.gpus, 1024, group.sequence, settings),
        3);
  }
  CHECK(done == groups_max);
}

}  // namespace

// Two groups keep this test short; the other groups are in results/plan.
TEST_CASE("planner: the best plan of two groups of the paper's grid is found") {
  check_groups(8, 2);
}

TEST_CASE("planner: so it is in its five groups on 8 GPUs", "[.][campaign]") {
  check_groups(8, 5);
}

TEST_CASE("planner: plans, order and counts are the same at any number of workers") {
  const planner::Space space = sample::space(
      sample::question("llama-3.1-8b", "dgx-h100", 16, 64, 8192, {"zero=1,3", "tp=1,2"}));
  answer::Sites sites;
  for (const planner::Base& base : space.bases()) REQUIRE(sites.of(base.file.machine));
  std::vector<planner::Outcome> all;
  for (const int workers : {1, 2, 3})
    all.push_back(planner::find_best(space, sites, wanted(5, workers), sample::always));
  for (std::size_t i = 1; i < all.size(); ++i) {
    CHECK(all[i].counts.replayed == all[0].counts.replayed);
    CHECK(all[i].counts.bounded == all[0].counts.bounded);
    CHECK(all[i].counts.cut_by_time == all[0].counts.cut_by_time);
    REQUIRE(all[i].best.size() == all[0].best.size());
    for (std::size_t k = 0; k < all[0].best.size(); ++k)
      CHECK(planner::to_text(all[i].best[k]) == planner::to_text(all[0].best[k]));
  }
}

TEST_CASE("planner: a search that is stopped says what the plans that are left take at least") {
  const planner::Space space =
      sample::space(sample::question("llama-3.1-8b", "dgx-h100", 16, 64, 8192, {"zero=1"}));
  answer::Sites sites;
  for (const planner::Base& base : space.bases()) REQUIRE(sites.of(base.file.machine));
  const planner::Outcome whole = planner::find_best(space, sites, wanted(1), sample::always);
  const planner::Outcome stopped = planner::find_best(
      space, sites, wanted(1), [](const planner::Progress& now) { return now.least_s == 0; });
  CHECK_FALSE(stopped.complete);
  REQUIRE(whole.best.size() == 1);
  CHECK(stopped.least_left_s <= static_cast<double>(whole.best.front().step_ps) * 1e-12);
  const planner::Counts& c = stopped.counts;
  CHECK(c.plans == c.impossible + c.cut_by_time + c.cut_by_memory + c.replayed + c.left);
  CHECK(c.left > 0);
  // Before the proof begins one plan that fits is replayed, so that an interrupted search has an
  // answer.
  REQUIRE(stopped.best.size() == 1);
  CHECK(stopped.best.front().fits);
  CHECK(stopped.best.front().step_ps >= whole.best.front().step_ps);
}

TEST_CASE("planner: the best few with balanced layers are faster, and as the replay says") {
  answer::Sites sites;
  const planner::Space space =
      sample::space(sample::question("llama-3.1-8b", "dgx-h100", 16, 64, 8192,
                                     {"zero=1", "pp=4", "tp=2", "cp=1", "schedule=1f1b",
                                      "recompute=none", "micro_batch=1", "tp_comm_overlap=false"}));
  for (const planner::Base& base : space.bases()) REQUIRE(sites.of(base.file.machine));
  const planner::Outcome outcome = planner::find_best(space, sites, wanted(3), sample::always);
  REQUIRE(!outcome.best.empty());
  const std::vector<planner::Refined> all =
      planner::refined(space, sites, wanted(3), outcome.best, [] { return true; });
  REQUIRE(!all.empty());
  for (const planner::Refined& one : all) {
    const planner::Replayed& even = outcome.best[one.rank];
    CHECK(one.replayed.step_ps < even.step_ps);
    CHECK(one.settings.ends_with(" layer_split=balanced"));
    CHECK(one.settings.find("account_for") == std::string::npos);
    program::Plan plan = space.plan(space.cores()[even.core], even.variant);
    plan.pipeline.layer_split = program::LayerSplit::balanced;
    plan.pipeline.account_for_embedding = plan.pipeline.account_for_loss = false;
    answer::Site& site = **sites.of(space.bases()[space.cores()[even.core].base].file.machine);
    CHECK(answer::evaluate_once(answer::checked(plan, site)).run.step_time.ps ==
          one.replayed.step_ps);
  }
}

TEST_CASE("planner: messages of tensor parallelism go behind products where that is faster") {
  answer::Sites sites;
  const auto refined = [&](std::vector<std::string> settings) {
    settings.insert(settings.end(), {"zero=1", "pp=1", "cp=1", "recompute=none", "micro_batch=1"});
    const planner::Space space =
        sample::space(sample::question("llama-3.1-8b", "dgx-h100", 16, 64, 8192, settings));
    for (const planner::Base& base : space.bases()) REQUIRE(sites.of(base.file.machine));
    const planner::Outcome outcome = planner::find_best(space, sites, wanted(1), sample::always);
    REQUIRE(!outcome.best.empty());
    const planner::PlanShape& core = space.cores()[outcome.best.front().core];
    program::Plan plan = space.plan(core, outcome.best.front().variant);
    plan.stack.tp_comm_overlap = true;
    answer::Site& site = **sites.of(space.bases()[core.base].file.machine);
    const std::vector<planner::Refined> all =
        planner::refined(space, sites, wanted(1), outcome.best, [] { return true; });
    if (!all.empty()) {
      CHECK(all.front().settings.ends_with(" tp_comm_overlap=true"));
      CHECK(answer::evaluate_once(answer::checked(plan, site)).run.step_time.ps ==
            all.front().replayed.step_ps);
    }
    return all.size();
  };
  CHECK(refined({"tp=4"}) == 1);
  CHECK(refined({"tp=4", "framework=megatron-lm"}) == 1);
  CHECK(refined({"tp=4", "tp_comm_overlap=false"}) == 0);
  CHECK(refined({"tp=4", "sequence_parallel=false"}) == 0);
  CHECK(refined({"tp=4", "framework=nanotron"}) == 0);
}

TEST_CASE("planner: the best few stand on the nodes that the links ask for, as run says") {
  // A NIC of the second of four nodes has a tenth of its bandwidth.
  answer::Sites sites;
  const planner::Space space = sample::space(sample::question(
      "llama-3.1-8b", "dgx-h100", 16, 8, 8192,
      {"zero=1", "tp=4", "pp=1,2", "cp=1", "recompute=none", "micro_batch=1", "schedule=1f1b",
       "cluster.nodes=4", "condition={node:1;nic:0;bandwidth:0.1}"}));
  for (const planner::Base& base : space.bases()) REQUIRE(sites.of(base.file.machine));
  const planner::Outcome outcome = planner::find_best(space, sites, wanted(3), sample::always);
  const std::vector<planner::Refined> all =
      planner::refined(space, sites, wanted(3), outcome.best, [] { return true; });
  int placed = 0;
  for (const planner::Refined& one : all) {
    INFO(one.settings);
    CHECK(one.replayed.fits);
    CHECK(one.replayed.step_ps < outcome.best[one.rank].step_ps);
    std::vector<std::string> settings;
    for (std::size_t at = 0; at < one.settings.size();) {
      const std::size_t end = std::min(one.settings.find(' ', at), one.settings.size());
      settings.push_back(one.settings.substr(at, end - at));
      at = end + 1;
    }
    placed += one.settings.find(" host=[") != std::string::npos ? 1 : 0;
    const auto file = input::load_plan("", settings);
    REQUIRE(file);
    answer::Sites fresh;
    const auto site = fresh.of(file->machine);
    REQUIRE(site);
    CHECK(answer::evaluate_once(answer::checked(file->plan, **site)).run.step_time.ps ==
          one.replayed.step_ps);
  }
  CHECK(placed > 0);

  // An explicit `host` fixes the nodes.
  const planner::Space said = sample::space(sample::question(
      "llama-3.1-8b", "dgx-h100", 16, 8, 8192,
      {"zero=1", "tp=4", "pp=1,2", "cp=1", "recompute=none", "micro_batch=1", "schedule=1f1b",
       "cluster.nodes=4", "condition={node:1;nic:0;bandwidth:0.1}", "host=[0,1]"}));
  for (const planner::Base& base : said.bases()) REQUIRE(sites.of(base.file.machine));
  const planner::Outcome there = planner::find_best(said, sites, wanted(3), sample::always);
  for (const planner::Refined& one :
       planner::refined(said, sites, wanted(3), there.best, [] { return true; }))
    CHECK(one.settings.find("host=[", one.settings.find("host=[") + 1) == std::string::npos);
}

TEST_CASE("planner: headroom, and the fewest GPUs that reach a rate") {
  answer::Sites sites;
  const planner::Space space = sample::space(sample::question(
      "llama-3.1-8b", "dgx-h100", 16, 64, 8192, {"zero=1", "schedule=1f1b", "recompute=none"}));
  for (const planner::Base& base : space.bases()) REQUIRE(sites.of(base.file.machine));
  planner::Wanted roomy = wanted(1);
  roomy.headroom = Bytes{std::int64_t{8} << 30};
  const planner::Outcome found = planner::find_best(space, sites, roomy, sample::always);
  REQUIRE(found.best.size() == 1);
  CHECK(found.best[0].capacity - found.best[0].reserved >= roomy.headroom->n);

  planner::Question sizes = sample::question("llama-3.1-8b", "dgx-h100", 8, 64, 8192,
                                             {"zero=1", "schedule=1f1b", "recompute=none"});
  sizes.gpus = {8, 16, 32};
  const planner::Space several = sample::space(sizes);
  planner::Wanted rate = wanted(1);
  rate.objective = planner::Objective::gpus;
  rate.tokens_s = 100'000;
  const planner::Outcome least = planner::find_best(several, sites, rate, sample::always);
  REQUIRE(least.best.size() == 1);
  const planner::PlanShape& core = several.cores()[least.best[0].core];
  const int gpus = several.bases()[core.base].gpus;
  CHECK(gpus == 16);
  CHECK(least.best[0].tokens_s_gpu * gpus >= rate.tokens_s);
}

TEST_CASE("planner: a search that is stopped at once claims nothing") {
  const planner::Space space =
      sample::space(sample::question("llama-3.1-8b", "dgx-h100", 16, 64, 8192, {"zero=1"}));
  answer::Sites sites;
  for (const planner::Base& base : space.bases()) REQUIRE(sites.of(base.file.machine));
  const planner::Outcome stopped =
      planner::find_best(space, sites, wanted(1), [](const planner::Progress&) { return false; });
  CHECK_FALSE(stopped.complete);
  CHECK(stopped.best.empty());
  CHECK(stopped.least_left_s == 0);
  CHECK(stopped.counts.left == stopped.counts.plans - stopped.counts.impossible);
  // As soon as a plan is known, a search that is stopped returns it, without a proof.
  const planner::Outcome first = planner::find_best(
      space, sites, wanted(1), [](const planner::Progress& now) { return now.best_s == 0; });
  CHECK_FALSE(first.complete);
  REQUIRE(!first.best.empty());
  CHECK_FALSE(first.best.front().proven);
  CHECK(first.counts.bounded <= 256);
  CHECK(first.counts.replayed <= 8);
}

TEST_CASE("planner: a list has distinct plans, the first one proven") {
  const planner::Space space = sample::space(
      sample::question("llama-3.1-8b", "dgx-h100", 16, 64, 8192, {"zero=1", "tp=1,2,4", "cp=1"}));
  answer::Sites sites;
  for (const planner::Base& base : space.bases()) REQUIRE(sites.of(base.file.machine));
  const planner::Outcome alone = planner::find_best(space, sites, wanted(1), sample::always);
  planner::Wanted ten = wanted(1);
  ten.list = 10;
  const planner::Outcome list = planner::find_best(space, sites, ten, sample::always);
  REQUIRE(alone.best.size() == 1);
  REQUIRE(list.best.size() == 10);
  CHECK(list.complete);
  CHECK(list.best.front().step_ps == alone.best.front().step_ps);
  CHECK(list.best.front().proven);
  const planner::Counts& c = list.counts;
  CHECK(c.plans == c.impossible + c.cut_by_time + c.cut_by_memory + c.replayed);
  for (std::size_t i = 0; i < list.best.size(); ++i) {
    CHECK(list.best[i].fits);
    CHECK((list.best[i].likely < 0 || list.best[i].likely >= 0.95));
    CHECK(list.best[i].capacity - list.best[i].reserved > list.best[i].capacity / 50);
    for (std::size_t k = 0; k < i; ++k)
      CHECK_FALSE(planner::alike(space, list.best[k], list.best[i]));
  }
}

TEST_CASE("planner: a lifted constraint is searched again, with what it gains") {
  // Two sequences in a microbatch need more memory than there is.
  const planner::Question question =
      sample::question("llama-3.1-8b", "dgx-h100", 8, 32, 8192,
                       {"zero=1", "tp=1,2", "cp=1", "pp=1", "micro_batch=1,2", "recompute=none"});
  const planner::Space space = sample::space(question);
  answer::Sites sites;
  for (const planner::Base& base : space.bases()) REQUIRE(sites.of(base.file.machine));
  const planner::Outcome best = planner::find_best(space, sites, wanted(1), sample::always);
  REQUIRE_FALSE(best.best.empty());
  const std::vector<planner::Lifted> all =
      planner::lifted_constraints(question, space, sites, wanted(1), sample::always);
  REQUIRE(all.size() == 3);
  std::map<std::string, double> gains;
  for (const planner::Lifted& one : all) {
    INFO(one.constraint << ": " << one.plan);
    CHECK(one.tokens_s_gpu > 0);
    gains[one.constraint] = one.tokens_s_gpu / best.best.front().tokens_s_gpu;
  }
  CHECK(all[0].tokens_s_gpu >= all[1].tokens_s_gpu);
  CHECK(all[1].tokens_s_gpu >= all[2].tokens_s_gpu);
  // With twice the memory the same plans fit, and so do faster ones.
  CHECK(gains.at("memory of a GPU") > 1.01);
  // The parts of a step that do not grow with the batch are a smaller share of it.
  CHECK(gains.at("sequences of a step") > 1);
  // The job has one node, which has all its GPUs already.
  CHECK(gains.at("GPUs of a node") == Approx(1).epsilon(0.02));
}

TEST_CASE("study: a search in a hurry has a plan after fewer bounds, and proves the same best") {
  const planner::Space space = sample::space(sample::question(
      "llama-3.1-8b", "dgx-h100", 16, 32, 8192, {"zero=1", "recompute=none", "tp=1,2,4"}));
  answer::Sites sites;
  for (const planner::Base& base : space.bases()) REQUIRE(sites.of(base.file.machine));
  const auto best = [&](bool hurry, std::int64_t& bounds_of_first) {
    planner::Wanted how = wanted(1);
    how.hurry = [hurry] { return hurry; };
    bounds_of_first = -1;
    const planner::Outcome found =
        planner::find_best(space, sites, how, [&](const planner::Progress& now) {
          if (now.best_s > 0 && bounds_of_first < 0) bounds_of_first = now.bounded;
          return true;
        });
    REQUIRE(found.complete);
    REQUIRE(!found.best.empty());
    return found.best.front().step_ps;
  };
  std::int64_t calm = 0, hurried = 0;
  CHECK(best(false, calm) == best(true, hurried));
  CHECK(hurried < calm);
}
