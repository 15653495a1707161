// answer.h — everything that is said about one plan on one cluster: the replay's report, and what
// is derived from it.
//
// Invariants
//  (1) The replay and the closed-form estimate are two answers; nothing here mixes them.
//  (2) A throughput never stands without its convention.
#pragma once

#include <string>
#include <vector>

#include "sim/base/units.h"
#include "sim/engine/report.h"
#include "sim/program/plan/plan.h"

namespace sim::answer {

struct Rate {  // model FLOPs per second and GPU, by one convention
  std::string convention;
  std::string summary;
  double tflops_gpu = 0;
};

// The closed form of the paper with its rule: fits when it is at most 80 % of the number in the
// GPU's name.
struct Estimate {
  double gib = 0;
  double limit_gib = 0;
  bool fits = false;
};

// How sure the outcome is. Memory outside the allocator is known within a range only
// (cluster/device/profile.h, unaccounted).
struct Verdict {
  // The share of that range in which the plan fits; 0 or 1 where the outcome does not hang on it.
  double fits_probability = 1;
  // Fits barely, or runs out barely: the other outcome lies within the range, or so little is left
  // unreserved (2 % of the capacity) or memory is given back and asked for again so often (every
  // microbatch) that a run may end either way.
  bool tight = false;
  std::string hangs_on;  // why it is tight, one line
};

// What the ranks of the fullest node leave to its CPUs.
struct HostMemory {
  Bytes optimizer{}, activations{};
  Bytes there{};  // 0: the cluster does not say
};

struct Machine {  // what an answer says about the cluster
  std::string cluster, gpu;
  int gpus_per_node = 1;
  Bytes memory{};         // of one GPU, as PyTorch reports it
  double peak_flops = 0;  // of one GPU, at the plan's precision
};

struct Answer {
  program::Plan plan;
  Machine machine;
  engine::RunReport run;
  std::vector<Rate> rates;  // the first is the headline
  double mfu = 0, hfu = 0;  // fractions; MFU by the `megatron` convention
  Estimate estimate;
  HostMemory host;
  Verdict verdict;
};

double step_seconds(const Answer& answer);
double tokens_per_second_gpu(const Answer& answer);
const Rate& rate(const Answer& answer, const std::string& convention);

// (p - 1) / (m v + p - 1), what a pipeline of equal stages without communication would idle; v
// virtual stages (Narayanan et al., SC21, section 2.2).
double textbook_bubble(const program::Plan& plan);

// Mean over ranks of the accounts of one step, in seconds.
std::vector<double> mean_accounts(const engine::RunReport& run);
// In words: "tensor-parallel communication".
std::string words(engine::Account account);

// The class that is nearest to its capacity.
const engine::ClassReport& fullest(const engine::RunReport& run);
// The largest value over the classes.
Bytes peak_allocated(const engine::RunReport& run);
Bytes peak_reserved(const engine::RunReport& run);
Bytes reserved_most(const engine::RunReport& run);

// "step 1, microbatch 3, backward of layer 7 (attention)".
std::string words(const engine::Place& place);

// One line: what keeps the run from being faster, or from fitting.
std::string limit(const Answer& answer);
// One line: why it ran out of memory. REQUIRES: it did.
std::string oom_reason(const engine::RunReport& run);
// The message of PyTorch's torch.OutOfMemoryError for an event, on the GPU where it happens first.
std::string pytorch_message(const Answer& answer, const engine::ClassReport& who);

}  // namespace sim::answer
