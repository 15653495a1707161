// chosen.cpp — plans with `layer_split=balanced` or `layer_choices=planned`: the choice is written
// into the plan, and no tested variation of it is faster.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "sim/answer/balance.h"
#include "sim/answer/evaluate.h"
#include "sim/answer/layer_choices.h"
#include "sim/input/plan/plan.h"
#include "tests/answer/reasons.h"

using namespace sim;
using namespace sim::answer;
using program::LayerChoice;
using program::Plan;

namespace {

struct Case {
  explicit Case(std::vector<std::string> more) {
    ::setenv("REHEARSE_ROOT", REHEARSE_SOURCE_DIR, 1);
    ::setenv("REHEARSE_NETWORK", REHEARSE_BINARY_DIR "/rehearse-network", 1);
    std::vector<std::string> settings = {"model=llama-2-7b", "cluster=dgx-a100", "gpus=8",
                                         "global_batch=8", "sequence=2048"};
    settings.insert(settings.end(), more.begin(), more.end());
    const auto read = input::load_plan("", settings);
    if (!read) FAIL(read.errors()[0].message);
    plan = read->plan;
    site = *sites.of(read->machine);
  }
  answer::Answer answer(const Plan& one) { return evaluate_once(checked(one, *site)); }
  CheckedPlan asked() { return checked(plan, *site); }

  Sites sites;
  Plan plan;
  Site* site = nullptr;
};

std::string letters(const std::vector<LayerChoice>& choices) {
  std::string text;
  for (const LayerChoice choice : choices)
    text += choice == LayerChoice::keep ? 'k' : choice == LayerChoice::swap ? 's' : 'r';
  return text;
}

}  // namespace

TEST_CASE("answer: of balanced layers none is better placed on the stage beside it") {
  // The output layer of a large vocabulary takes as long as several layers.
  Case one({"pp=4", "layer_split=balanced", "architecture.layers=16", "architecture.vocab=256000"});
  const Plan plan = balanced(one.asked()).plan();
  const std::vector<int>& layers = plan.pipeline.layers_of_parts;
  REQUIRE(layers.size() == 4);
  CHECK(layers[0] + layers[1] + layers[2] + layers[3] == 16);
  CHECK(layers[3] < layers[1] - 2);
  CHECK(layers[1] >= layers[0]);  // the embedding is little, but something
  const Duration best = one.answer(plan).run.step_time;
  for (std::size_t from = 0; from < 4; ++from)
    for (std::size_t to = 0; to < 4; ++to) {
      Plan moved = plan;
      std::vector<int>& other = moved.pipeline.layers_of_parts;
      if (from == to || other[from] == 0) continue;
      --other[from], ++other[to];
      if (!support::reasons(moved, *one.site).empty()) continue;
      CHECK(seconds(one.answer(moved).run.step_time) >= 0.995 * seconds(best));
    }
  // What is settled, or was never asked for, stays as it is.
  CHECK(balanced(checked(plan, *one.site))->pipeline.layers_of_parts == layers);
  Case even({"pp=4", "architecture.layers=16"});
  CHECK(balanced(even.asked())->pipeline.layers_of_parts.empty());
}

TEST_CASE("answer: a stage that runs out of memory gives layers away where others have room") {
  // Under 1F1B the first stage holds the activations of four microbatches, the last stage of one.
  const auto split = [](const char* memory) {
    Case one({"pp=4", "layer_split=balanced", "architecture.layers=16", "micro_batch=2",
              "global_batch=32", memory});
    const Plan plan = balanced(one.asked()).plan();
    return std::pair(plan.pipeline.layers_of_parts, one.answer(plan).run.fits());
  };
  const auto [roomy, fits] = split("gpu.memory=80GiB");
  REQUIRE(fits);
  const auto [tight, still] = split("gpu.memory=22GiB");
  CHECK(still);
  CHECK(tight[0] < roomy[0]);
  CHECK(tight[2] + tight[3] > roomy[2] + roomy[3]);
}

TEST_CASE("answer: layers keep all where it fits, and else the fastest of what does") {
  const std::vector<std::string> small = {"layer_choices=planned", "architecture.layers=8", "dp=8",
                                          "global_batch=16"};
  const auto with = [&](const std::string& more) {
    std::vector<std::string> settings = small;
    settings.push_back(more);
    return settings;
  };
  Case roomy(with("gpu.memory=80GiB"));
  CHECK(letters(chosen(roomy.asked())->policy.choices) == "kkkkkkkk");
  for (const char* memory : {"gpu.memory=18GiB", "gpu.memory=17GiB"}) {
    Case one(with(memory));
    const Plan plan = chosen(one.asked()).plan();
    INFO(memory << " " << letters(plan.policy.choices));
    const answer::Answer best = one.answer(plan);
    REQUIRE(best.run.fits());
    REQUIRE(plan.policy.choices.size() == 8);
    CHECK(plan.policy.choices.back() != LayerChoice::swap);
    // Some first layers one way, the others another.
    int held = 0;
    for (const LayerChoice first : {LayerChoice::keep, LayerChoice::swap, LayerChoice::recompute})
      for (const LayerChoice then : {LayerChoice::keep, LayerChoice::recompute})
        for (std::size_t n = 0; n < 8; ++n) {
          Plan other = one.plan;
          other.policy.choices.assign(8, then);
          for (std::size_t i = 0; i < n; ++i) other.policy.choices[i] = first;
          const answer::Answer answer = one.answer(other);
          if (!answer.run.fits()) continue;
          ++held;
          CHECK(seconds(answer.run.step_time) >= 0.999 * seconds(best.run.step_time));
        }
    CHECK(held > 0);
  }
  // Where nothing fits, the choice that exceeds the memory least is taken.
  Case none(with("gpu.memory=13GiB"));
  CHECK(letters(chosen(none.asked())->policy.choices) == "sssssssr");
  // One layer runs again: the last one of a chunk is never swapped.
  Case single({"layer_choices=planned", "architecture.layers=1", "dp=8", "micro_batch=64",
               "global_batch=512", "gpu.memory=24GiB"});
  CHECK(letters(chosen(single.asked())->policy.choices) == "r");
  // What is settled, or was never asked for, stays as it is.
  Case settled({"layer_choices=keep*7,recompute", "architecture.layers=8", "dp=8"});
  CHECK(letters(chosen(settled.asked())->policy.choices) == "kkkkkkkr");
  Case unasked({"architecture.layers=8", "dp=8"});
  CHECK(chosen(unasked.asked())->policy.choices.empty());
}
