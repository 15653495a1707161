// measured_table.h — catalog of tables of measurements with columns of their own: neither runs of
// the common schema (input/tables/runs_csv.h) nor single kernels and collectives (timings.h).
//
// Invariants
//  (1) Every row of the table has exactly one line, in the order of the table; a row that cannot be
//      represented says why.
//  (2) A row without a measured value is predicted and compared with nothing.
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
  std::string reason;       // why there is no prediction; "": there is one
  bool impossible = false;  // the plan breaks a rule; otherwise it is only not represented
  std::string group;        // what is averaged together
  std::vector<std::optional<double>> predicted, measured;  // by quantity
};

struct MeasuredTable {
  std::string_view name;
  // A table is one of these when it has these columns.
  std::vector<std::string_view> columns;
  // What is predicted, as columns of the CSV: "predicted_iter_per_s".
  std::vector<std::string_view> quantities;
  int digits = 3;  // after the point
  RowAnswer (*predict)(const input::TableRow& row, answer::Sites& sites);
  // A line that compares rows with each other ("the order of the four is right in ..."); may be
  // null.
  std::string (*summary)(const input::Table& table, const std::vector<RowAnswer>& answers);
};

std::span<const MeasuredTable> measured_tables();
const MeasuredTable* measured_table(const input::Table& table);  // nullptr: none of them

// Cells of columns with a unit in their name ("time_us", "iters_per_s", "tflops") that are neither
// blank, a word ("OOM"), nor a number of zero or more. For tables of this catalog and of timings.h.
Diagnostics cell_problems(const input::Table& table);

std::vector<RowAnswer> predict(const MeasuredTable& kind, const input::Table& table,
                               answer::Sites& sites);

// row,status,reason,predicted_...,predicted_..._lo90,predicted_..._hi90: the interval is of the
// spread of all rows with a measured value but the row's own group, where there are ten or more.
std::string to_csv(const MeasuredTable& kind, const std::vector<RowAnswer>& answers);
output::Document document_of(const MeasuredTable& kind, const input::Table& table,
                             const std::vector<RowAnswer>& answers);

// The rows of the catalog.
RowAnswer predict_context(const input::TableRow& row, answer::Sites& sites);
std::string context_summary(const input::Table& table, const std::vector<RowAnswer>& answers);
RowAnswer predict_offload(const input::TableRow& row, answer::Sites& sites);
std::string offload_summary(const input::Table& table, const std::vector<RowAnswer>& answers);

// A cell's text, "" where the column is missing; a number above zero.
const std::string& text_in(const input::TableRow& row, std::string_view column);
std::optional<double> positive_in(const input::TableRow& row, std::string_view column);

}  // namespace sim::calibrate
