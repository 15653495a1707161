// watch.h — what `run` and `explain` share: reading a plan from the words of a command
// line, and the files about a replay that they write.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/command/command.h"
#include "sim/config/plan.h"
#include "sim/replay/observer.h"
#include "sim/report/answer.h"
#include "sim/report/memory_snapshot.h"
#include "sim/report/memory_timeline.h"
#include "sim/report/perfetto.h"
#include "sim/search/evaluate.h"
#include "sim/workload/build.h"

namespace sim::command {

// PLAN, KEY=VALUE ..., --cluster and --megatron-args; declares them.
void declare_plan(Options& options);
// Stops when the plan cannot be read; says on stderr what was understood of a launch script.
config::PlanFile load_plan(const Options& options, const Globals& globals);

// Of the machine that the plan runs on; stops with every rule that keeps it from running there.
search::Site& site_of(const config::PlanFile& file, search::Sites& sites);

// --trace, --memory-plot and --memory-snapshot; declares them.
void declare_watch(Options& options);

class Watch {
 public:
  // Files are opened here, so that what cannot be written is known before the replay.
  Watch(const Options& options, const workload::Job& job);

  // nullptr when nothing is asked for.
  replay::Observer* observer() { return all_.all.empty() ? nullptr : &all_; }
  void add(replay::Observer& observer) { all_.all.push_back(&observer); }
  // Writes the files; stops when one does not reach the disk.
  void finish(const report::Answer& answer);

  static bool wanted(const Options& options);

 private:
  std::string plot_, snapshot_;
  std::unique_ptr<report::PerfettoTrace> trace_writer_;
  std::unique_ptr<report::MemoryTimeline> timeline_;
  std::unique_ptr<report::MemorySnapshot> history_;
  replay::Observers all_;
};

}  // namespace sim::command
