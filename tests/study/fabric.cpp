// fabric.cpp — plans on changed fabrics: links shared by all traffic, slow GPUs, variants compared.
#include <catch2/catch.hpp>

#include "sim/answer/balance.h"
#include "sim/answer/evaluate.h"
#include "sim/input/plan/plan.h"
#include "sim/study/tune/link_use.h"
#include "sim/study/tune/whatif.h"

using namespace sim;
using namespace sim::answer;
using namespace sim::study;

namespace {

input::PlanFile plan(std::vector<std::string> settings) {
  std::vector<std::string> all = {"model=llama-3.1-8b", "cluster=dgx-h100", "sequence=2048",
                                  "micro_batch=1"};
  all.insert(all.end(), settings.begin(), settings.end());
  const auto file = input::load_plan("", all);
  INFO((file ? std::string() : file.errors()[0].message));
  REQUIRE(file);
  return *file;
}

Duration step(const input::PlanFile& file, bool coupled, bool all_ranks = false,
              engine::Method method = engine::Method::reference) {
  Sites sites;
  const auto site = sites.of(file.machine);
  REQUIRE(site);
  engine::Options how;
  how.method = method;
  how.couple = coupled;
  const answer::Answer answer = evaluate(answer::checked(file.plan, **site), how, all_ranks);
  REQUIRE(answer.run.fits());
  return answer.run.step_time;
}

}  // namespace

TEST_CASE("study: on links that nobody else uses coupled equals isolated to the picosecond") {
  // One kind of traffic at a time. Tensor parallelism within a node. A pipeline whose two
  // directions have separate links. Data parallelism between nodes without overlap.
  for (const std::vector<std::string>& settings : std::vector<std::vector<std::string>>{
           {"tp=8", "gpus=8", "global_batch=4"},
           {"tp=8", "pp=2", "gpus=16", "global_batch=4"},
           {"tp=2", "gpus=16", "global_batch=16", "overlap_grad_reduce=false"}}) {
    const input::PlanFile file = plan(settings);
    CHECK(step(file, true) == step(file, false));
  }
}

TEST_CASE("study: coupled never beats isolated and slows where traffic meets") {
  const std::vector<std::string> base = {"tp=4", "pp=2", "gpus=64", "global_batch=64",
                                         "fabric.nodes_per_leaf=2"};
  bool slower = false;
  for (const char* oversubscription : {"1", "4", "16"}) {
    for (const char* order : {"tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp"}) {
      std::vector<std::string> settings = base;
      settings.push_back(std::string("fabric.oversubscription=") + oversubscription);
      settings.push_back(std::string("rank_order=") + order);
      const input::PlanFile file = plan(settings);
      const Duration alone = step(file, false), shared = step(file, true);
      CHECK(shared >= alone);
      slower = slower || shared > alone;
    }
  }
  CHECK(slower);
}

TEST_CASE("study: replicas split by slow GPUs answer as every rank by itself") {
  const input::PlanFile file =
      plan({"tp=2", "pp=2", "gpus=32", "global_batch=32", "condition={node: 1 gpu: 3 speed: 0.7}",
            "condition={node: 2 speed: 0.9}"});
  const std::vector<int> classes = replica_classes(file.plan, file.machine.cluster);
  // dp is 8. GPUs 2k and 2k+1 of nodes 0 and 1 hold stage 0 of replicas 0 to 7; nodes 2 and 3 hold
  // stage 1. GPU 11 is in replica 5. Node 2 holds stage 1 of replicas 0 to 3.
  CHECK(classes == std::vector{0, 0, 0, 0, 1, 2, 1, 1});
  const Duration merged = step(file, false, false, engine::Method::fast);
  CHECK(merged == step(file, false, true));
  CHECK(merged > step(plan({"tp=2", "pp=2", "gpus=32", "global_batch=32"}), false));
}

