// sharding_test.cpp — when parameters are gathered and gradients reduced, for every schedule.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "sample.h"
#include "sim/schedule/schedule.h"

using namespace sample;

namespace {

// A small plan on two stages that a schedule accepts.
Plan two_stages(const schedule::Schedule& schedule) {
  Plan p = llama_8b();
  p.architecture.layers = 8;
  p.mesh.tp = 1;
  p.mesh.pp = 2;
  p.mesh.dp = 2;
  p.batch.global_batch = 2 * 6;
  p.pipeline.schedule = schedule.name;
  p.pipeline.virtual_stages = schedule.problem({p.mesh.pp, 6, 1}).empty() ? 1 : 2;
  return p;
}

bool reduces(const Program& program, const Pass& pass) {
  for (const Call& call : program.templates[pass.pattern].calls)
    for (const Instruction& i : program.blocks[call.block].code)
      if (program.labels[i.label] == "gradient reduction") return true;
  return false;
}

}  // namespace

TEST_CASE("workload: gradients are reduced in the last pass of a chunk that adds to them") {
  for (const schedule::Schedule& schedule : schedule::catalog()) {
    CAPTURE(schedule.name);
    const Plan plan = two_stages(schedule);
    if (!problems(plan).empty()) continue;  // the schedule has a picture alone
    const bool splits = schedule.splits == schedule::Splits::all;
    const PassKind adds = splits ? PassKind::weight : PassKind::backward;
    for (const Program& program : job(plan).classes) {
      std::vector<const Pass*> last(static_cast<std::size_t>(plan.pipeline.virtual_stages),
                                    nullptr);
      for (const Pass& pass : program.step) {
        const Template& t = program.templates[pass.pattern];
        if (t.kind == adds) last[static_cast<std::size_t>(t.chunk)] = &pass;
      }
      for (const Pass& pass : program.step) {
        const Template& t = program.templates[pass.pattern];
        if (t.kind != adds && t.kind != PassKind::backward) continue;
        CHECK((reduces(program, pass) && t.kind == adds) ==
              (&pass == last[static_cast<std::size_t>(t.chunk)]));
      }
    }
  }
}
