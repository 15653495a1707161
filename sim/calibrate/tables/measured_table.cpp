#include "sim/calibrate/tables/measured_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <map>

#include "sim/base/ascii.h"
#include "sim/base/real_number.h"
#include "sim/base/text.h"
#include "sim/calibrate/rows/row_text.h"
#include "sim/calibrate/tables/error_statistics.h"
#include "sim/input/text/textproto.h"
#include "sim/output/csv.h"

namespace sim::calibrate {

namespace {

bool has_unit(std::string_view column) {
  constexpr std::array<std::string_view, 10> units = {
      "us", "ms", "s", "mib", "gib", "gb", "bytes", "busbw", "efficiency", "tflops"};
  for (std::size_t start = 0; start < column.size();) {
    const std::size_t end = std::min(column.find('_', start), column.size());
    if (std::ranges::count(units, lower(column.substr(start, end - start))) > 0) return true;
    start = end + 1;
  }
  return false;
}

std::optional<double> error_of(const RowAnswer& answer, std::size_t quantity) {
  if (!answer.reason.empty()) return std::nullopt;
  const auto& predicted = answer.predicted[quantity];
  const auto& measured = answer.measured[quantity];
  if (!predicted || !measured) return std::nullopt;
  return *predicted / *measured - 1;
}

ErrorStatistics spread(const std::vector<RowAnswer>& answers, std::size_t quantity,
                       const std::string* group) {
  std::vector<std::pair<double, std::size_t>> errors;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (group != nullptr && answers[i].group != *group) continue;
    if (const std::optional<double> error = error_of(answers[i], quantity))
      errors.emplace_back(100 * *error, i + 1);
  }
  return statistics_of(errors);
}

std::vector<std::string> groups_of(const std::vector<RowAnswer>& answers) {
  std::vector<std::string> groups;
  for (const RowAnswer& a : answers) groups.push_back(a.group);
  std::sort(groups.begin(), groups.end());
  groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
  return groups;
}

const char* status_of(const RowAnswer& answer) {
  if (answer.reason.empty()) return "predicted";
  return answer.impossible ? "impossible" : "unsupported";
}

// The central 90 % of measured / predicted in rows of other groups, times this row's prediction.
std::optional<std::pair<double, double>> interval(const std::vector<RowAnswer>& answers,
                                                  std::size_t row, std::size_t quantity) {
  constexpr std::size_t fewest = 10;
  std::vector<double> ratios;
  for (const RowAnswer& a : answers) {
    if (a.group == answers[row].group) continue;
    if (const std::optional<double> error = error_of(a, quantity))
      ratios.push_back(1 / (1 + *error));
  }
  if (ratios.size() < fewest) return std::nullopt;
  std::sort(ratios.begin(), ratios.end());
  const double last = static_cast<double>(ratios.size() - 1);
  const double middle = *answers[row].predicted[quantity];
  return std::pair{middle * ratios[static_cast<std::size_t>(std::floor(0.05 * last))],
                   middle * ratios[static_cast<std::size_t>(std::ceil(0.95 * last))]};
}

}  // namespace

const std::string& text_in(const input::TableRow& row, std::string_view column) {
  static const std::string none;
  const auto found = row.cells.find(column);
  return found == row.cells.end() ? none : found->second;
}

std::optional<double> positive_in(const input::TableRow& row, std::string_view column) {
  const std::optional<double> value = number(text_in(row, column));
  return value && *value > 0 ? value : std::nullopt;
}

std::span<const MeasuredTable> measured_tables() {
  static const std::vector<MeasuredTable> all = {
      {"attention over context-parallel ranks",
       {"ulysses_degree", "ring_degree", "iters_per_s"},
       {"predicted_iter_per_s"},
       3,
       predict_context,
       context_summary},
      {"ZeRO-3 with the optimizer on the CPU",
       {"cpu_offload_ratio", "subgroup_params", "opt_gap_k", "step_ms"},
       {"predicted_iter_ms", "predicted_fwd_ms", "predicted_bwd_ms", "predicted_step_ms"},
       2,
       predict_offload,
       offload_summary},
      {"what-ifs with a known answer",
       {"base", "change", "step_ratio"},
       {"predicted_step_ratio"},
       3,
       predict_whatif,
       whatif_summary},
  };
  return all;
}

const MeasuredTable* measured_table(const input::Table& table) {
  for (const MeasuredTable& kind : measured_tables())
    if (std::ranges::all_of(kind.columns, [&](std::string_view c) { return table.has(c); }))
      return &kind;
  return nullptr;
}