TEST_CASE("study: a node with slow links slows the groups that stand on it") {
  const std::vector<std::string> base = {"tp=4", "pp=4", "gpus=32", "global_batch=32"};
  const auto accounts = [&](std::vector<std::string> settings) {
    settings.insert(settings.end(), base.begin(), base.end());
    const input::PlanFile file = plan(settings);
    Sites sites;
    const answer::Answer answer = evaluate(answer::checked(file.plan, **sites.of(file.machine)));
    REQUIRE(answer.run.fits());
    std::vector<Duration> waits;  // for tensor-parallel traffic, by class
    for (const engine::ClassReport& c : answer.run.classes)
      waits.push_back(c.accounts[static_cast<std::size_t>(engine::Account::tp_exposed)]);
    return std::pair(waits, answer.run.step_time);
  };
  const auto [even, even_step] = accounts({});
  // Node 0 holds stage 0 of both replicas. The other nodes hold stages 1, 2 and 3.
  const auto [slow, slow_step] = accounts({"condition={node: 0 bandwidth: 0.5}"});
  REQUIRE(even.size() == 4);
  REQUIRE(slow.size() == 4);
  CHECK(slow[0] > even[0]);
  for (std::size_t stage = 1; stage < 4; ++stage) CHECK(slow[stage] == even[stage]);
  CHECK(slow_step > even_step);
  // One of two replicas is on the slow node. The replicas are two classes, and the step equals that
  // of a replay of every rank.
  const std::vector<std::string> placed = {"tp=8", "pp=2", "gpus=32", "global_batch=32",
                                           "condition={node: 1 bandwidth: 0.5}"};
  const input::PlanFile file = plan(placed);
  CHECK(replica_classes(file.plan, file.machine.cluster) == std::vector{0, 1});
  CHECK(step(file, false, false, engine::Method::fast) == step(file, false, true));
}

TEST_CASE("study: two kinds of GPU in one job, each class as its slowest") {
  const std::vector<std::string> base = {"tp=2", "pp=2", "gpus=32", "global_batch=32"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), base.begin(), base.end());
    return plan(more);
  };
  const input::PlanFile fast = plan(base);
  const std::string four = "other_gpu={first_node: 0 nodes: 4 cluster: \"dgx-a100\"}";
  const std::string one = "other_gpu={first_node: 1 nodes: 1 cluster: \"dgx-a100\"}";
  const input::PlanFile mixed = with({one, "attention=flash"});
  // Node 1 holds stage 0 of replicas 4 to 7.
  CHECK(replica_classes(mixed.plan, mixed.machine.cluster) == std::vector{0, 0, 0, 0, 1, 1, 1, 1});
  const Duration some = step(mixed, false, false, engine::Method::fast);
  CHECK(some == step(mixed, false, true));
  const Duration all = step(with({four, "attention=flash"}), false);
  CHECK(some > step(with({"attention=flash"}), false));
  CHECK(all >= some);
  // All nodes of another GPU: its kernels with the links of this cluster.
  Sites sites;
  const Site& site = **sites.of(mixed.machine);
  REQUIRE(site.others.size() == 1);
  CHECK(site.others[0].gpu.name == "A100-SXM4-80GB");
  // Ranks on the GPU with less memory have its capacity.
  const input::PlanFile small =
      with({"other_gpu={first_node: 1 nodes: 1 cluster: \"abci-a\"}", "attention=flash"});
  const answer::Answer answer = evaluate(answer::checked(small.plan, **sites.of(small.machine)));
  Bytes least = answer.run.classes.front().capacity, most = least;
  for (const engine::ClassReport& c : answer.run.classes) {
    least = std::min(least, c.capacity);
    most = std::max(most, c.capacity);
  }
  CHECK(gib(most - least) == Approx(79.2 - 39.39).margin(0.1));
}

TEST_CASE("study: what goes up a NIC comes down another") {
  const input::PlanFile file = plan({"tp=4", "pp=2", "gpus=64", "global_batch=64"});
  Sites sites;
  Site& site = **sites.of(file.machine);
  const std::vector<LinkUse> uses =
      link_use(answer::checked(file.plan, site), Duration{1'000'000'000'000});
  const topology::Routes& routes = site.network->cover(1);
  double up = 0, down = 0;
  for (const LinkUse& use : uses) {
    double parts = 0;
    for (const auto& [who, bytes] : use.bytes_of) parts += bytes;
    CHECK(parts == Approx(use.bytes));
    if (routes.link(use.link).kind != topology::LinkKind::network) continue;
    if (routes.source(use.link).kind == topology::VertexKind::nic) up += use.bytes;
    if (routes.target(use.link).kind == topology::VertexKind::nic) down += use.bytes;
  }
  CHECK(up > 0);
  CHECK(up == Approx(down).epsilon(1e-12));
}

