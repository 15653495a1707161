// build.h — a campaign's file becomes a Spec: its plans are replayed, its failures counted out on
// the cluster, its checkpoints measured against the plan's own state.
//
// Invariant: every time in the Spec is one that was stated, or follows from a replay, from the
// network, or from the plan's state and a stated rate.
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
  std::string plan;                         // path; "" for settings only
  std::vector<std::string> settings;        // of the command line
  std::vector<input::FailureFields> kinds;  // empty: file.mtbf
  std::vector<input::TraceRow> trace;
  // Without a plan: the step is stated.
  double step = 0;
  int gpus = 0, gpus_per_node = 8;
  double price = 0;  // of a GPU and hour; 0: that of the cluster
};

// A shape as a person reads it.
struct ShapeNote {
  int missing = 0, phase = 0, pool = 0;
  std::string plan;
  double step = 0;
  double speed = 0;  // tokens per second, of those of the undisturbed job
  double change = 0;
};

struct Built {
  Spec spec;
  std::string name;
  int gpus = 0;  // at the beginning, spares included
  int gpus_per_node = 8;
  std::int64_t tokens_per_step = 0;  // 0: not known
  double price_per_gpu_hour = 0;
  int job_gpus = 0;         // without spares
  Costs costs;              // for the formulas
  bool memoryless = false;  // the renewal formula holds
  double least_interval = 0;
  double usual_interval = 0;
  Ways ways;
  std::vector<ShapeNote> shapes;
  std::vector<std::string> notes;
  int replays = 0;
};

// Where the steps of a setup are replayed; kept by the caller, so that variants share replays.
Steps steps_of(const Setup& setup);

// Everything that is wrong with it, or the campaign.
Result<Built> build(const Setup& setup, Steps& steps);

}  // namespace sim::campaign
