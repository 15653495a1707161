// runs_csv.h — reads a table of measured runs: the schema of calibration/measured/README.md, one
// row per run, in CSV as RFC 4180 has it (quotes, commas and line ends inside of quotes).
//
// A column may be missing (memory tables have fewer); a misspelt one is an error, an unknown one is
// passed on and named. A row that is broken is kept, with what is wrong: nothing is dropped.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/result.h"

namespace sim::input {

struct RunsRow {
  int line = 0;                                           // of its first character in the file
  std::map<std::string, std::string, std::less<>> cells;  // column -> text; all columns
  std::vector<std::string> problems;                      // empty: the row can be used

  const std::string& text(std::string_view column) const;  // "" when absent or blank
  // REQUIRES: the row has no problems and the column is a numeric one.
  std::optional<double> number(std::string_view column) const;
};

struct RunsTable {
  std::string path;
  std::vector<std::string> columns;          // as in the header
  std::vector<std::string> unknown_columns;  // of these; kept in the rows
  std::vector<RunsRow> rows;                 // in the order of the file
};

Result<RunsTable> load_runs(const std::string& path);

// What is wrong with rows, each with its line.
Diagnostics row_problems(const RunsTable& table);

// Is it a column of the schema?
bool is_run_column(std::string_view name);

}  // namespace sim::input
