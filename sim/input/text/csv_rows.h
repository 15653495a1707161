// csv_rows.h — splits a CSV text into cells and records the line in which each row starts.
//
// The loaders of tables call it: runs_csv.h, table_csv.h, node_rates.h and the readers of
// calibrate. libcsv parses the text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/result.h"

namespace sim::input {

// The largest table that is read.
constexpr std::int64_t max_table_bytes = 256 << 20;

struct CsvRow {
  int line = 0;
  std::vector<std::string> cells;
};

// Parses strict RFC 4180: a quote inside an unquoted cell is an error. Blank lines are skipped,
// and lines that begin with # before the first row (comments of `rehearse init runs`).
// `path` is the name that diagnostics show.
Result<std::vector<CsvRow>> csv_rows(const std::string& text, const std::string& path);

// A cell without the blanks around it.
std::string trimmed(const std::string& cell);

}  // namespace sim::input
