// interval.h — 90 % prediction intervals, from the residuals of measured runs in the same
// situation.
//
// `run`, `report`, `plan` and `validate` call it to show the uncertainty of a prediction. A
// residual is r = ln(measured / predicted); for bubbles it is a difference in percentage points.
//
// Invariants
//  (1) An interval contains the prediction.
//  (2) It comes from the narrowest class with at least 8 residuals of at least 3 sources: the run
//      that is predicted is of another source. If there is no such class, it comes from all
//      residuals, at least 3.
//  (3) Rows that a profile was fitted to are used only if the other rows are too few.
//  (4) With few residuals the interval is wider than the range of observed residuals.
//
// Classes, from narrow to wide:
//     1  profile, framework, one node or several nodes, context parallelism or none
//     2  profile, framework, one node or several nodes
//     3  profile, framework
//     4  profile, kind of plan (whole parameters or sharded parameters)
//     5  framework
//     6  kind of plan
//     7  everything
// Classes 1 to 6 separate mixtures of experts from dense models. In class 1 each residual has the
// same weight. In wider classes each source has the same weight, because the rows of a source share
// causes.
//
// If fewer than 3 sources measured the GPU or the framework, classes 4 and 5 are combined, and also
// class 6 if class 4 is too small. The result is as wide as the widest of them, and symmetric
// around the prediction. A plan without a framework gets the widest interval of all measured
// frameworks with the same kind of plan.
//
// Quantiles follow split conformal prediction (Lei et al., "Distribution-Free Predictive Inference
// for Regression", JASA 2018, arXiv 1604.04173, section 2). With n residuals the i-th smallest is
// the i / (n + 1) quantile. With weights, n is Kish's effective sample size, (sum w)^2 / sum w^2.
// Below n = 19 the 5 % quantile does not exist; Student's t prediction interval with a robust
// deviation replaces it. If all residuals of a class have the same sign, the whole 10 % lies in the
// tail on that side.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "sim/answer/answer.h"
#include "sim/cluster/device/profile.h"
#include "sim/input/profile/residuals.h"

namespace sim::answer {

// Properties of a run that select its class of residuals.
struct Situation {
  std::string profile;
  std::string framework;  // "": no framework, or not measured
  bool many_nodes = false;
  bool context_parallel = false;
  bool shards = false;  // kind of plan: parameters are sharded
  bool mixture = false;
  bool fp8 = false;  // products in 8 or 4 bits
};

// The profile and framework of a prediction, as the residuals file names them.
struct Basis {
  std::string profile;    // "h100-80 on H200-SXM5-141GB": borrowed
  std::string framework;  // "": unknown
  // Residuals of the user's own runs that the profile was fitted to, each predicted from the
  // others; empty for a profile of this project.
  std::vector<double> own_runs = {};
  std::vector<double> own_reserved = {}, own_allocated = {};  // of their peaks of memory
};
// "kernels of h100-80 on MI325X: borrowed"; "" if the profile is of this GPU.
std::string borrowed_text(const device::Profile& profile, const std::string& gpu);
// A profile is borrowed if it was measured on a device other than `gpu`.
Basis basis_of(const device::Profile& profile, const std::string& gpu,
               const std::string& framework);

// The interval of residuals for a quantity in a situation; low <= 0 <= high.
struct ResidualRange {
  double low = 0, high = 0;
  std::size_t samples = 0, sources = 0;
  std::string of;  // text of the class: "a100-80, Megatron-LM, one node"
  // True if the class holds only runs of this GPU, and of this framework.
  bool own_gpu = true, own_framework = true;
  bool fp8_unknown = false;  // products in fp8, and no such run on this GPU
};

// Nothing if fewer than 3 residuals are known. `without`: a source to leave out, so that an
// accuracy test does not predict a run from itself.
std::optional<ResidualRange> spread(const input::RunResiduals& residuals,
                                    input::ResidualOf quantity, const Situation& situation,
                                    const std::string& without = "");

// The spread of a profile's own runs; nothing if there are fewer than 3.
std::optional<ResidualRange> spread_of_own_runs(const Basis& basis);

// The spread of own runs' peaks of memory around their mean: nothing was fitted to them. Nothing if
// there are none.
std::optional<ResidualRange> spread_of_own_peaks(const std::vector<double>& residuals);

// Limits of a predicted value, in its unit.
struct Interval {
  double low = 0, high = 0;
};
Interval around(double predicted, const ResidualRange& spread);          // times and bytes
Interval around_inverse(double predicted, const ResidualRange& spread);  // rates; spread of time
Interval around_points(double percent, const ResidualRange& spread);     // bubbles, percent

// Intervals of an answer that fits, and the spreads that they come from.
struct Intervals {
  std::optional<Interval> step_seconds, tflops_gpu, allocated_gib, reserved_gib;
  std::optional<ResidualRange> time, allocated, reserved;
};
// Throughput uses `convention`. Memory is that of the rank that needs most. Limits beyond the peak
// FLOP/s or the memory of the GPU are cut there. All empty if the run does not fit.
Intervals intervals(const Answer& answer, const input::RunResiduals& residuals, const Basis& basis,
                    const std::string& convention);
// Two lines of text: "90 % interval: step 1.02-1.31 s, ..." and the basis. "" without intervals.
std::string intervals_text(const Intervals& intervals);
// The same as one line, a cell of a table.
std::string intervals_line(const Intervals& intervals);

}  // namespace sim::answer
