// limits.cpp — a search for a framework has only plans that the framework can start.
#include "sim/study/plan/launch/limits.h"

#include <algorithm>
#include <map>
#include <set>

#include "sim/base/random.h"
#include "sim/study/plan/launch/launch_writer.h"
#include "tests/study/plan/sample.h"

using namespace sim;

namespace {

planner::Space space_of(std::vector<std::string> settings) {
  settings.insert(settings.end(), {"micro_batch=1", "recompute=none,full"});
  return sample::space(sample::question("llama-3.1-8b", "dgx-h100", 16, 64, 8192, settings));
}

std::set<std::string> schedules_of(const planner::Space& space) {
  std::set<std::string> names;
  for (const planner::PlanShape& core : space.cores())
    names.emplace(schedule::catalog()[core.schedule].name);
  return names;
}

bool shards(const planner::Space& space, const planner::PlanShape& core) {
  return space.bases()[core.base].file.plan.shards_parameters();
}

}  // namespace

TEST_CASE("planner: a search for a framework has its schedules and its sharding") {
  const planner::Space any = space_of({});
  CHECK(schedules_of(any).contains("v-half"));
  using Names = std::set<std::string>;
  const planner::Space lm = space_of({"framework=megatron-lm"});
  CHECK(schedules_of(lm) == Names{"1f1b", "interleaved-1f1b"});
  CHECK(std::ranges::any_of(lm.cores(), [&](const auto& core) { return shards(lm, core); }));
  for (const planner::PlanShape& core : lm.cores()) CHECK((!shards(lm, core) || core.pp == 1));
  for (const char* framework : {"framework=nemo", "framework=megatron-bridge"})
    CHECK(schedules_of(space_of({framework})) == Names{"1f1b", "interleaved-1f1b"});
  const planner::Space nemo_1 = space_of({"framework=nemo-1"});
  for (const planner::PlanShape& core : nemo_1.cores()) CHECK_FALSE(shards(nemo_1, core));
  const planner::Space nanotron = space_of({"framework=nanotron"});
  CHECK(schedules_of(nanotron) == Names{"1f1b", "gpipe"});
  for (const planner::PlanShape& core : nanotron.cores()) CHECK(core.cp == 1);
  const planner::Space titan = space_of({"framework=torchtitan"});
  for (const std::string& name : schedules_of(titan)) {
    INFO(name);
    CHECK_FALSE(schedule::find(name)->torch.empty());
  }
  for (const planner::PlanShape& core : titan.cores()) CHECK(shards(titan, core));
  const planner::Space nemo_2 = space_of({"framework=nemo"});
  for (const planner::PlanShape& core : nemo_2.cores()) CHECK_FALSE(shards(nemo_2, core));
}

TEST_CASE("planner: what the user states is searched beyond the limits of the framework") {
  CHECK(schedules_of(space_of({"framework=megatron-lm", "schedule=v-half", "pp=2"})) ==
        std::set<std::string>{"v-half"});
  const planner::Space stated = space_of({"framework=megatron-lm", "zero=3", "pp=2"});
  CHECK(std::ranges::any_of(stated.cores(), [](const auto& core) { return core.pp == 2; }));
  planner::Question fork =
      sample::question("llama-3.1-8b", "dgx-h100", 16, 64, 8192, {"framework=megatron-lm"});
  fork.beyond = {"schedule"};
  CHECK(schedules_of(sample::space(fork)).contains("zb-h1"));
  program::Plan plan = stated.plan(stated.cores().front(), 0);
  plan.mesh.pp = 2;
  plan.pipeline.schedule = "zb-h1";
  const std::vector<std::string> beyond = planner::fields_beyond("megatron-lm", plan);
  CHECK(std::ranges::find(beyond, "schedule") != beyond.end());
  CHECK(planner::limits_of("no such framework").empty());
  CHECK(planner::limits_of("colossal-ai").empty());
}

TEST_CASE("planner: plans of a framework's search are written for it") {
  const std::map<std::string, std::string> programs = {
      {"megatron-lm", "Megatron-LM"}, {"megatron-core-0.14", "Megatron-LM"},
      {"nemo-1", "NeMo 1"},           {"nemo", "NeMo 2"},
      {"torchtitan", "torchtitan"},   {"nanotron", "nanotron"}};
  Random random(3);
  for (const auto& [framework, program] : programs) {
    const planner::Space space = space_of({"framework=" + framework});
    for (int i = 0; i < 25; ++i) {
      const planner::PlanShape& core = space.cores()[static_cast<std::size_t>(
          random.uniform() * static_cast<double>(space.cores().size()))];
      for (const planner::LaunchText& one :
           planner::launches(space.plan(core, 0), "llama-3.1-8b", "dgx-h100",
                             space.bases()[core.base].file.machine)) {
        if (one.program != program) continue;
        INFO(space.words(core, 0) << "\n" << one.left);
        CHECK_FALSE(one.text.empty());
        for (const char* field : {"schedule", "virtual_stages", "layer_split", "recompute", "zero"})
          CHECK(one.left.find(field) == std::string::npos);
      }
    }
  }
}
