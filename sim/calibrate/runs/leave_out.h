// leave_out.h — cross-validation: the errors of predictions for runs that the fit did not see.
//
// `validate --leave-out COLUMN` calls it. For each group of rows (a source, a GPU, a framework, a
// model) the physical factors of every profile (factors.h) are fitted again to the rows of all
// other groups, and the group is predicted with them.
//
// The fit is hierarchical. The factors of a source are the shared factors plus a normal deviation;
// both have the prior widths of calibration/factors.csv. So one source moves the shared factors
// little, however many rows it has; several sources that agree move them far. The prior of a factor
// that runs decided (the column `decided`) is centred at its mean over the other profiles. The
// profile's own number would be no fair centre, since the left-out group may have decided it.
// Huber's weights limit the effect of single rows.
//
// The group's times follow from derivatives of the replay: ln t = ln t0 + sum_k J_k x_k.
//
// Not fitted again: choices of workloads/frameworks, memory outside of the allocator, and shape
// terms of kernels. They come from documents and kernel tables, or calibration/fitted.csv counts
// them as numbers that runs decided.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/calibrate/runs/factors.h"
#include "sim/calibrate/validate.h"

namespace sim::calibrate {

// A row as predicted today, and how its time follows the factors of its profile.
struct SensitiveRow {
  Prediction given;
  std::string profile;              // of the prediction; "": no prediction
  std::vector<double> sensitivity;  // d ln(time) / dx, one per factor of `factors`
};

// Serialisation, between the process and its workers.
output::Json to_json(const SensitiveRow& row);
SensitiveRow sensitive_row(const output::Json& json);

// Predicts rows with the profiles as they are and with each factor moved. Holds a set of sites for
// each profile and factor.
class Sensitivities {
 public:
  explicit Sensitivities(std::vector<Factor> factors);
  SensitiveRow of(const input::RunsRow& row);

 private:
  answer::Sites& moved(const std::string& profile, const std::string& communication,
                       std::size_t factor);

  std::vector<Factor> factors_;
  answer::Sites sites_;
  std::map<std::string, std::unique_ptr<answer::Sites>> moved_;
};

struct LeaveOut {
  // In the order of the rows: each predicted without its group.
  std::vector<Prediction> unseen;
  // Factors of each profile with all rows, for the record.
  struct ProfileFactors {
    std::string profile;
    std::vector<double> towards;  // the centre of each factor's prior
    std::size_t rows = 0, sources = 0;
  };
  std::vector<ProfileFactors> profiles;
  // Only of predict_within_sources(): the interval of each row, from the errors of the fitted runs,
  // each predicted from the others. Nothing for a row with fewer than 3 of them.
  std::vector<std::optional<answer::ResidualRange>> own = {};
};

// `groups`: the group of each row. Errors: an unreadable profile.
Result<LeaveOut> leave_out(const std::vector<Row>& rows, const std::vector<SensitiveRow>& given,
                           const std::vector<std::string>& groups,
                           const std::vector<Factor>& factors);

// Predicts each run from other runs of its own source on the same profile. This shows the gain of
// users who fit a profile to some of their own runs. `some` is the number of runs to fit, evenly
// spread over a source of at least 13 runs; rows of smaller sources are marked as unsupported. 0:
// the other half, every second row in the order of the tables. Priors are centred at the profiles'
// own numbers, and a share of the factors is taken (best_share.h).
Result<LeaveOut> predict_within_sources(const std::vector<Row>& rows,
                                        const std::vector<SensitiveRow>& given,
                                        const std::vector<Factor>& factors, std::size_t some);

// The group of a row by a column; `framework` and `gpu` are those of the prediction.
std::string group_of(const Row& row, const SensitiveRow& given, const std::string& column);

// Numbers that runs decided, by file: calibration/fitted.csv.
struct FittedNumbers {
  std::string file, numbers, decided_by;
  int count = 0;
};
Result<std::vector<FittedNumbers>> find_fitted_numbers();

// The table of given and left-out errors, by group and in total. `result.unseen` has intervals
// (add_intervals of validate.h). `before`: the interval of each row's time before a fit to runs of
// its source, for the comparison with `result.own`.
output::Document leave_out_document(
    const std::vector<Row>& rows, const std::vector<SensitiveRow>& given, const LeaveOut& result,
    const std::vector<std::string>& groups, const std::vector<FittedNumbers>& fitted,
    const std::string& column, const std::vector<std::optional<answer::ResidualRange>>& before);

}  // namespace sim::calibrate
