// build.h — turns a campaign's file into a Spec: it replays the plans, counts parts that can fail,
// and derives checkpoint times from the plan's state. The command `campaign` calls it, once per
// variant.
//
// Invariant: every time in the Spec is stated, or follows from a replay, from the network, or from
// the plan's state and a stated rate.
#pragma once

#include <string>
#include <vector>

#include "sim/input/plan/campaign.h"
#include "sim/study/campaign/formula.h"
#include "sim/study/campaign/spec.h"
#include "sim/study/campaign/state.h"
#include "sim/study/campaign/steps.h"

namespace sim::campaign {

struct Setup {
  input::CampaignFile file;
  std::string plan;                         // path; "": settings only
  std::vector<std::string> settings;        // from the command line
  std::vector<input::FailureFields> kinds;  // empty: use file.mtbf
  // Mean time between failures of one GPU, in place of file.mtbf; 0: not given.
  double gpu_mtbf = 0;
  // Without a table: a failure takes a node for this mean time; 0: it takes none.
  double repair = 0;
  bool load_in_restart = false;  // the stated restart contains the load of the checkpoint
  std::vector<input::TraceRow> trace;
  // Without a plan the user states the step.
  double step = 0;
  int gpus = 0, gpus_per_node = 8;
  double price = 0;  // per GPU and hour; 0: the cluster's price

  // Whether failures take nodes, so that spares and other plans count.
  bool takes_nodes() const { return !kinds.empty() || repair > 0; }
};

// A time that is not stated, and the option that states it.
struct Assumption {
  std::string text;  // "detection 0 s"
  std::string option;
};

// A shape, described for the report.
struct ShapeNote {
  int missing = 0, phase = 0, pool = 0;
  std::string plan;
  double step = 0;
  double speed = 0;  // tokens per second relative to the undisturbed job
  double change = 0;
};

struct Built {
  Spec spec;
  std::string name;
  int gpus = 0;  // at the beginning, with spares
  int gpus_per_node = 8;
  std::int64_t tokens_per_step = 0;  // 0: unknown
  double price_per_gpu_hour = 0;
  int job_gpus = 0;         // without spares
  Costs costs;              // for the formulas
  double gpu_mtbf = 0;      // of one GPU, if the user stated it; costs.mtbf is that of the job
  bool table = false;       // failures come from a table
  bool memoryless = false;  // the renewal formula applies
  double least_interval = 0;
  double usual_interval = 0;
  Ways ways;
  std::vector<ShapeNote> shapes;
  std::vector<Assumption> assumed;
  // Kinds of failures of the job as a whole, and their share of the expected failures.
  std::vector<std::string> job_kinds;
  double job_share = 0;
  bool load_in_restart = false;
  int replays = 0;
};

// The times of a setup that are not stated. `with_plan`: its step comes from a plan.
std::vector<Assumption> assumptions(const Setup& setup, bool with_plan);

// Creates the cache of replays of a setup. Variants share it, so the caller keeps it.
Steps steps_of(const Setup& setup);

// Builds the campaign, or returns all problems of the setup.
Result<Built> build(const Setup& setup, Steps& steps);

}  // namespace sim::campaign
