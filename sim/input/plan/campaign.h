// campaign.h — loads a campaign (workloads/campaigns), a table of what fails how often
// (workloads/failures), and a recorded trace of failures.
//
// Invariant: what comes back without diagnostics obeys the rules of campaign.proto and those that
// join fields: a kind has one rate, a straggler has a speed and a time to be found, a trace is in
// order of time. Times are seconds; a negative time was not given.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/result.h"
#include "sim/base/units.h"

namespace sim::input {

struct LifetimeFields {
  std::string law = "exponential";
  double mean = 0, shape = 1, early = 1, burn_in = 0;
  std::string where;  // in the file
};

enum class PartOf : std::uint8_t { gpu, node, nic, leaf, job };
enum class TakesWhat : std::uint8_t { nothing, its_node, its_leaf };

struct FailureFields {
  std::string name, where, sure;
  PartOf part = PartOf::gpu;
  TakesWhat takes = TakesWhat::nothing;
  LifetimeFields life;    // of one part; a mean of 0: it never fails
  LifetimeFields repair;  // mean 0: back at once
  double detection = -1;
  double speed = 1;  // below 1: a straggler
  LifetimeFields found;
  std::vector<std::string> sources;
};

struct FailureFile {
  std::string name, path;
  std::vector<std::string> sources;
  std::vector<FailureFields> kinds;
};

// A name of workloads/failures or a path.
Result<FailureFile> load_failures(const std::string& name, const std::string& beside = "");

struct TraceRow {
  double seconds = 0;
  int kind = 0;  // of the table
  int node = 0;
  double repair = -1;
};

// CSV with the columns seconds, kind, and where they are known node and repair_seconds. `nodes`: of
// the pool. Refused: a time before the one above, a kind that the table lacks, a node that is not.
Result<std::vector<TraceRow>> load_failure_trace(const std::string& path,
                                                 const std::vector<FailureFields>& kinds,
                                                 int nodes);

struct CheckpointFields {
  std::string name, where;
  double interval = -1;
  int survives = -1;  // any number of nodes
  bool asynchronous = false, overlapped = false, in_memory = false;
  Bandwidth storage{}, node{}, writer{}, read{};
  int copies = 1;
  double write = -1, background = -1, load = -1;
  double fixed = 0;
};

struct RestartFields {
  double detection = -1, scheduling = -1, start = -1, communicators = -1, compilation = -1;
  double search = -1;
  int slow_steps = 0;
  double slow_factor = 1;
};

struct PhaseFields {
  std::string name, where;
  std::vector<std::string> settings;
  double tokens = 0;
  std::int64_t steps = 0;
};

struct PoolFields {
  std::string where;
  double after = 0, notice = 0;
  int nodes = 0;
  std::vector<std::string> settings;
};

struct CampaignFile {
  std::string name, path, plan;
  std::vector<std::string> settings;
  double length = -1;
  std::string failures, trace;
  double mtbf = -1;
  int spares = 0;
  std::string spares_where;
  std::vector<CheckpointFields> checkpoints;
  RestartFields restart;
  std::string answer = "wait";
  std::string stragglers = "now";  // or "save": when one that was found is answered
  int missing_most = 8;
  std::vector<PhaseFields> phases;
  std::vector<PoolFields> pools;
};

// A name of workloads/campaigns or a path.
Result<CampaignFile> load_campaign(const std::string& name);

// Is it a campaign rather than a plan? A name of workloads/campaigns, or the path of a file that
// states a length, which no plan does.
bool is_campaign(const std::string& name);

// The names of workloads/campaigns and of workloads/failures, sorted.
std::vector<std::string> campaign_names();
std::vector<std::string> failure_names();

}  // namespace sim::input
