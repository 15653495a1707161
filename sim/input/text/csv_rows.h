// csv_rows.h — the cells of a CSV text, with the line each row starts in. libcsv does the parsing.
#pragma once

#include <string>
#include <vector>

#include "sim/base/result.h"

namespace sim::input {

struct CsvRow {
  int line = 0;
  std::vector<std::string> cells;
};

// RFC 4180, strictly: a quote inside an unquoted cell is an error. Blank lines are passed over.
Result<std::vector<CsvRow>> csv_rows(const std::string& text, const std::string& path);

}  // namespace sim::input
