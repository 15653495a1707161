// spread.h — how far predictions of a table lie from what was measured, in percent.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/output/document.h"

namespace sim::calibrate {

// |predicted - measured| / measured of some lines, percent; the bias keeps its sign.
struct Spread {
  std::size_t rows = 0;
  double mean = 0, median = 0, p90 = 0, most = 0, bias = 0;
  std::size_t worst = 0;  // line
};

// The nine-in-ten value among `count` sorted ones, by the nearest rank: at least nine of ten are no
// larger. REQUIRES: count > 0.
constexpr std::size_t p90_index(std::size_t count) {
  return (9 * count + 9) / 10 - 1;
}

// Of signed errors in percent, each with its line.
Spread spread_of(const std::vector<std::pair<double, std::size_t>>& errors);

// As columns of a table; `rows` and `worst` are what lines of it are called in JSON.
std::vector<output::Column> spread_columns(const char* rows, const char* worst);
std::vector<output::Json> spread_cells(const Spread& spread);

// "rows without a prediction": how many for which reason.
output::Rows reason_rows(const std::map<std::string, std::size_t>& reasons, const char* what);

}  // namespace sim::calibrate
