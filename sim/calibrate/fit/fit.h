// fit.h — a device profile that reproduces measured kernels: bounded, and pulled towards the
// profile it starts from.
//
// For each block of parameters that no other block shares samples with (products, attention by
// implementation, each kind of memory-bound kernel) the fit minimises
//
//     sum over samples of rho(ln(predicted / measured) / noise) + sum over parameters ((x - x0) /
//     prior)^2 / 2
//
// rho is Huber's loss (P. J. Huber, "Robust Estimation of a Location Parameter", Ann. Math.
// Statist. 1964), x0 the base profile, prior the standard deviation that the table of parameters
// allows: the maximum of a posterior, so that few samples move little. The search is Rowan's
// subplex as in NLopt (LN_SBPLX), which needs no gradient and no random numbers.
//
// Invariants
//  (1) Every value stays within the bounds of its parameter; the profile passes device::check().
//  (2) A parameter that fewer than 5 samples feel stays where it was.
//  (3) Same inputs, same bytes.
//  (4) Kernels of a training step (KernelSample::in_run) move levels first, then shapes; a shape
//  that
//      was measured many times counts as often as it takes to be believed, five times.
//  (5) A fit of collectives to one source is at no measured size worse than the profile that it
//      started from (several may disagree at a size). One of a run's kernels is worse in no group.
//  (6) A source on a sibling of the GPU (A100 PCIe for A100 SXM) fits shapes, never levels: its
//      mean error is taken out.
#pragma once

#include <string>
#include <vector>

#include "sim/calibrate/readers/measurement.h"
#include "sim/cluster/device/gpu.h"
#include "sim/input/cluster/cluster.h"
#include "sim/input/profile/profile_draft.h"

namespace sim::calibrate {

// A field that a fit may move. One row adds one; paths are profile_draft.h's, "[*]" all elements.
struct Parameter {
  std::string_view block, path;
  double lower, upper;
  double prior;        // standard deviation around the base
  bool relative;       // of the base's value; else absolute
  bool level = false;  // how fast, not how it depends on shape: siblings say nothing of it
  // What the kernels of a run say first: shapes explain what is left (a run has few of them).
  bool of_runs = false;
  bool of_runs_alone = false;  // tables of kernels say nothing of it
};
const std::vector<Parameter>& parameters();

struct FittedParameter {
  std::string block, path, element;
  double base = 0, value = 0, lower = 0, upper = 0;
  std::size_t samples = 0;  // that feel it
  bool fitted = false;
  bool at_bound() const { return fitted && (value <= lower || value >= upper); }
};

// Residuals of one source in one group.
struct SourceResidual {
  std::string group, source, gpu;
  std::size_t samples = 0;
  double mean_absolute_percent = 0, bias_percent = 0;  // of the fitted profile
  double base_percent = 0;                             // mean absolute, before
  double level = 1;  // measured / predicted that was taken out of a sibling; 1: the GPU itself
  double noise_percent = 0;           // standard deviation of the residuals around their mean
  double standard_error_percent = 0;  // of the bias
};

// Sources of one group whose biases differ by more than they scatter.
struct Disagreement {
  std::string group, one, other;
  double percent = 0, noise_percent = 0;
};

struct Fit {
  input::ProfileDraft profile;
  std::vector<FittedParameter> parameters;
  std::vector<SourceResidual> residuals;
  std::vector<Disagreement> disagreements;
  // Mean absolute error on samples that the fit did not see: by block, with how it was split.
  struct Unseen {
    std::string block, split;
    std::size_t samples = 0;
    double percent = 0, base_percent = 0;
  };
  std::vector<Unseen> unseen;
  std::map<std::string, std::int64_t> passed;  // samples of other GPUs and the like
};

Fit fit(const input::ProfileDraft& base, const device::Gpu& gpu,
        const std::vector<KernelSample>& samples);

// Fits the block `communication` to collectives and adds what it found to `out`, whose profile it
// changes. The network is solved once for every parameter that is moved a little; in between,
// ln(rate) is taken as linear in ln(parameter) and the latency as linear in the parameter, and the
// residuals are those of the solved network in the end.
void fit_network(const input::Machine& machine, const std::vector<CollectiveSample>& samples,
                 Fit& out);

// How a sample's GPU relates to the profile's.
enum class Kinship { same, sibling, stranger };
Kinship kinship(const std::string& sample_gpu, const std::string& gpu);

// Pairs of sources in each group.
std::vector<Disagreement> disagreements(const std::vector<SourceResidual>& residuals);

}  // namespace sim::calibrate
