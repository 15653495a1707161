// validate.h — predicted against measured: replays every row of a table of measured runs and
// compares throughput, iteration time, peak memory, bubble and outcome.
//
// Invariants
//  (1) Every row has exactly one prediction, in the order of the table; a row that cannot be
//      represented says why.
//  (2) A row is compared only in what it publishes, in its own convention and of the rank whose
//      memory it states.
//  (3) A row whose columns n_gpus and dp are blank, and of whose GPUs nothing else is published, is
//      replayed on the fewest that may hold its state, and compared with nothing: it is in no error
//      and in no residual.
//  (4) Rows that a profile was fitted on (provenance.fitted_rows) are never mixed with the others
//      without being told apart.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/answer/evaluate.h"
#include "sim/answer/interval.h"
#include "sim/calibrate/rows/row_plan.h"
#include "sim/input/profile/residuals.h"
#include "sim/input/tables/runs_csv.h"
#include "sim/output/json.h"

namespace sim::output {
struct Document;
}

namespace sim::calibrate {

struct Prediction {
  std::string row_id, status, reason;  // predicted, unsupported, impossible
  std::vector<std::string> assumptions;
  std::string plan;  // short name
  std::optional<double> iter_time_s, tflops_gpu, allocated_gib, reserved_gib, bubble_pct;
  std::optional<bool> oom;
  std::optional<bool> tight;               // the outcome hangs on little (answer/answer.h, Verdict)
  std::optional<double> fits_probability;  // 0 to 1
  std::optional<bool> rule_says_oom;       // the closed form's 80 % rule
  answer::Situation situation;
  bool fitted = false;        // the profile was fitted on this row
  bool assumes_gpus = false;  // on how many GPUs it ran is not published
  // 90 %, in the order of quantities(): by all sources, and by all but the row's own.
  std::vector<std::optional<answer::Interval>> intervals, intervals_elsewhere;
};

Prediction predict(const input::RunsRow& row, answer::Sites& sites);

// To and from the worker that predicts.
std::string to_text(const Prediction& prediction);
Prediction from_text(const std::string& text);

// row_id,status,reason,predicted_iter_time_s,... one line per prediction.
std::string predictions_csv(const std::vector<Prediction>& predictions);

// What is compared: a column of the table with what stands for it in a prediction.
struct Quantity {
  const char* name;
  const char* column;
  int digits;  // after the point, in the CSV
  std::optional<double> (*predicted)(const Prediction& prediction);
  input::ResidualOf residual;  // whose spread its interval has
  answer::Interval (*around)(double predicted, const answer::Spread& spread);
};
const std::vector<Quantity>& quantities();
enum QuantityIndex : std::size_t { throughput, iteration_time, allocated, reserved, bubble };

// The column's value where the row has one above zero and the run went through.
std::optional<double> measured(const Row& row, const Quantity& quantity);

// (predicted - measured) / measured, when the row and the prediction both have it.
std::optional<double> relative_error(const Row& row, const Prediction& prediction,
                                     const Quantity& quantity);

// The 90 % intervals of every prediction. Where the residuals hold what a row itself said, its
// interval is made without that: it is what a run like it would have been told before it ran.
void add_intervals(const std::vector<Row>& rows, std::vector<Prediction>& predictions,
                   const input::RunResiduals& residuals);

// The residuals of the rows, by source and situation; a run's time counts once.
input::RunResiduals residuals_of(const std::vector<Row>& rows,
                                 const std::vector<Prediction>& predictions,
                                 const std::string& command);

// Errors of a set of rows in one quantity: |predicted - measured| / measured.
struct Errors {
  std::size_t rows = 0;
  double mean = 0, median = 0, p90 = 0, most = 0, bias = 0;  // percent
  std::string worst;                                         // row_id
  // Rows that have an interval, and those whose measured value lies inside; the same with
  // intervals of which the row's source knows nothing.
  std::size_t with_interval = 0, inside = 0, with_interval_elsewhere = 0, inside_elsewhere = 0;
};
Errors errors(const std::vector<Row>& rows, const std::vector<Prediction>& predictions,
              const Quantity& quantity);

// Whether the run of the row ran out of memory; nothing where the row does not say.
std::optional<bool> measured_out_of_memory(const Row& row);

// Who says that a row runs out of memory: the replay; the replay where its outcome is not tight;
// the more likely side of the replay's range; the 80 % rule of the closed form.
enum class Judge { replay, decided, likely, rule };

// [measured out of memory][said out of memory], over rows that state their outcome.
struct Outcomes {
  std::size_t counts[2][2] = {};
  std::size_t rows() const;
  double right_pct() const;
};
Outcomes outcomes(const std::vector<Row>& rows, const std::vector<Prediction>& predictions,
                  Judge judge);

// Two sources of one situation whose times are off by more different amounts than they scatter.
struct SourcesApart {
  std::string situation, one, other;
  double percent = 0, noise_percent = 0;  // between their medians; the larger scatter around one
};
std::vector<SourcesApart> sources_apart(const input::RunResiduals& residuals);

// Overall, by group, why rows are missing, and row by row. Groups: what rows have in the columns
// `by` together; without columns, their source and their GPU.
output::Document validation_answer(const std::vector<Row>& rows,
                                   const std::vector<Prediction>& predictions,
                                   const std::vector<std::string>& by = {});
// With charts; `name` says of what.
output::Document validation_document(const std::string& name, const std::vector<Row>& rows,
                                     const std::vector<Prediction>& predictions);

}  // namespace sim::calibrate
