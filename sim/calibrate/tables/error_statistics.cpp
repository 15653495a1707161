#include "sim/calibrate/tables/error_statistics.h"

#include <algorithm>
#include <cmath>

namespace sim::calibrate {

ErrorStatistics statistics_of(const std::vector<std::pair<double, std::size_t>>& errors) {
  ErrorStatistics out;
  std::vector<std::pair<double, std::size_t>> found;
  for (const auto& [error, line] : errors) {
    found.emplace_back(std::abs(error), line);
    out.mean += std::abs(error);
    out.bias += error;
  }
  if (found.empty()) return out;
  std::sort(found.begin(), found.end());
  out.rows = found.size();
  const double n = static_cast<double>(out.rows);
  out.mean /= n;
  out.bias /= n;
  out.median = (found[(out.rows - 1) / 2].first + found[out.rows / 2].first) / 2;
  out.p90 = found[p90_index(out.rows)].first;
  out.most = found.back().first;
  out.worst = found.back().second;
  return out;
}

std::vector<output::Column> statistics_columns(const char* rows, const char* worst) {
  const auto percent = [](const char* key, const char* heading) {
    return output::Column{key, heading, "", 2, false, " %"};
  };
  return {{rows, "number"},
          percent("mean_pct", "mean"),
          percent("median_pct", "median"),
          percent("p90_pct", "p90"),
          percent("max_pct", "max"),
          {worst, "worst"},
          {"bias_pct", "bias", "", 2, false, " %", 1, output::Show::change}};
}

std::vector<output::Json> statistics_cells(const ErrorStatistics& s) {
  return {s.rows, s.mean, s.median, s.p90, s.most, s.worst, s.bias};
}

output::Rows reason_rows(const std::map<std::string, std::size_t>& reasons, const char* what) {
  output::Rows rows{"missing",
                    std::string(what) + " without a prediction",
                    {{"count", what}, {"reason", "reason", "", 0, true}},
                    {}};
  for (const auto& [reason, count] : reasons) rows.cells.push_back({count, reason});
  rows.searched = rows.cells.empty();
  return rows;
}

}  // namespace sim::calibrate
