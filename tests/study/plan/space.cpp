// space.cpp — the space of plans: their settings as text, and questions that are refused.
#include "sim/study/plan/space.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/base/random.h"
#include "sim/output/json.h"
#include "sim/study/plan/neighbours.h"
#include "tests/study/plan/sample.h"

using namespace sim;

namespace {

std::vector<std::string> split(const std::string& words) {
  std::vector<std::string> all;
  for (std::size_t at = 0; at < words.size();) {
    const std::size_t end = std::min(words.find(' ', at), words.size());
    all.push_back(words.substr(at, end - at));
    at = end + 1;
  }
  return all;
}

std::string refusal(const planner::Question& question) {
  const auto space = planner::Space::make(question);
  REQUIRE_FALSE(space);
  std::string all;
  for (const Diagnostic& problem : space.errors()) all += problem.where + ": " + problem.message;
  return all;
}

}  // namespace

TEST_CASE("planner: the words of a plan, read back, make the plan") {
  for (const auto& settings :
       {std::vector<std::string>{}, std::vector<std::string>{"data_parallel=fsdp2", "fp8=true"},
        std::vector<std::string>{"zero=0,1", "offload_layers=0,1",
                                 "overlap_grad_reduce=true,false"}}) {
    const planner::Space space =
        sample::space(sample::question("llama-3.1-70b", "dgx-h100", 512, 512, 8192, settings));
    Random random(3);
    for (int i = 0; i < 60; ++i) {
      const auto c =
          static_cast<std::size_t>(random.uniform() * static_cast<double>(space.cores().size()));
      const planner::PlanShape& core = space.cores()[c];
      const int variant = static_cast<int>(random.uniform() * space.variants(core));
      const std::string words = space.words(core, variant);
      INFO(words);
      CHECK(words.find(" recompute=") != words.npos);  // said, though none is the default
      const auto file = input::load_plan("", split(words));
      if (!file) INFO(file.errors().front().message);
      REQUIRE(file);
      CHECK(output::to_json(file->plan).dump() ==
            output::to_json(space.plan(core, variant)).dump());
    }
  }
}

TEST_CASE("planner: 61 layers have plans on 8 and 16 stages, whose words make them") {
  for (const int pp : {8, 16}) {
    const planner::Space space =
        sample::space(sample::question("deepseek-v3", "dgx-h200", 512, 512, 4096,
                                       {"zero=1", "tp=1", "cp=1", "pp=" + std::to_string(pp)}));
    REQUIRE_FALSE(space.cores().empty());
    for (std::size_t c = 0; c < space.cores().size(); c += 1 + space.cores().size() / 20) {
      const std::string words = space.words(space.cores()[c], 0);
      INFO(words);
      CHECK(space.cores()[c].split == planner::Split::padded);
      const auto file = input::load_plan("", split(words));
      REQUIRE(file);
      CHECK(output::to_json(file->plan).dump() ==
            output::to_json(space.plan(space.cores()[c], 0)).dump());
    }
  }
  // The chunks of all stages count: 2 stages of 3 chunks divide neither 32 nor 34 layers.
  const auto splits = [](const std::string& chunks) {
    const planner::Space space = sample::space(sample::question(
        "llama-3.1-8b", "dgx-h100", 16, 64, 8192,
        {"zero=1", "recompute=none", "pp=2", "schedule=interleaved-1f1b", chunks}));
    std::set<planner::Split> found;
    for (const planner::PlanShape& core : space.cores()) {
      found.insert(core.split);
      CHECK(input::load_plan("", split(space.words(core, 0))));
    }
    return found;
  };
  CHECK(splits("virtual_stages=3") == std::set{planner::Split::padded});
  CHECK(splits("virtual_stages=4") == std::set{planner::Split::even});
  // Where the number of stages divides the layers no plan has padded layers.
  const planner::Space even =
      sample::space(sample::question("llama-3.1-8b", "dgx-h100", 16, 64, 8192,
                                     {"zero=1", "recompute=none", "virtual_stages=1,2"}));
  for (const planner::PlanShape& core : even.cores()) CHECK(core.split != planner::Split::padded);
}

TEST_CASE("planner: experts are spread over powers of two that divide them and the GPUs") {
  const auto degrees = [](const char* model, int gpus) {
    std::set<int> all;
    const planner::Space space =
        sample::space(sample::question(model, "dgx-h100", gpus, 4 * gpus, 4096, {"pp=1"}));
    for (const planner::Base& base : space.bases()) {
      CHECK(base.gpus == gpus);
      all.insert(base.file.plan.mesh.ep);
    }
    return all;
  };
  CHECK(degrees("llama-3.1-8b", 1) == std::set{1});
  CHECK(degrees("mixtral-8x7b", 24) == std::set{1, 2, 4, 8});
  CHECK(degrees("mixtral-8x7b", 4) == std::set{1, 2, 4});
}

