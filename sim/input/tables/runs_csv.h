// runs_csv.h — reads a CSV table of measured runs: one row for each run (RFC 4180).
//
// `rehearse validate` and `rehearse check` read such tables with it. Schema:
// calibration/measured/README.md.
//
// Columns may be missing, because memory tables have fewer. A misspelt column is an error. An
// unknown column is kept and listed. A row with errors is kept with its problems, so that no row is
// lost.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/result.h"

namespace sim::input {

struct RunsRow {
  int line = 0;                                           // line of its first character
  std::map<std::string, std::string, std::less<>> cells;  // text by column name
  std::vector<std::string> problems;                      // empty: usable

  const std::string& text(std::string_view column) const;  // "" when absent or blank
  // REQUIRES: the row has no problems and the column is a numeric one.
  std::optional<double> number(std::string_view column) const;
};

struct RunsTable {
  std::string path;
  std::vector<std::string> columns;          // as in the header
  std::vector<std::string> unknown_columns;  // a subset of `columns`
  std::vector<RunsRow> rows;                 // in file order
};

Result<RunsTable> load_runs(const std::string& path);

// The problems of all rows, each with its line.
Diagnostics row_problems(const RunsTable& table);

// True if the schema has the column.
bool is_run_column(std::string_view name);

}  // namespace sim::input
