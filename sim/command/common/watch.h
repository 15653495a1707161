// watch.h — shared by `run` and `explain`: reads a plan from the words of a command line, and
// writes files about its replay.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/answer/answer.h"
#include "sim/answer/evaluate.h"
#include "sim/base/whole_file.h"
#include "sim/command/common/command.h"
#include "sim/engine/observer.h"
#include "sim/input/plan/plan.h"
#include "sim/output/memory/memory_snapshot.h"
#include "sim/output/memory/memory_timeline.h"
#include "sim/output/perfetto/trace_file.h"
#include "sim/program/build/build.h"

namespace sim::command {

// Declares PLAN, KEY=VALUE ..., --cluster and --megatron-args.
void declare_plan(Options& options);
// Loads the plan; stops if it cannot be read. For a launch script it prints the recognised settings
// to stderr.
// `first`: the word of the command line that may be a plan file.
input::PlanFile load_plan(const Options& options, const Globals& globals, std::size_t first = 0);

// Refuses the name of a plan beside --megatron-args; "" is none.
void refuse_beside_launch(const std::string& name);

// The plan on its cluster. Stops with all reasons why it cannot run there.
answer::CheckedPlan checked(const input::PlanFile& file, answer::Sites& sites);

// Declares --trace, --memory-plot and --memory-snapshot.
void declare_watch(Options& options);

class Watch {
 public:
  // Opens the files before the replay, so errors appear early.
  Watch(const Options& options, const program::Job& job);

  // nullptr if no file is requested.
  engine::Observer* observer() { return all_.all.empty() ? nullptr : &all_; }
  void add(engine::Observer& observer) { all_.all.push_back(&observer); }
  // Writes the files; stops if one cannot be written.
  void finish(const answer::Answer& answer);

  static bool wanted(const Options& options);

 private:
  WholeFile plot_, snapshot_;
  std::unique_ptr<output::TraceFile> trace_;
  std::unique_ptr<output::MemoryTimeline> timeline_;
  std::unique_ptr<output::MemorySnapshot> history_;
  engine::Observers all_;
};

}  // namespace sim::command
