// validate.h — predicts every row of a table of measured runs and compares throughput, iteration
// time, peak memory, bubble and outcome. The command `validate` calls it.
//
// Invariants
// (1) Every row has exactly one prediction, in the order of the table. A row that cannot be
//     represented has the reason.
// (2) A row is compared only in quantities that it publishes, in its own FLOP convention, for the
//     rank whose memory it states.
// (3) A row that ran and does not state its recomputation is predicted with the least that fits.
//     If no source gives a row's number of GPUs, the row is replayed on the fewest GPUs that can
//     hold its state. It is in no error and in no residual.
// (4) Rows that a profile was fitted on (provenance.fitted_rows) are always marked.
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
struct Rows;
}  // namespace sim::output

namespace sim::calibrate {

struct Prediction {
  std::string row_id, status, reason;  // predicted, unsupported, impossible
  std::vector<std::string> assumptions;
  std::string plan;  // short name
  std::optional<double> iter_time_s, tflops_gpu, allocated_gib, reserved_gib, bubble_pct;
  std::optional<bool> oom;
  std::optional<bool> tight;               // see Verdict in answer/answer.h
  std::optional<double> fits_probability;  // 0 to 1
  std::optional<bool> rule_says_oom;       // outcome by the closed form's 80 % rule
  answer::Situation situation;
  bool fitted = false;        // the profile was fitted on this row
  bool assumes_gpus = false;  // the number of GPUs is not published
  // 90 % intervals in the order of quantities(): from all sources, and from all but the row's own
  // source.
  std::vector<std::optional<answer::Interval>> intervals, intervals_elsewhere;
};

// Inputs of a prediction that come from the caller, not from the row.
struct Circumstances {
  const input::Machine* machine = nullptr;  // in place of the cluster that the row names
  engine::MemoryDetail memory = engine::MemoryDetail::exact;
};

Prediction predict(const input::RunsRow& row, answer::Sites& sites,
                   const Circumstances& circumstances = {});

// Assumptions of predict() about a row that ran, if the plan as read would run out of memory. They
// are settings that save memory and that the row does not state: cheap ones first, recomputation
// last.
struct LessMemory {
  Row row;           // with these settings
  std::string text;  // "recompute full, the least with which it fits"
};
// std::nullopt: the plan fits or is not supported, the row does not state that it ran, or no such
// settings make it fit.
std::optional<LessMemory> less_memory(const Row& row, answer::Sites& sites,
                                      const Circumstances& circumstances = {});

// Text of the plan file of a row, with assumptions as comments. `rehearse run` of that file gives
// the row's prediction. Error: the row is not represented; the reason.
Result<std::string> row_file(const Row& row, answer::Sites& sites);

// Serialisation, between the process and its workers.
std::string to_text(const Prediction& prediction);
Prediction from_text(const std::string& text);

// Columns row_id,status,reason,predicted_iter_time_s,... with one line per prediction.
std::string predictions_csv(const std::vector<Prediction>& predictions);

// A compared quantity: a column of the table and the value of a prediction.
struct Quantity {
  const char* name;
  const char* column;
  int digits;  // after the point, in the CSV
  std::optional<double> (*predicted)(const Prediction& prediction);
  input::ResidualOf residual;  // the residual whose spread gives the interval
  answer::Interval (*around)(double predicted, const answer::ResidualRange& spread);
};
const std::vector<Quantity>& quantities();
enum QuantityIndex : std::size_t { throughput, iteration_time, allocated, reserved, bubble };

// The column's value if it is above zero.
std::optional<double> measured(const Row& row, const Quantity& quantity);

// (predicted - measured) / measured, if the row and the prediction both have the quantity.
std::optional<double> relative_error(const Row& row, const Prediction& prediction,
                                     const Quantity& quantity);

// ln(measured / predicted) of the row's step time; nothing if it states none, was not predicted,
// ran out of memory or does not publish its number of GPUs.
std::optional<double> time_residual(const Row& row, const Prediction& prediction);
// The same of any quantity of the row.
std::optional<double> residual_of(const Row& row, const Prediction& prediction,
                                  input::ResidualOf quantity);

// Adds the 90 % intervals to every prediction. A row's own residual is left out, so that no run
// predicts itself. `own_time`: the interval of times, from the runs that the profile was fitted to;
// it replaces the one from `residuals`.
void add_intervals(const std::vector<Row>& rows, std::vector<Prediction>& predictions,
                   const input::RunResiduals& residuals,
                   const std::optional<answer::ResidualRange>& own_time = {});

// The residuals of the rows, by source and situation. Throughput and iteration time of a run count
// once.
input::RunResiduals residuals_of(const std::vector<Row>& rows,
                                 const std::vector<Prediction>& predictions,
                                 const std::string& command);

// Errors of a set of rows in one quantity: |predicted - measured| / measured.
struct Errors {
  std::size_t rows = 0;
  double mean = 0, median = 0, p90 = 0, most = 0, bias = 0;  // percent
  std::string worst;                                         // row_id of the largest error
  // Number of rows with an interval, and with the measured value inside; the same for intervals
  // without the row's source.
  std::size_t with_interval = 0, inside = 0, with_interval_elsewhere = 0, inside_elsewhere = 0;
};
Errors errors(const std::vector<Row>& rows, const std::vector<Prediction>& predictions,
              const Quantity& quantity);

// Whether the run of the row ran out of memory; std::nullopt if the row does not state it.
std::optional<bool> measured_out_of_memory(const Row& row);

// The predictor of an outcome: the replay; the replay without tight outcomes; the more likely
// outcome in the replay's range; the closed form's 80 % rule.
enum class Judge { replay, decided, likely, rule };

// Counts [measured out of memory][predicted out of memory], over rows that state their outcome.
struct Outcomes {
  std::size_t counts[2][2] = {};
  std::size_t rows() const;
  double right_pct() const;
};
Outcomes outcomes(const std::vector<Row>& rows, const std::vector<Prediction>& predictions,
                  Judge judge);

// Two sources of one situation. The medians of their time errors differ by more than their scatter.
struct SourcesApart {
  std::string situation, one, other;
  double percent = 0, noise_percent = 0;  // between their medians; the larger scatter of the two
};
std::vector<SourcesApart> sources_apart(const input::RunResiduals& residuals);

// For each predicted probability of fitting, by tenths, the share of plans that ran.
output::Rows probability_rows(const std::vector<Row>& rows,
                              const std::vector<Prediction>& predictions);

// The result of validation: overall, by group, reasons for missing rows, row by row. Rows with
// equal values in the columns `by` form a group; without columns, by source and by GPU.
output::Document validation_answer(const std::vector<Row>& rows,
                                   const std::vector<Prediction>& predictions,
                                   const std::vector<std::string>& by = {});
// The same with charts; `name` is the title.
output::Document validation_document(const std::string& name, const std::vector<Row>& rows,
                                     const std::vector<Prediction>& predictions);

}  // namespace sim::calibrate
