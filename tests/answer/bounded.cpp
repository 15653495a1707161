// bounded.cpp — verdicts by the sum of the tensors against exact replays.
#include "sim/answer/bounded.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>

#include "sim/engine/rank/tensor_peak.h"
#include "sim/input/plan/plan.h"

using namespace sim;

namespace {

input::PlanFile load(std::vector<std::string> settings) {
  ::setenv("REHEARSE_ROOT", REHEARSE_SOURCE_DIR, 1);
  ::setenv("REHEARSE_NETWORK", REHEARSE_BINARY_DIR "/rehearse-network", 1);
  settings.insert(settings.end(), {"cluster=dgx-a100", "gpus=16", "sequence=2048"});
  return *input::load_plan("", settings);
}

// Plans with different fragmentation: schedules, recomputation, sharding, mixtures.
const std::vector<std::vector<std::string>> drawn = {
    {"model=llama-2-7b", "tp=2", "pp=2", "global_batch=64"},
    {"model=llama-2-7b", "tp=4", "pp=4", "global_batch=64", "schedule=interleaved-1f1b",
     "virtual_stages=2"},
    {"model=llama-2-7b", "tp=2", "pp=4", "global_batch=32", "schedule=gpipe"},
    {"model=llama-2-7b", "tp=2", "pp=4", "global_batch=32", "schedule=zb-h1"},
    {"model=llama-2-7b", "tp=1", "pp=4", "global_batch=64", "recompute=full"},
    {"model=llama-2-7b", "tp=4", "global_batch=64", "micro_batch=4", "zero=1"},
    {"model=llama-2-7b", "data_parallel=fsdp2", "global_batch=32"},
    {"model=gpt3-22b", "tp=8", "pp=2", "global_batch=32", "micro_batch=2"},
    {"model=gpt3-22b", "tp=4", "pp=4", "global_batch=32", "recompute=selective"},
    {"model=mixtral-8x7b", "tp=2", "ep=4", "pp=2", "global_batch=32", "zero=1"},
};

// Gives the GPU the memory of which the fullest class reserves `percent`.
void set_memory(answer::Site& site, const answer::CheckedPlan& plan, std::int64_t percent) {
  const Bytes plenty{std::int64_t{1} << 46};
  site.machine.gpu.memory = plenty;
  std::int64_t most = 0;
  for (const engine::ClassReport& own : answer::evaluate_once(plan, {}).run.classes)
    most = std::max(most, own.peak_reserved.n * 100 / percent + (plenty - own.capacity).n);
  site.machine.gpu.memory = Bytes{most};
}

}  // namespace

TEST_CASE("answer: reserved memory is below 1.7 times the sum of the tensors") {
  for (const std::vector<std::string>& settings : drawn) {
    const input::PlanFile file = load(settings);
    answer::Sites sites;
    answer::Site& site = **sites.of(file.machine);
    const answer::CheckedPlan plan = answer::checked(file.plan, site);
    const engine::RunReport exact = answer::evaluate_unlimited(plan).run;
    for (std::size_t c = 0; c < exact.classes.size(); ++c) {
      const std::int64_t tensors = engine::peak_of_tensors(plan.job().classes[c]);
      INFO(settings.front() << " class " << c << ": tensors " << tensors << ", reserved "
                            << exact.classes[c].peak_reserved.n);
      CHECK(tensors <= exact.classes[c].peak_allocated.n);
      CHECK(exact.classes[c].peak_reserved.n <= answer::reserved_by_tensors(tensors));
    }
  }
}

TEST_CASE("answer: bounded verdicts are those of exact replays at any capacity") {
  int by_tensors = 0, ended = 0;
  for (const std::vector<std::string>& settings : drawn) {
    const input::PlanFile file = load(settings);
    for (const std::int64_t percent : {30, 70, 97, 104, 180}) {
      INFO(settings.front() << " " << settings.back() << " fills " << percent << " %");
      answer::Sites sites;
      answer::Site& site = **sites.of(file.machine);
      const answer::CheckedPlan plan = answer::checked(file.plan, site);
      set_memory(site, plan, percent);
      const answer::Answer exact = answer::evaluate(plan), bounded = answer::evaluate_bounded(plan);
      REQUIRE(bounded.run.fits() == exact.run.fits());
      CHECK(bounded.verdict.tight == exact.verdict.tight);
      by_tensors += bounded.run.bounded;
      ended += bounded.run.ended_early;
      const engine::RunReport unlimited = answer::evaluate_unlimited(plan).run;
      for (std::size_t c = 0; c < exact.run.classes.size(); ++c) {
        const engine::ClassReport &a = exact.run.classes[c], &b = bounded.run.classes[c];
        CHECK(b.needed <= (exact.run.fits() ? a : unlimited.classes[c]).needed);
        if (!exact.run.fits()) continue;
        CHECK(b.peak_reserved <= a.peak_reserved);
        CHECK(a.peak_reserved <= b.reserved_most);
      }
      if (exact.run.fits()) CHECK(bounded.run.step_time <= exact.run.step_time);
    }
  }
  CHECK(by_tensors >= 10);
  CHECK(ended >= 10);
}
