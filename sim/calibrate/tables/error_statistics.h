// error_statistics.h — statistics of prediction errors of a table, in percent.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/output/document.h"

namespace sim::calibrate {

// Statistics of |predicted - measured| / measured, in percent; the bias keeps its sign.
struct ErrorStatistics {
  std::size_t rows = 0;
  double mean = 0, median = 0, p90 = 0, most = 0, bias = 0;
  std::size_t worst = 0;  // line with the largest error
};

// Index of the 90th percentile among `count` sorted values, by the nearest rank. REQUIRES: count >
// 0.
constexpr std::size_t p90_index(std::size_t count) {
  return (9 * count + 9) / 10 - 1;
}

// Statistics of signed errors in percent, each with its line.
ErrorStatistics statistics_of(const std::vector<std::pair<double, std::size_t>>& errors);

// Columns of a table; `rows` and `worst` are the JSON names of the count and of the worst line.
std::vector<output::Column> statistics_columns(const char* rows, const char* worst);
std::vector<output::Json> statistics_cells(const ErrorStatistics& spread);

// The table "rows without a prediction": number of rows per reason.
output::Rows reason_rows(const std::map<std::string, std::size_t>& reasons, const char* what);

}  // namespace sim::calibrate
