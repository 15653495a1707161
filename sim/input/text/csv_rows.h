// csv_rows.h — splits a CSV text into cells and records the line in which each row starts.
//
// The loaders of tables call it: runs_csv.h, table_csv.h, node_rates.h and the readers of
// calibrate. libcsv parses the text.
#pragma once

#include <string>
#include <vector>

#include "sim/base/result.h"

namespace sim::input {

struct CsvRow {
  int line = 0;
  std::vector<std::string> cells;
};

// Parses strict RFC 4180: a quote inside an unquoted cell is an error. Blank lines are skipped.
// `path` is the name that diagnostics show.
Result<std::vector<CsvRow>> csv_rows(const std::string& text, const std::string& path);

}  // namespace sim::input
