// failure_trace.cpp — reads a recorded trace of failures from CSV.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "sim/base/text.h"
#include "sim/input/plan/campaign.h"
#include "sim/input/tables/table_csv.h"
#include "sim/input/text/textproto.h"

namespace sim::input {
namespace {

// Reads a cell as a number. False, with a problem, if it is none or out of range.
bool number(const Table& table, const TableRow& row, const std::string& column, double most,
            double& value, Diagnostics& problems) {
  const auto cell = row.cells.find(column);
  if (cell == row.cells.end() || cell->second.empty()) return false;
  const std::string& text = cell->second;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc{} && end == text.data() + text.size() && value >= 0 && value <= most)
    return true;
  problems.push_back({fmt::format("{}:{}", table.path, row.line),
                      fmt::format("'{}' is '{}'; it must be a number from 0 to {}", column, text,
                                  shortest(most))});
  return false;
}

}  // namespace

Result<std::vector<TraceRow>> load_failure_trace(const std::string& path,
                                                 const std::vector<FailureFields>& kinds,
                                                 int nodes) {
  const Result<Table> table = load_table(path);
  if (!table) return table.errors();
  for (const char* column : {"seconds", "kind"})
    if (!table->has(column))
      return Diagnostics{
          {path + ":1", fmt::format("a trace of failures has the column '{}'", column)}};
  std::vector<std::string> names;
  for (const FailureFields& kind : kinds) names.push_back(kind.name);
  Diagnostics problems;
  std::vector<TraceRow> rows;
  for (const TableRow& from : table->rows) {
    if (problems.size() >= max_problems) break;
    const std::string where = fmt::format("{}:{}", path, from.line);
    TraceRow row;
    const bool timed = number(*table, from, "seconds", 3e9, row.seconds, problems);
    if (!timed && from.cells.at("seconds").empty())
      problems.push_back({where, "'seconds' is empty: when did it happen?"});
    if (!timed) row.seconds = rows.empty() ? 0 : rows.back().seconds;
    if (!rows.empty() && row.seconds < rows.back().seconds)
      problems.push_back(
          {where, fmt::format("out of order: {} s after {} s in the row above; sort "
                              "the trace by time",
                              shortest(row.seconds), shortest(rows.back().seconds))});
    const std::string& kind = from.cells.at("kind");
    const auto found = std::find(names.begin(), names.end(), kind);
    if (found == names.end())
      problems.push_back({where, fmt::format("the table of failures has no kind '{}'{}", kind,
                                             did_you_mean(kind, names))});
    row.kind = static_cast<int>(found - names.begin());
    double node = 0;
    if (number(*table, from, "node", std::max(0, nodes - 1), node, problems))
      row.node = static_cast<int>(node);
    number(*table, from, "repair_seconds", 3e9, row.repair, problems);
    rows.push_back(row);
  }
  if (!problems.empty()) return problems;
  return rows;
}

}  // namespace sim::input
