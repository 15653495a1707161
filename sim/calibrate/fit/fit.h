// fit.h — fits a device profile to measured kernels, within bounds and regularised towards a base
// profile. The function calibrate() calls it.
//
// A block is a set of parameters that shares its samples with no other block: products, attention
// by implementation, each kind of memory-bound kernel. For each block the fit minimises
//
//    sum over samples of    rho(ln(predicted / measured) / noise)
//  + sum over parameters of ((x - x0) / prior)^2 / 2
//
// The function rho is Huber's loss (P. J. Huber, "Robust Estimation of a Location Parameter", Ann.
// Math. Statist. 1964). The base profile gives x0, the table of parameters the standard deviation
// `prior`. The result is the maximum of a posterior: few samples move a parameter little. The
// search is Rowan's subplex as in NLopt (LN_SBPLX), without gradients and random numbers.
//
// Invariants
// (1) Every value is within the bounds of its parameter. The profile passes device::check().
// (2) A parameter that fewer than 5 samples depend on keeps its base value. So does one of a table
//     of kernels that fewer than 5 distinct shapes depend on: samples are not shapes.
// (3) The same inputs give the same bytes.
// (4) Kernels of a training step (KernelSample::in_run) move levels first, then shapes. A shape
//     measured n times has weight min(n, 5).
// (5) A fit of collectives to one source has no larger error at any measured size than its base. A
//     fit of a run's kernels has no larger error in any group.
// (6) A source on a sibling of the GPU (A100 PCIe for A100 SXM) fits shapes, never levels: its mean
//     error is subtracted first.
#pragma once

#include <string>
#include <vector>

#include "sim/calibrate/fit/compared_collectives.h"
#include "sim/calibrate/readers/measurement.h"
#include "sim/cluster/device/gpu.h"
#include "sim/input/cluster/cluster.h"
#include "sim/input/profile/profile_draft.h"

namespace sim::calibrate {

// A field of the profile that a fit may move. Paths are those of profile_draft.h; "[*]" means all
// elements.
struct Parameter {
  std::string_view block, path;
  double lower, upper;
  double prior;        // standard deviation around the base
  bool relative;       // `prior` is a fraction of the base's value; else absolute
  bool level = false;  // scales all shapes alike; siblings do not fit it
  // The kernels of a run move this parameter first; shape parameters then explain the rest.
  bool of_runs = false;
  bool of_runs_alone = false;  // tables of kernels do not fit it
};
const std::vector<Parameter>& parameters();

struct FittedParameter {
  std::string block, path, element;
  double base = 0, value = 0, lower = 0, upper = 0;
  std::size_t samples = 0;  // that depend on it
  std::size_t shapes = 0;   // distinct shapes among them
  bool level = false;       // a step of a plan moves it first (Parameter::level, of_runs)
  bool rate = false;        // scales all shapes alike (Parameter::level)
  bool fitted = false;
  bool at_bound() const { return fitted && (value <= lower || value >= upper); }
};

// Residuals of one source in one group.
struct SourceResidual {
  std::string group, source, gpu;
  std::size_t samples = 0;
  double mean_absolute_percent = 0, bias_percent = 0;  // of the fitted profile
  double base_percent = 0;                             // mean absolute error of the base
  double level = 1;          // mean measured / predicted, subtracted for a sibling; 1: no sibling
  double noise_percent = 0;  // standard deviation of the residuals around their mean
  double standard_error_percent = 0;  // of the bias
  std::string block = {};             // "gemm": the block of parameters that its group belongs to
};

// Two sources of one group; their biases differ by more than their scatter.
struct Disagreement {
  std::string group, one, other;
  double percent = 0, noise_percent = 0;
};

// A block that keeps the values of the base, since its fit is in doubt.
struct KeptBlock {
  std::string block, reason;
};

struct Fit {
  input::ProfileDraft profile;
  std::vector<FittedParameter> parameters;
  std::vector<SourceResidual> residuals;
  std::vector<Disagreement> disagreements;
  // Cross-validation: mean absolute error on samples that the fit did not use, by block and kind of
  // split.
  struct Unseen {
    std::string block, split;
    std::size_t samples = 0;
    double percent = 0, base_percent = 0;
    bool of_one_source = false;
  };
  std::vector<Unseen> unseen;
  std::map<std::string, std::int64_t> passed;  // reason -> samples not used
  // Distinct shapes of each block, and those of tables of kernels or collectives alone.
  std::map<std::string, std::size_t> shapes = {}, shapes_of_tables = {};
  std::vector<KeptBlock> kept = {};                  // filled by keep_doubtful()
  std::vector<ComparedCollective> collectives = {};  // that fit_network() used
};

Fit fit(const input::ProfileDraft& base, const device::Gpu& gpu,
        const std::vector<KernelSample>& samples);

// Fits the block `communication` to collectives; changes the profile of `out` and adds its results.
// The network is solved once per moved parameter. In between, ln(rate) is linear in ln(parameter)
// and the latency linear in the parameter. Reported residuals come from the solved network.
void fit_network(const input::Machine& machine, const std::vector<CollectiveSample>& samples,
                 Fit& out);

// Returns the blocks of a fit that are in doubt to their values of `base` and lists them in
// `fit.kept`. Residuals stay those of the fit that was found. The reasons:
//  - with one source, the fit predicts measurements that it did not see worse than the base does.
//    Several sources may be several machines, so only their unseen errors are reported;
//  - the residual after the fit is above 25 %;
//  - a level ended at its bound, such as a rate at the peak of the GPU;
//  - fewer distinct shapes than parameters that moved;
//  - collectives of fewer than five distinct sizes;
//  - the rate of products fell by the share of long runs, which the profile counts apart.
void keep_doubtful(const input::ProfileDraft& base, Fit& fit);

// How a sample's GPU relates to the profile's GPU.
enum class Kinship { same, sibling, stranger };
Kinship kinship(const std::string& sample_gpu, const std::string& gpu);

// Pairs of sources of one group that disagree.
std::vector<Disagreement> disagreements(const std::vector<SourceResidual>& residuals);

}  // namespace sim::calibrate
