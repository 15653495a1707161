// measured_table.h — catalog of measured tables with columns of their own. Tables of runs have the
// schema of input/tables/runs_csv.h; kernels and collectives have timings.h. The command `validate`
// calls it.
//
// Invariants
// (1) Every row of the table has exactly one line, in the order of the table. A row that cannot be
//     represented has the reason.
// (2) A row without a measured value has a prediction and no comparison.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/answer/evaluate.h"
#include "sim/input/tables/table_csv.h"
#include "sim/output/document.h"

namespace sim::calibrate {

struct RowAnswer {
  std::string reason;       // reason for a missing prediction; "": it exists
  bool impossible = false;  // the plan breaks a rule; otherwise the row is only not supported
  std::string group;        // rows averaged together
  std::vector<std::optional<double>> predicted, measured;  // one per quantity
};

struct MeasuredTable {
  std::string_view name;
  // A table with all these columns is of this kind.
  std::vector<std::string_view> columns;
  // Predicted quantities, as columns of the CSV: "predicted_iter_per_s".
  std::vector<std::string_view> quantities;
  int digits = 3;  // after the point
  RowAnswer (*predict)(const input::TableRow& row, answer::Sites& sites);
  // A line that compares rows with each other ("the order of the four is right in ..."); may be
  // nullptr.
  std::string (*summary)(const input::Table& table, const std::vector<RowAnswer>& answers);
};

std::span<const MeasuredTable> measured_tables();
// nullptr: the table is of no such kind
const MeasuredTable* measured_table(const input::Table& table);

// Problems of cells in columns with a unit in their name ("time_us", "iters_per_s", "tflops"). A
// cell must be blank, a word ("OOM"), or a number of zero or more. Applies to tables of this
// catalog and of timings.h.
Diagnostics cell_problems(const input::Table& table);

std::vector<RowAnswer> predict(const MeasuredTable& kind, const input::Table& table,
                               answer::Sites& sites);

// Columns: row,status,reason,predicted_...,predicted_..._lo90,predicted_..._hi90. The interval
// comes from all measured rows outside of the row's own group, if there are at least ten.
std::string to_csv(const MeasuredTable& kind, const std::vector<RowAnswer>& answers);
output::Document document_of(const MeasuredTable& kind, const input::Table& table,
                             const std::vector<RowAnswer>& answers);

// The functions of the catalog's entries.
RowAnswer predict_context(const input::TableRow& row, answer::Sites& sites);
std::string context_summary(const input::Table& table, const std::vector<RowAnswer>& answers);
RowAnswer predict_offload(const input::TableRow& row, answer::Sites& sites);
std::string offload_summary(const input::Table& table, const std::vector<RowAnswer>& answers);
RowAnswer predict_whatif(const input::TableRow& row, answer::Sites& sites);
std::string whatif_summary(const input::Table& table, const std::vector<RowAnswer>& answers);

// A cell's text, "" if the column is missing; a number above zero.
const std::string& text_in(const input::TableRow& row, std::string_view column);
std::optional<double> positive_in(const input::TableRow& row, std::string_view column);

}  // namespace sim::calibrate