Diagnostics cell_problems(const input::Table& table) {
  Diagnostics problems;
  for (const input::TableRow& row : table.rows)
    for (const std::string& column : table.columns) {
      if (!has_unit(column)) continue;
      const std::string& text = text_in(row, column);
      const std::optional<double> value = real_number(text);
      const bool word =
          !text.empty() && !value && std::isalpha(static_cast<unsigned char>(text[0]));
      if (text.empty() || word || (value && *value >= 0 && std::isfinite(*value))) continue;
      problems.push_back(
          {fmt::format("{}:{}", table.path, row.line),
           fmt::format("{} '{}' is not a number of zero or more; leave it blank where it "
                       "is not known",
                       column, text.substr(0, 80))});
      if (problems.size() == input::max_problems) return problems;
    }
  return problems;
}

std::vector<RowAnswer> predict(const MeasuredTable& kind, const input::Table& table,
                               answer::Sites& sites) {
  std::vector<RowAnswer> answers;
  for (const input::TableRow& row : table.rows) {
    RowAnswer& answer = answers.emplace_back(kind.predict(row, sites));
    answer.predicted.resize(kind.quantities.size());
    answer.measured.resize(kind.quantities.size());
  }
  return answers;
}

std::string to_csv(const MeasuredTable& kind, const std::vector<RowAnswer>& answers) {
  std::vector<std::string> columns = {"row", "status", "reason"};
  for (const std::string_view q : kind.quantities) columns.emplace_back(q);
  for (const std::string_view q : kind.quantities)
    for (const char* end : {"lo90", "hi90"}) columns.push_back(fmt::format("{}_{}", q, end));
  std::string text = output::csv_line(columns);
  const auto cell_of = [&](std::optional<double> value) {
    return value ? fmt::format("{:.{}f}", *value, kind.digits) : "";
  };
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const RowAnswer& a = answers[i];
    std::vector<std::string> cells = {fmt::format("{}", i + 1), status_of(a), a.reason};
    for (const auto& value : a.predicted) cells.push_back(cell_of(value));
    for (std::size_t q = 0; q < a.predicted.size(); ++q) {
      const auto around = a.predicted[q] ? interval(answers, i, q) : std::nullopt;
      cells.push_back(around ? cell_of(around->first) : "");
      cells.push_back(around ? cell_of(around->second) : "");
    }
    text += output::csv_line(cells);
  }
  return text;
}

output::Document document_of(const MeasuredTable& kind, const input::Table& table,
                             const std::vector<RowAnswer>& answers) {
  std::map<std::string, std::size_t> reasons;
  for (const RowAnswer& a : answers)
    if (!a.reason.empty()) ++reasons[a.reason];
  std::size_t missing = 0;
  for (const auto& [reason, count] : reasons) missing += count;
  const std::vector<output::Column> columns = statistics_columns("rows", "worst_row");
  output::Rows rows{"", "", columns, {}};
  rows.columns.insert(rows.columns.begin(),
                      {{"", "quantity", "", 0, true}, {"", "rows", "", 0, true}});
  output::Json quantities = output::Json::object();
  const auto add = [&](std::size_t q, const std::string& name, const ErrorStatistics& s) {
    if (s.rows == 0) return;
    const std::string_view quantity = kind.quantities[q];
    std::vector<output::Json> cells = statistics_cells(s);
    quantities[std::string(quantity)][name] = output::to_json(columns, cells);
    cells.insert(cells.begin(),
                 {std::string(quantity.substr(quantity.find('_') + 1)), output::Json(name)});
    rows.cells.push_back(std::move(cells));
  };
  for (std::size_t q = 0; q < kind.quantities.size(); ++q) {
    quantities[std::string(kind.quantities[q])] = output::Json::object();
    add(q, "all", spread(answers, q, nullptr));
  }
  for (std::size_t q = 0; q < kind.quantities.size(); ++q)
    for (const std::string& group : groups_of(answers)) add(q, group, spread(answers, q, &group));
  output::Document document;
  document.blocks.emplace_back(
      output::Note{"",
                   fmt::format("{}: {}, {} predicted", kind.name,
                               counted(std::ssize(answers), "row"), answers.size() - missing),
                   true});
  document.blocks.emplace_back(output::Values{"",
                                              {output::value("table", "", std::string(kind.name)),
                                               output::value("rows", "", answers.size())}});
  document.blocks.emplace_back(output::Data{"quantities", std::move(quantities)});
  if (rows.cells.empty()) document.blocks.emplace_back(output::Note{"", "nothing to compare"});
  rows.searched = rows.cells.empty();
  document.blocks.emplace_back(std::move(rows));
  if (kind.summary != nullptr)
    document.blocks.emplace_back(output::Note{"", kind.summary(table, answers), false, "summary"});
  document.blocks.emplace_back(reason_rows(reasons, "rows"));
  return document;
}

}  // namespace sim::calibrate