TEST_CASE("planner: no plan is there twice, however many values a field is given") {
  const auto counted = [](const std::string& field, int from, int to) {
    std::string all = field + "=" + std::to_string(from);
    for (int n = from + 1; n <= to; ++n) all += "," + std::to_string(n);
    return all;
  };
  std::vector<std::string> settings = {"zero=3", "tp=8", "cp=1", "pp=1", "recompute=full"};
  settings.push_back(counted("recompute_layers", 1, 300));
  settings.emplace_back("offload_layers=0,65536");
  const planner::Space space =
      sample::space(sample::question("llama-3.1-405b", "dgx-h100", 512, 512, 4096, settings));
  std::set<std::string> words;
  for (const planner::PlanShape& core : space.cores())
    for (int v = 0; v < space.variants(core); ++v) CHECK(words.insert(space.words(core, v)).second);
  CHECK(words.size() == static_cast<std::size_t>(space.plans() - space.impossible()));
}

TEST_CASE("planner: a mixture without a dense layer has no MLP to recompute") {
  const auto selective = [](const char* model, std::vector<std::string> settings) {
    settings.emplace_back("pp=1");
    const planner::Space space =
        sample::space(sample::question(model, "dgx-h200", 512, 512, 4096, settings));
    return std::ranges::count_if(space.policies(), [](const planner::LayerChoice& choice) {
      return choice.policy.recompute == program::Recompute::selective;
    });
  };
  CHECK(selective("qwen3-30b-a3b", {}) == 0);
  CHECK(selective("mixtral-8x7b", {"recompute=selective"}) == 1);  // core_attn
  CHECK(selective("mixtral-8x7b", {"recompute_modules=moe,moe_act"}) == 2);
  const std::string none = refusal(sample::question("mixtral-8x7b", "dgx-h200", 512, 512, 4096,
                                                    {"pp=1", "recompute_modules=mlp,moe"}));
  CHECK(none.find("mlp cannot be recomputed: all layers have experts") != std::string::npos);
  CHECK(selective("deepseek-v3", {}) == 1);  // its first layers are dense
  CHECK(selective("llama-3.1-8b", {}) == 1);
}

TEST_CASE("planner: every problem of a question is said, with what to write") {
  const std::string both = refusal(sample::question("llama-3.1-8b", "dgx-h100", 16, 64, 8192,
                                                    {"tpp=4", "schedule=1f1bb", "micro_batch=x"}));
  CHECK(both.find("tpp") != std::string::npos);
  CHECK(both.find("did you mean '1f1b'") != std::string::npos);
  CHECK(both.find("whole numbers") != std::string::npos);
  const std::string twice = refusal(
      sample::question("llama-3.1-8b", "dgx-h100", 16, 64, 8192, {"mbs=1", "micro_batch=2"}));
  CHECK(twice.find("says it too") != std::string::npos);
}

TEST_CASE("planner: a space of a million million plans is refused with its size") {
  std::string many = "recompute_layers=1";
  for (int n = 2; n <= 4000; ++n) many += "," + std::to_string(n);
  std::string sizes = "micro_batch=1";
  for (int n = 2; n <= 2000; ++n) sizes += "," + std::to_string(n);
  const std::string text =
      refusal(sample::question("llama-3.1-70b", "dgx-h100", 512, 512, 8192, {many, sizes}));
  CHECK(text.find("e+1") != std::string::npos);
  CHECK(text.find("recompute_layers (4000 values)") != std::string::npos);
  // The refusal names every setting with several values and their number, the largest first, and
  // nothing else.
  const std::string named = refusal(
      sample::question("llama-3.1-70b", "dgx-h100", 512, 512, 8192,
                       {many, sizes, "tp=1,2,4", "cp=1", "pp=1,2,4,8,16", "virtual_stages=1,2,4,5",
                        "offload_layers=0,1", "zero=0,1",
                        "allocator_options=expandable_segments:False,expandable_segments:True"}));
  const std::size_t behind = named.find("are searched: fix some of ");
  INFO(named);
  REQUIRE(behind != std::string::npos);
  CHECK(named.substr(behind) ==
        "are searched: fix some of recompute_layers (4000 values), micro_batch (2000 values), "
        "pp (5 values), virtual_stages (4 values), tp (3 values), rank_order (2 values), "
        "offload_layers (2 values), gpus, and fields that are not searched by themselves (2 "
        "values), allocator_options (2 values)");
  std::vector<std::string> others;
  for (const char* name :
       {"attention_mask", "check_for_nan", "avoid_record_streams", "fp8", "rope_fusion",
        "swiglu_fusion", "tf32", "fp32_gradients", "overlap_grad_reduce", "gradient_clipping",
        "kept_gradient_handles", "logs_optimizer_state", "tp_comm_overlap"})
    others.push_back(std::string(name) + "=true,false");
  CHECK(refusal(sample::question("llama-3.1-70b", "dgx-h100", 512, 512, 8192, others))
            .find("combinations") != std::string::npos);
}

