// campaign.h — loads a campaign, a table of failure rates, and a recorded trace of failures.
//
// `rehearse campaign` (study/campaign) loads these files before it simulates weeks of training.
// Names are those of workloads/campaigns and workloads/failures. Schema: campaign.proto.
//
// What is returned without diagnostics satisfies the rules of campaign.proto and three rules
// between fields:
//  (1) A failure kind has exactly one rate.
//  (2) A straggler has a speed and a detection time.
//  (3) A trace is in order of time. Times are seconds. A negative time means: not given.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/result.h"
#include "sim/base/units.h"

namespace sim::input {

// Distribution of a time: law (exponential, ...), mean in seconds, shape, and a burn-in period with
// another rate.
struct LifetimeFields {
  std::string law = "exponential";
  double mean = 0, shape = 1, early = 1, burn_in = 0;
  std::string where;  // place in the file
};

enum class PartOf : std::uint8_t { gpu, node, nic, leaf, job };
enum class TakesWhat : std::uint8_t { nothing, its_node, its_leaf };

struct FailureFields {
  std::string name, where, sure;
  PartOf part = PartOf::gpu;
  TakesWhat takes = TakesWhat::nothing;
  LifetimeFields life;    // time to failure of one part; mean 0: never fails
  LifetimeFields repair;  // mean 0: back immediately
  double detection = -1;
  double speed = 1;  // below 1: straggler
  LifetimeFields found;
  std::vector<std::string> sources;
};

struct FailureFile {
  std::string name, path;
  std::vector<std::string> sources;
  std::vector<FailureFields> kinds;
};

// Loads a failure table by its name in workloads/failures or by path.
Result<FailureFile> load_failures(const std::string& name, const std::string& beside = "");

struct TraceRow {
  double seconds = 0;
  int kind = 0;  // index into the failure table
  int node = 0;
  double repair = -1;
};

// Loads a CSV trace with the columns seconds and kind, and optionally node and repair_seconds.
// `nodes`: number of nodes in the pool. Errors: a time before the previous one, a kind that is not
// in the table, a node outside the pool.
Result<std::vector<TraceRow>> load_failure_trace(const std::string& path,
                                                 const std::vector<FailureFields>& kinds,
                                                 int nodes);

struct CheckpointFields {
  std::string name, where;
  double interval = -1;
  int survives = -1;  // number of failed nodes; negative: any
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
  std::string stragglers = "now";  // or "save": found ones leave at the next save
  int missing_most = 8;
  std::vector<PhaseFields> phases;
  std::vector<PoolFields> pools;
};

// Loads a campaign by its name in workloads/campaigns or by path.
Result<CampaignFile> load_campaign(const std::string& name);

// True for a campaign: a name of workloads/campaigns, or the path of a file with a `length` field.
// No plan has that field.
bool is_campaign(const std::string& name);

// All names in workloads/campaigns and in workloads/failures, sorted.
std::vector<std::string> campaign_names();
std::vector<std::string> failure_names();

}  // namespace sim::input
