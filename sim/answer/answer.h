// answer.h — the Answer for one plan on one cluster: the replay's report and the values derived
// from it.
//
// `evaluate` (evaluate.h) fills an Answer. The output room prints it, and sweeps and searches
// compare answers.
//
// Invariants
//  (1) The replay (`run`) and the closed-form estimate (`estimate`) are separate results. No value
//      here mixes them.
//  (2) Every throughput carries the name of its FLOP convention.
#pragma once

#include <string>
#include <vector>

#include "sim/base/units.h"
#include "sim/engine/report.h"
#include "sim/program/plan/plan.h"

namespace sim::answer {

struct Rate {  // throughput per GPU by one FLOP convention
  std::string convention;
  std::string summary;
  double tflops_gpu = 0;
};

// The closed-form memory estimate [arXiv 2411.06465]. A plan `fits` when the estimate is at most 80
// % of the number in the GPU's name (GB, read as GiB).
struct Estimate {
  double gib = 0;
  double limit_gib = 0;
  bool fits = false;
};

// Confidence of the fit outcome. Memory outside the caching allocator is known within a range only
// (cluster/device/profile.h, `unexplained`).
struct Verdict {
  // The share of that range in which the plan fits. It is 0 or 1 when both ends of the range give
  // the same outcome.
  double fits_probability = 1;
  // True when a small change can reverse the outcome. One of three reasons:
  // - The other end of the memory range gives the other outcome.
  // - Less than 2 % of the capacity stays unreserved.
  // - The allocator frees its cached memory and retries at least once per microbatch.
  bool tight = false;
  std::string hangs_on;  // the reason for `tight`, one line
};

// Host memory that the ranks of one node use for offloaded data, on the node that uses most.
struct HostMemory {
  Bytes optimizer{}, activations{};
  Bytes there{};  // capacity; 0: unknown
};

struct Machine {  // properties of the cluster that output needs
  std::string cluster, gpu;
  int gpus_per_node = 1;
  Bytes memory{};         // of one GPU, total as PyTorch reports it
  double peak_flops = 0;  // FLOP/s of one GPU at the plan's precision
};

struct Answer {
  program::Plan plan;
  Machine machine;
  engine::RunReport run;
  // The ranks of each class of `run`, ascending; empty in searches.
  std::vector<std::vector<int>> ranks = {};
  std::vector<Rate> rates;  // the first is the default
  double mfu = 0, hfu = 0;  // fractions; MFU by the `megatron` convention
  Estimate estimate;
  HostMemory host;
  Verdict verdict;
  // Time that allocator retries add to the step: the step less the step with unlimited memory. 0:
  // the step has no retries, or add_retry_cost (evaluate.h) was not called.
  Duration retry_cost{};
  // Its share of each account, in seconds: the accounts less those with unlimited memory. Empty if
  // there are none.
  std::vector<double> retry_accounts = {};
};

double step_seconds(const Answer& answer);
double tokens_per_second_gpu(const Answer& answer);
const Rate& rate(const Answer& answer, const std::string& convention);

// Idle share of a pipeline with equal stages and free communication: (p - 1) / (m v + p - 1). A
// fraction; v counts the chunks per stage (Narayanan et al., SC21, section 2.2).
double textbook_bubble(const program::Plan& plan);

// Time accounts of one step, in seconds, averaged over all ranks. Indexed by engine::Account.
std::vector<double> mean_accounts(const engine::RunReport& run);
// The same without the time that allocator retries add to each account.
std::vector<double> accounts_without_retries(const Answer& answer);
// Display name: "tensor-parallel communication".
std::string words(engine::Account account);

// The rank class with the least unreserved memory. If the run does not fit: the class that runs out
// of memory first.
const engine::ClassReport& fullest(const engine::RunReport& run);
// Each is the largest value over the rank classes.
Bytes peak_allocated(const engine::RunReport& run);
Bytes peak_reserved(const engine::RunReport& run);
Bytes reserved_most(const engine::RunReport& run);

// Allocator retries in the reported step, of the rank class with most.
int step_retries(const engine::RunReport& run);

// Display text: "step 1, microbatch 3, backward of layer 7 (attention)".
std::string words(const engine::ProgramLocation& place);

// One line: the three largest time accounts, or the largest memory category of a run that does not
// fit. Retries whose cost is known are an account of their own: the CPU waits for them.
std::string limit(const Answer& answer);
// One line: stage, place and size of the first failed allocation. REQUIRES: the run does not fit.
std::string oom_reason(const engine::RunReport& run);
// The text of the torch.OutOfMemoryError that PyTorch raises for the event of class `who`. It names
// the local GPU index of the class's first rank. REQUIRES: `who.out_of_memory` has a value.
std::string pytorch_message(const Answer& answer, const engine::ClassReport& who);

}  // namespace sim::answer
