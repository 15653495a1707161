// interval.h — how far a prediction may be off: 90 % intervals from the residuals of measured runs
// in the same situation.
//
// Invariants
//  (1) An interval holds the prediction, and is the narrowest class's that is well enough known: a
//      class is known from 8 residuals on; else the next wider one is asked.
//  (2) Rows that a profile was fitted on are left out as long as others are known.
//  (3) More than the class knows is never claimed: with few residuals the interval is wider than
//      the range seen.
//
// Classes, from narrow to wide: profile, framework, one or many nodes, and context parallelism; the
// first three; profile and framework; profile and kind of plan (parameters whole or in shards);
// framework; kind of plan; everything. All but the last keep mixtures of experts and dense models
// apart. Where nobody measured the GPU or the framework, the class is what is known of the two and
// the kind of plan, at least as wide as the kind of plan alone, and as wide below the prediction as
// above; a plan that names no framework gets the widest of the known ones that ran this kind of
// plan. The residuals are
// r = ln(measured / predicted) (bubbles: points). In the narrowest class each residual counts once;
// in wider ones each source counts the same, because rows of one source share their causes.
//
// Quantiles: split conformal prediction (Lei et al., "Distribution-Free Predictive Inference for
// Regression", JASA 2018, arXiv 1604.04173, section 2): with n residuals the i-th smallest stands
// at i / (n + 1); with weights n is Kish's effective number, (sum w)^2 / sum w^2. Below 19, where 5
// % lies outside of the ranks, Student's t prediction interval stands in. Where the whole class
// lies on one side of the prediction, the tail on the other side is given to this one.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "sim/answer/answer.h"
#include "sim/cluster/device/profile.h"
#include "sim/input/profile/residuals.h"

namespace sim::answer {

struct Situation {
  std::string profile;
  std::string framework;  // "" when it is none of those that were measured
  bool many_nodes = false;
  bool context_parallel = false;
  bool shards = false;  // parameters in shards: the kind of plan
  bool mixture = false;
};

// What a prediction's intervals may rest on.
struct Basis {
  std::string profile;    // "h100-80 on H200-SXM5-141GB" where it is borrowed
  std::string framework;  // "": unknown
};
// A profile is borrowed where the GPU is not the device that it is of.
Basis basis_of(const device::Profile& profile, const std::string& gpu,
               const std::string& framework);

// What is known of a quantity in a situation; low <= 0 <= high.
struct Spread {
  double low = 0, high = 0;
  std::size_t samples = 0, sources = 0;
  std::string of;  // the class: "a100-80, Megatron-LM, many nodes"
  // Are these runs of the GPU, and of the framework?
  bool own_gpu = true, own_framework = true;
};

// Nothing when nothing was measured. `without`: a source that is left out.
std::optional<Spread> spread(const input::RunResiduals& residuals, input::ResidualOf quantity,
                             const Situation& situation, const std::string& without = "");

// A prediction with its interval.
struct Interval {
  double low = 0, high = 0;
};
Interval around(double predicted, const Spread& spread);          // of times and bytes
Interval around_inverse(double predicted, const Spread& spread);  // of rates, by the time's spread
Interval around_points(double percent, const Spread& spread);     // of bubbles

// The intervals of an answer that fits, and what they are made of.
struct Intervals {
  std::optional<Interval> step_seconds, tflops_gpu, allocated_gib, reserved_gib;
  std::optional<Spread> time, allocated, reserved;
};
// TFLOP/s by `convention`; memory of the rank that needs most.
Intervals intervals(const Answer& answer, const input::RunResiduals& residuals, const Basis& basis,
                    const std::string& convention);
// "90 % interval: step 1.02-1.31 s, ...", a line or two.
std::string intervals_text(const Intervals& intervals);

}  // namespace sim::answer