TEST_CASE("planner: of settings that contradict each other two are named") {
  const planner::Space space = sample::space(sample::question(
      "llama-3.1-8b", "dgx-h100", 16, 64, 8192, {"recompute=none", "tp=8", "pp=4", "zero=1"}));
  CHECK(space.cores().empty());
  const planner::Contradiction two = space.contradiction();
  CHECK(two.settings == std::vector<std::string>{"tp=8", "pp=4"});
  CHECK(two.reasons.front().find("16 GPUs") != std::string::npos);
  const auto blamed = [](std::vector<std::string> settings) {
    const planner::Space space =
        sample::space(sample::question("llama-3.1-8b", "dgx-h100", 16, 64, 8192, settings));
    REQUIRE(space.cores().empty());
    return space.contradiction();
  };
  // Any two of these degrees are possible together: all three are named, and no other setting.
  CHECK(blamed({"zero=1", "tp=4", "cp=2", "recompute=none", "dp=4"}).settings ==
        std::vector<std::string>{"tp=4", "cp=2", "dp=4"});
  // The reason is the one for the named settings.
  const planner::Contradiction chunks =
      blamed({"recompute=none", "virtual_stages=3", "schedule=zb-v", "zero=1"});
  CHECK(chunks.settings == std::vector<std::string>{"virtual_stages=3", "schedule=zb-v"});
  REQUIRE(chunks.reasons.size() == 1);
  CHECK(chunks.reasons.front().find("zb-v") != std::string::npos);
  const planner::Contradiction heads = blamed({"cp=2", "tp=16"});
  CHECK(heads.settings == std::vector<std::string>{"tp=16"});
  CHECK(heads.reasons.front().find("GPUs") == std::string::npos);
}

TEST_CASE("planner: settings that another setting leaves without effect are refused") {
  const std::string both = refusal(sample::question(
      "llama-3.1-8b", "dgx-h100", 16, 64, 8192,
      {"recompute=none", "recompute_layers=2", "recompute_method=block", "recompute_modules=mlp"}));
  for (const char* field : {"recompute_layers", "recompute_method", "recompute_modules"})
    CHECK(both.find(std::string("command line, ") + field) != std::string::npos);
  CHECK(both.find("recompute=full") != std::string::npos);
  CHECK(both.find("recompute=selective") != std::string::npos);
}

TEST_CASE("planner: stages keep gathered parameters unless the question says otherwise") {
  // With a pipeline, users of `fully_shard` keep whole parameters between microbatches.
  const auto kept = [](std::vector<std::string> said) {
    for (const char* one : {"data_parallel=fsdp2", "tp=2", "cp=1", "pp=1,2", "micro_batch=1",
                            "recompute=none", "schedule=1f1b"})
      said.emplace_back(one);
    const planner::Space space =
        sample::space(sample::question("gpt3-1.3b", "dgx-a100", 16, 32, 2048, said));
    std::map<int, std::set<bool>> ways;  // by stages
    for (const planner::PlanShape& core : space.cores())
      ways[core.pp].insert(space.plan(core, 0).sharding.fsdp.reshard_after_forward);
    return ways;
  };
  using Ways = std::map<int, std::set<bool>>;
  CHECK(kept({}) == Ways{{1, {true}}, {2, {false}}});
  CHECK(kept({"fsdp.reshard_after_forward=true"}) == Ways{{1, {true}}, {2, {true}}});
  CHECK(kept({"fsdp.reshard_after_forward=false"}) == Ways{{1, {false}}, {2, {false}}});
}

TEST_CASE("planner: a neighbour differs from the best plan in one decision") {
  const planner::Space space = sample::space(sample::question(
      "gpt3-1.3b", "dgx-a100", 16, 32, 2048,
      {"zero=1", "tp=1,2,4", "cp=1", "recompute=none,full", "pp=2", "schedule=1f1b",
       "micro_batch=1,2", "rank_order=tp-cp-ep-dp-pp,tp-cp-ep-pp-dp", "virtual_stages=1",
       "allocator_options=expandable_segments:True,expandable_segments:False"}));
  answer::Sites sites;
  planner::Wanted how;
  how.best = 1;
  const planner::Outcome found = planner::find_best(space, sites, how, sample::always);
  REQUIRE(found.best.size() == 1);
  std::set<std::string> changed;
  for (const planner::Neighbour& near :
       planner::neighbours(space, sites, how, found.best[0], [] { return true; })) {
    INFO(near.change);
    const std::string field = near.change.substr(0, near.change.find('='));
    CHECK(changed.count(near.change) == 0);
    changed.insert(near.change);
    // Changed degrees change the replicas. Recomputation also sets its method and its layers.
    const bool alone = near.change.find(' ') == std::string::npos;
    CHECK((alone || field == "tp" || field == "recompute"));
    CHECK_FALSE(near.why.empty());
    if (near.replayed.needs == 0) CHECK(near.replayed.step_ps >= found.best[0].step_ps);
    changed.insert(field);
  }
  for (const char* field : {"tp", "recompute", "micro_batch", "rank_order", "allocator_options"}) {
    INFO(field);
    CHECK(changed.count(field) == 1);
  }
}