TEST_CASE("study: replicas with unlike microbatches send as much together as with even ones") {
  const auto bytes_of = [](const std::string& counts) {
    const input::PlanFile file =
        plan({"tp=4", "pp=2", "gpus=32", "global_batch=16", "replica_microbatches=" + counts});
    Sites sites;
    std::map<std::string, double> all;
    for (const LinkUse& use : link_use(answer::checked(file.plan, **sites.of(file.machine)),
                                       Duration{1'000'000'000'000}))
      for (const auto& [who, bytes] : use.bytes_of) all[who] += bytes;
    all.erase("dp");  // losses, once a step
    return all;
  };
  const std::map<std::string, double> even = bytes_of("4x4"), unlike = bytes_of("2x6,2x2");
  REQUIRE(even.size() >= 3);
  REQUIRE(unlike.size() == even.size());
  for (const auto& [who, bytes] : even) {
    CAPTURE(who);
    CHECK(unlike.at(who) == Approx(bytes).epsilon(1e-9));
  }
}

TEST_CASE("study: seeds give a mean and a range, and nothing to draw gives none") {
  WhatifSettings settings;
  settings.settings = {"model=llama-3.1-8b", "cluster=dgx-h100", "sequence=2048", "tp=2", "gpus=64",
                       "global_batch=64",    "jitter.sigma=0.05"};
  const auto go_on = [](std::size_t) { return true; };
  const std::vector<input::Variant> variants = {{"without", {"jitter.sigma=0.00001"}}};
  settings.seeds = 1;
  const auto one = whatif(settings, variants, go_on);
  settings.seeds = 9;
  const auto nine = whatif(settings, variants, go_on);
  REQUIRE(one);
  REQUIRE(nine);
  CHECK((*one)[0].draws == 1);
  const output::WhatifRow& drawn = (*nine)[0];
  CHECK(drawn.draws == 9);
  CHECK(drawn.step_low < drawn.step);
  CHECK(drawn.step < drawn.step_high);
  CHECK(drawn.step_low <= (*one)[0].step);
  CHECK((*one)[0].step <= drawn.step_high);
  // The seeds are drawn with or without company: the range is the same for any number of workers.
  settings.workers = 2;
  const auto again = whatif(settings, variants, go_on);
  CHECK(text(output::whatif_document(*nine)) == text(output::whatif_document(*again)));
  // Without a hash and without jitter there is nothing to draw.
  settings.settings.pop_back();
  const auto none = whatif(settings, {}, go_on);
  REQUIRE(none);
  CHECK((*none)[0].draws == 1);
}

TEST_CASE("study: a setting that changes nothing says what bounds instead") {
  WhatifSettings settings;
  settings.settings = {"model=llama-3.1-8b", "cluster=dgx-a100", "sequence=2048", "tp=8", "gpus=8",
                       "global_batch=8"};
  const std::vector<input::Variant> variants = {{"nvls", {"node.nvlink_sharp=false"}},
                                                {"nic", {"node.nic_bandwidth=400Gb/s"}}};
  const auto rows = whatif(settings, variants, [](std::size_t) { return true; });
  REQUIRE(rows);
  CHECK((*rows)[0].bound.empty());
  CHECK((*rows)[1].bound == "NVLS does not exist on A100-SXM4-80GB");
  CHECK((*rows)[2].bound == "no traffic of this plan leaves the nodes");
  const std::string shown = text(output::whatif_document(*rows));
  CHECK(shown.find("no difference: NVLS does not exist on A100-SXM4-80GB") != std::string::npos);
}

