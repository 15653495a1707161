// watch.h — what `run` and `explain` share: reading a plan from the words of a command
// line, and the files about a replay that they write.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/answer/answer.h"
#include "sim/answer/evaluate.h"
#include "sim/command/common/command.h"
#include "sim/engine/observer.h"
#include "sim/input/plan/plan.h"
#include "sim/output/memory/memory_snapshot.h"
#include "sim/output/memory/memory_timeline.h"
#include "sim/output/perfetto/perfetto.h"
#include "sim/program/build/build.h"

namespace sim::command {

// PLAN, KEY=VALUE ..., --cluster and --megatron-args; declares them.
void declare_plan(Options& options);
// Stops when the plan cannot be read; says on stderr what was understood of a launch script.
input::PlanFile load_plan(const Options& options, const Globals& globals);

// The plan on its cluster. Stops with all reasons why it cannot run there.
answer::CheckedPlan checked(const input::PlanFile& file, answer::Sites& sites);

// --trace, --memory-plot and --memory-snapshot; declares them.
void declare_watch(Options& options);

class Watch {
 public:
  // Files are opened here, so that what cannot be written is known before the replay.
  Watch(const Options& options, const program::Job& job);

  // nullptr when nothing is asked for.
  engine::Observer* observer() { return all_.all.empty() ? nullptr : &all_; }
  void add(engine::Observer& observer) { all_.all.push_back(&observer); }
  // Writes the files; stops when one does not reach the disk.
  void finish(const answer::Answer& answer);

  static bool wanted(const Options& options);

 private:
  std::string plot_, snapshot_;
  std::unique_ptr<output::PerfettoTrace> trace_writer_;
  std::unique_ptr<output::MemoryTimeline> timeline_;
  std::unique_ptr<output::MemorySnapshot> history_;
  engine::Observers all_;
};

}  // namespace sim::command
