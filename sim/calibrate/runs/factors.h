// factors.h — the physical factors of a cluster that whole runs can determine. Examples are the
// speeds of matrix products, attention, HBM, the host, NVLink and the network.
//
// run_fit.h fits them. The list with its prior widths is calibration/factors.csv.
//
// A factor x is a logarithm: the named work takes exp(x) times as long. 0 is the base profile.
// Rates and fractions of the profile are divided by exp(x), durations multiplied. If a field
// reaches its bound, the fields of `then` take the rest of the factor.
#pragma once

#include <string>
#include <vector>

#include "sim/base/result.h"
#include "sim/input/profile/profile.h"
#include "sim/input/profile/profile_draft.h"

namespace sim::calibrate {

// Fields of a profile that a factor scales; a pattern of profile_draft.h, with [NAME] for the
// elements of that name: "gemm.peaks[fp8].fraction".
struct ScaledField {
  std::string pattern;
  bool duration = false;  // of the pattern's fields; else rates or fractions
};

struct Factor {
  std::string name;  // "attention"
  std::vector<ScaledField> fields, then;
  double prior = 0;     // standard deviation of x between known clusters
  std::string measure;  // the measurement that would determine it best
};

// The factors of calibration/factors.csv. Errors: an unreadable file, a bad cell with its line.
Result<std::vector<Factor>> load_factors(const std::string& path);
Result<std::vector<Factor>> find_factors();

// The factors that scale at least one field of the profile.
std::vector<Factor> factors_of(const std::vector<Factor>& all, const input::ProfileDraft& base);

// Prior widths that a factor may move; a fit that ends there is in doubt.
constexpr double furthest_move = 3;

// A text for each factor that `fitted` moves further than that against `base`, by the mean of the
// logarithms of its fields that changed; empty if there is none.
std::vector<std::string> moved_too_far(const std::vector<Factor>& all,
                                       const input::ProfileDraft& base,
                                       const input::ProfileDraft& fitted);

// A profile by path with the section `communication` of another one; "": its own. Errors: those of
// the files.
Result<input::ProfileDraft> whole_profile(const std::string& profile,
                                          const std::string& communication);

// The profile as a loaded file, for answer::Sites::use(). `path` names it.
input::ProfileFile profile_file(const input::ProfileDraft& profile, const std::string& path);

// The profile with each factor at x[i]. REQUIRES: one x per factor.
input::ProfileDraft scaled(const input::ProfileDraft& base, const std::vector<Factor>& factors,
                           const std::vector<double>& x);

}  // namespace sim::calibrate