TEST_CASE("study: each variant has the price of its name, of its cluster, or the common one") {
  WhatifSettings settings;
  settings.settings = {"model=llama-3.1-8b", "cluster=dgx-h100", "sequence=2048", "tp=2", "gpus=16",
                       "global_batch=64"};
  settings.price_per_gpu_hour = 2;
  settings.prices = {{"dgx-h200", 3}, {"mine", 5}};
  const std::vector<input::Variant> variants = {
      {"other", {"cluster=dgx-h200"}}, {"mine", {"cluster=dgx-h200"}}, {"none", {"tp=4"}}};
  const auto rows = whatif(settings, variants, [](std::size_t) { return true; });
  REQUIRE(rows);
  const double prices[] = {2, 3, 5, 2};
  for (std::size_t i = 0; i < 4; ++i)
    CHECK((*rows)[i].cost_per_million_tokens ==
          Approx(prices[i] / 3600 / (*rows)[i].tokens_gpu * 1e6));
}

TEST_CASE("study: variants stand beside their base in order whatever the workers") {
  WhatifSettings settings;
  settings.settings = {
      "model=llama-3.1-8b", "cluster=dgx-h100",       "sequence=2048", "tp=2", "pp=2", "gpus=64",
      "global_batch=64",    "fabric.nodes_per_leaf=2"};
  settings.price_per_gpu_hour = 2;
  const auto varied = input::parse_vary("fabric.oversubscription=1,8,64");
  REQUIRE(varied);
  std::vector<input::Variant> variants = *input::combinations({*varied});
  variants.push_back({"impossible", {"tp=3"}});
  std::vector<std::size_t> done;
  const auto go_on = [&](std::size_t rows) {
    done.push_back(rows);
    return true;
  };
  const auto one = whatif(settings, variants, go_on);
  REQUIRE_FALSE(done.empty());
  CHECK(done.front() == 0);
  CHECK(std::ranges::is_sorted(done));
  CHECK(done.back() <= 5);
  settings.workers = 2;
  const auto two = whatif(settings, variants, go_on);
  REQUIRE(one);
  REQUIRE(two);
  CHECK(text(output::whatif_document(*one)) == text(output::whatif_document(*two)));
  REQUIRE(one->size() == 5);
  const auto& rows = *one;
  CHECK(rows[1].step == rows[0].step);  // 1:1 is what the cluster has
  CHECK(rows[2].step >= rows[1].step);
  CHECK(rows[3].step > rows[2].step);
  CHECK_FALSE(rows[4].problem.empty());
  // A GPU costs 2 per hour; the cost of a million tokens follows from tokens per second and GPU.
  CHECK(rows[0].cost_per_million_tokens == Approx(2.0 / 3600 / rows[0].tokens_gpu * 1e6));
  WhatifSettings missing;
  missing.plan = "nothing-there.textproto";
  CHECK_FALSE(whatif(missing, variants, go_on));
}

TEST_CASE("study: layers are balanced over stages on unlike GPUs") {
  const std::vector<std::string> base = {
      "tp=8", "pp=4", "gpus=32", "global_batch=32", "attention=flash", "layer_split=balanced"};
  const auto with = [&](const std::string& change, const char* layers) {
    std::vector<std::string> settings = base;
    settings.back() = layers;
    if (!change.empty()) settings.push_back(change);
    input::PlanFile file = plan(settings);
    Sites sites;
    file.plan = balanced(answer::checked(file.plan, **sites.of(file.machine))).plan();
    return file;
  };
  const auto split = [&](const std::string& change) {
    return with(change, "layer_split=balanced").plan->pipeline.layers_of_parts;
  };
  const std::vector<int> alike = split("");
  // The node of the first stage has another, slower GPU, or a `condition` slows one of its GPUs.
  for (const char* change : {"other_gpu={first_node: 0 nodes: 1 cluster: \"dgx-a100\"}",
                             "condition={node: 0 gpu: 0 speed: 0.5}"}) {
    const std::vector<int> unlike = split(change);
    CAPTURE(change);
    REQUIRE(unlike.size() == 4);
    CHECK(unlike[0] < alike[0] - 1);
    // Stages 1 and 2 run at equal speed and get equal layers. The last stage also has the output
    // layer.
    CHECK(std::abs(unlike[1] - unlike[2]) <= 1);
    CHECK(unlike[3] <= unlike[1]);
    // The step is shorter than with even stages.
    const auto time = [&](const char* layers) {
      return step(with(change, layers), false, false, engine::Method::fast);
    };
    CHECK(time("layer_split=balanced") < time("layer_split=even"));
  }
}