TEST_CASE("planner: a neighbour of one replica has no order of ranks to choose") {
  const planner::Space space = sample::space(sample::question(
      "gpt3-1.3b", "dgx-a100", 16, 32, 2048,
      {"zero=1", "tp=4,8", "cp=1", "pp=2", "recompute=none", "schedule=1f1b", "micro_batch=1",
       "virtual_stages=1", "rank_order=tp-cp-ep-dp-pp,tp-cp-ep-pp-dp",
       "allocator_options=expandable_segments:True"}));
  answer::Sites sites;
  planner::Wanted how;
  how.best = 1;
  const planner::Outcome found = planner::find_best(space, sites, how, sample::always);
  REQUIRE(found.best.size() == 1);
  // The best plan has the second order of ranks, with the stages inside nodes. With tp=8 and dp=1
  // the orders are the same plan, so only the first one is a neighbour.
  REQUIRE(space.cores()[found.best[0].core].tp == 4);
  REQUIRE(found.best[0].variant == 1);
  std::set<std::string> changes;
  for (const planner::Neighbour& one :
       planner::neighbours(space, sites, how, found.best[0], [] { return true; }))
    changes.insert(one.change);
  CHECK(changes ==
        std::set<std::string>{"rank_order=tp-cp-ep-dp-pp", "tp=8 rank_order=tp-cp-ep-dp-pp"});
}

TEST_CASE("planner: of numbers of layers to recompute the nearest is a neighbour") {
  const planner::Space space = sample::space(
      sample::question("gpt3-1.3b", "dgx-a100", 16, 32, 2048,
                       {"zero=1", "tp=1", "cp=1", "pp=1", "micro_batch=1", "recompute=full",
                        "recompute_method=block", "allocator_options=expandable_segments:True"}));
  answer::Sites sites;
  planner::Wanted how;
  how.best = 1;
  const planner::Outcome found = planner::find_best(space, sites, how, sample::always);
  REQUIRE(found.best.size() == 1);
  // The candidates are eighths of 24 layers. All fit, so 3 layers are the fastest, and 6 are their
  // neighbour.
  std::set<std::string> changes;
  for (const planner::Neighbour& one :
       planner::neighbours(space, sites, how, found.best[0], [] { return true; }))
    changes.insert(one.change);
  CHECK(changes == std::set<std::string>{"recompute_layers=6"});
}

TEST_CASE("planner: what the question says elsewhere, or a search cannot vary, is refused") {
  const std::pair<const char*, const char*> all[] = {
      {"gpus=8", "write --gpus N"},
      {"nodes=2", "write --gpus N"},
      {"model=llama-2-7b", "write rehearse plan MODEL CLUSTER"},
      {"cluster=dgx-a100", "write rehearse plan MODEL CLUSTER"},
      {"layers_per_virtual_stage=2", "write virtual_stages"},
      {"layer_choices=planned", "write recompute and offload_layers"},
      {"slices=balanced", "run what is found with slices=balanced"}};
  for (const auto& [setting, instead] : all) {
    INFO(setting);
    CHECK(refusal(sample::question("llama-3.1-8b", "dgx-h100", 16, 64, 8192, {setting}))
              .find(std::string("command line, ") + setting + ": " + instead) == 0);
  }
}

TEST_CASE("planner: fp8 as a precision is bf16 with products in fp8") {
  const auto plans = [](const std::string& setting) {
    const planner::Space space = sample::space(
        sample::question("llama-3.1-8b", "dgx-h100", 8, 8, 4096,
                         {"zero=1", "tp=1", "cp=1", "pp=1", "micro_batch=1", setting}));
    std::set<std::string> words;
    for (const planner::PlanShape& core : space.cores()) words.insert(space.words(core, 0));
    return words;
  };
  const std::set<std::string> both = plans("precision=bf16,fp8");
  CHECK(both.size() == plans("precision=bf16").size() + plans("fp8=true").size());
  for (const std::string& words : plans("fp8=true")) CHECK(both.contains(words));
}
