// leave_out.h — cross-validation: the errors of predictions for runs that the fit did not see.
//
// `validate --leave-out COLUMN` calls it. For each group of rows (a source, a GPU, a framework, a
// model) the physical factors of every profile (factors.h) are fitted again to the rows of all
// other groups, and the group is predicted with them.
//
// The fit is hierarchical. The factors of a source are the shared factors plus a normal deviation
// with the prior widths of calibration/factors.csv. The shared factors have a quarter of these
// widths: profiles come from kernel tables, sources differ by software and machines. So one source
// moves the shared factors little, however many rows it has; several sources that agree move them
// far. Where the left-out group decided a number of the profile (calibration/fitted.csv), the prior
// of its factor is centred at the mean of the other profiles. For products that is the long-run
// rate; if the site limits the board's power (gemm.power_w), it falls in proportion to the watts.
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
#include <set>
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
  // In the same order, by predict_within_sources(): before the fit to runs of their own source.
  std::vector<Prediction> before = {};
  // Only of predict_within_sources(): the interval of each row, from the errors of the fitted runs,
  // each predicted from the others. Nothing for a row with fewer than 3 of them.
  std::vector<std::optional<answer::ResidualRange>> own = {};
};

// Numbers that runs decided, by file: calibration/fitted.csv.
struct FittedNumbers {
  std::string file, numbers, decided_by;
  int count = 0;
  std::vector<std::string> factors = {};  // of factors.csv, that the numbers are part of
  std::set<std::string> sources = {};     // whose rows decided them; "*": all
};

// `groups`: the group of each row. Errors: an unreadable profile.
Result<LeaveOut> leave_out(const std::vector<Row>& rows, const std::vector<SensitiveRow>& given,
                           const std::vector<std::string>& groups,
                           const std::vector<Factor>& factors,
                           const std::vector<FittedNumbers>& fitted);

// Predicts each run from other runs of its own source on the same profile. This shows the gain of
// users of a new cluster who fit a profile to some of their own runs. `some` is the number of runs
// to fit, evenly spread over a source of at least 13 runs; five draws of them predict a fifth of
// the others each. 0: the other half, every second row in the order of the tables, of a source of
// at least 8 runs. Rows of smaller sources are marked as unsupported. The fit starts from the
// factors that all other sources give, and a share of its result is taken (best_share.h).
Result<LeaveOut> predict_within_sources(const std::vector<Row>& rows,
                                        const std::vector<SensitiveRow>& given,
                                        const std::vector<Factor>& factors,
                                        const std::vector<FittedNumbers>& fitted, std::size_t some);

// The group of a row by a column; `framework` and `gpu` are those of the prediction.
std::string group_of(const Row& row, const SensitiveRow& given, const std::string& column);

Result<std::vector<FittedNumbers>> find_fitted_numbers();

// The table of given and left-out errors, by group and in total; after predict_within_sources(), of
// the errors before and after the fit. `result.unseen` has intervals (add_intervals of validate.h).
// `before`: the interval of each row's time before a fit to runs of
// its source, for the comparison with `result.own`.
output::Document leave_out_document(
    const std::vector<Row>& rows, const std::vector<SensitiveRow>& given, const LeaveOut& result,
    const std::vector<std::string>& groups, const std::vector<FittedNumbers>& fitted,
    const std::string& column, const std::vector<std::optional<answer::ResidualRange>>& before);

}  // namespace sim::calibrate
