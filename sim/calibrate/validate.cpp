#include "sim/calibrate/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <map>

#include "sim/calibrate/row_text.h"
#include "sim/report/table.h"

namespace sim::calibrate {

namespace {

using report::Json;

std::string percent(double value) {
  return fmt::format("{:.2f} %", value);
}

std::optional<double> measured(const Row& row, const Quantity& quantity) {
  const std::optional<double> value = number(cell(row, quantity.column));
  return value && *value > 0 ? value : std::nullopt;
}

// Predicted and measured, when the row and the prediction both have it and the run went through.
std::optional<double> relative_error(const Row& row, const Prediction& prediction,
                                     const Quantity& quantity) {
  if (prediction.status != "predicted" || cell(row, "oom") == "1") return std::nullopt;
  const std::optional<double> truth = measured(row, quantity);
  const std::optional<double> said = quantity.predicted(prediction);
  if (!truth || !said) return std::nullopt;
  return (*said - *truth) / *truth;
}

// A group of rows: their indices in the table.
using Group = std::vector<std::size_t>;

std::map<std::string, Group> groups_by(const std::vector<Row>& rows, const char* column) {
  std::map<std::string, Group> groups;
  for (std::size_t i = 0; i < rows.size(); ++i) groups[cell(rows[i], column)].push_back(i);
  return groups;
}

template <class T>
std::vector<T> select(const std::vector<T>& all, const Group& group) {
  std::vector<T> some;
  for (const std::size_t i : group) some.push_back(all[i]);
  return some;
}

void add_rows(report::Table& table, const std::string& name, const std::vector<Row>& rows,
              const std::vector<Prediction>& predictions) {
  for (const Quantity& quantity : quantities()) {
    const Errors e = errors(rows, predictions, quantity);
    if (e.rows == 0) continue;
    table.row({name, quantity.name, fmt::format("{}", e.rows), percent(e.mean), percent(e.median),
               percent(e.p90), percent(e.most), e.worst, fmt::format("{:+.2f} %", e.bias)});
  }
}

report::Table error_table() {
  return report::Table(
      {"<group", "<quantity", "rows", "mean", "median", "p90", "max", "<worst row", "bias"});
}

std::string outcome_text(const std::vector<Row>& rows, const std::vector<Prediction>& predictions) {
  std::string text;
  for (const bool by_rule : {false, true}) {
    const Outcomes o = outcomes(rows, predictions, by_rule);
    if (o.rows() == 0) continue;
    report::Table table({by_rule ? "<80 % rule of the closed form" : "<replay", "measured: ran",
                         "measured: out of memory"});
    for (const int said : {0, 1}) {
      table.row({said == 0 ? "says it fits" : "says out of memory",
                 fmt::format("{}", o.counts[0][said]), fmt::format("{}", o.counts[1][said])});
    }
    text += fmt::format("\n{} outcome right in {:.1f} % of {} rows\n",
                        by_rule ? "closed form:" : "replay:", o.right_pct(), o.rows()) +
            table.text();
  }
  return text;
}

std::string missing_text(const std::vector<Prediction>& predictions) {
  std::map<std::pair<std::string, std::string>, std::size_t> counts;
  for (const Prediction& p : predictions) {
    if (p.status != "predicted") ++counts[{p.status, p.reason}];
  }
  if (counts.empty()) return "";
  report::Table table({"rows", "<status", "<reason"});
  for (const auto& [why, count] : counts) {
    table.row({fmt::format("{}", count), why.first, why.second});
  }
  return "\nrows without a prediction\n" + table.text();
}

std::string row_text(const std::vector<Row>& rows, const std::vector<Prediction>& predictions) {
  report::Table table({"<row", "<plan", "<outcome", "TFLOP/s", "said", "error", "time s", "said",
                       "allocated", "said", "reserved", "said"});
  const auto cells = [](const Row& row, const Prediction& p, const Quantity& quantity,
                        std::vector<std::string>& out) {
    const std::optional<double> truth = measured(row, quantity);
    const std::optional<double> said = quantity.predicted(p);
    out.push_back(truth ? fmt::format("{:.2f}", *truth) : "");
    out.push_back(said ? fmt::format("{:.2f}", *said) : "");
  };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Prediction& p = predictions[i];
    if (p.status != "predicted") continue;
    const bool ran = cell(rows[i], "oom") != "1";
    std::vector<std::string> row = {
        p.row_id, p.plan, fmt::format("{}/{}", ran ? "ran" : "oom", *p.oom ? "oom" : "fits")};
    cells(rows[i], p, quantities()[0], row);
    const std::optional<double> error = relative_error(rows[i], p, quantities()[0]);
    row.push_back(error ? fmt::format("{:+.1f} %", 100 * *error) : "");
    for (std::size_t q = 1; q < 4; ++q) cells(rows[i], p, quantities()[q], row);
    table.row(row);
  }
  return table.empty() ? "" : "\nrow by row (outcome: measured/said; GiB)\n" + table.text();
}

Json json_of(const Errors& e) {
  return {{"rows", e.rows},    {"mean_pct", e.mean},   {"median_pct", e.median}, {"p90_pct", e.p90},
          {"max_pct", e.most}, {"worst_row", e.worst}, {"bias_pct", e.bias}};
}

Json json_of(const std::vector<Row>& rows, const std::vector<Prediction>& predictions) {
  Json json = Json::object();
  for (const Quantity& quantity : quantities()) {
    const Errors e = errors(rows, predictions, quantity);
    if (e.rows > 0) json[quantity.column] = json_of(e);
  }
  for (const bool by_rule : {false, true}) {
    const Outcomes o = outcomes(rows, predictions, by_rule);
    if (o.rows() == 0) continue;
    json[by_rule ? "outcome_80_percent_rule" : "outcome"] = {{"rows", o.rows()},
                                                             {"right_pct", o.right_pct()},
                                                             {"ran_said_fits", o.counts[0][0]},
                                                             {"ran_said_oom", o.counts[0][1]},
                                                             {"oom_said_fits", o.counts[1][0]},
                                                             {"oom_said_oom", o.counts[1][1]}};
  }
  return json;
}

}  // namespace

const std::vector<Quantity>& quantities() {
  static const std::vector<Quantity> all = {
      {"throughput", "tflops_gpu", [](const Prediction& p) { return p.tflops_gpu; }},
      {"iteration time", "iter_time_s", [](const Prediction& p) { return p.iter_time_s; }},
      {"peak allocated", "mem_alloc_peak_gib", [](const Prediction& p) { return p.allocated_gib; }},
      {"peak reserved", "mem_reserved_peak_gib",
       [](const Prediction& p) { return p.reserved_gib; }},
      {"bubble", "bubble_pct", [](const Prediction& p) { return p.bubble_pct; }},
  };
  return all;
}

Errors errors(const std::vector<Row>& rows, const std::vector<Prediction>& predictions,
              const Quantity& quantity) {
  assert(rows.size() == predictions.size());
  std::vector<std::pair<double, std::string>> found;
  Errors out;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::optional<double> error = relative_error(rows[i], predictions[i], quantity);
    if (!error) continue;
    found.emplace_back(std::abs(*error) * 100, predictions[i].row_id);
    out.mean += std::abs(*error) * 100;
    out.bias += *error * 100;
  }
  if (found.empty()) return out;
  std::sort(found.begin(), found.end());
  const std::size_t n = found.size();
  out.rows = n;
  out.mean /= static_cast<double>(n);
  out.bias /= static_cast<double>(n);
  out.median = n % 2 == 1 ? found[n / 2].first : (found[n / 2 - 1].first + found[n / 2].first) / 2;
  out.p90 = found[static_cast<std::size_t>(0.9 * static_cast<double>(n - 1))].first;
  out.most = found.back().first;
  out.worst = found.back().second;
  return out;
}

std::size_t Outcomes::rows() const {
  return counts[0][0] + counts[0][1] + counts[1][0] + counts[1][1];
}

double Outcomes::right_pct() const {
  const std::size_t all = rows();
  return all == 0
             ? 0
             : 100.0 * static_cast<double>(counts[0][0] + counts[1][1]) / static_cast<double>(all);
}

Outcomes outcomes(const std::vector<Row>& rows, const std::vector<Prediction>& predictions,
                  bool by_rule) {
  assert(rows.size() == predictions.size());
  Outcomes out;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string& truth = cell(rows[i], "oom");
    const std::optional<bool>& said = by_rule ? predictions[i].rule_says_oom : predictions[i].oom;
    if ((truth != "0" && truth != "1") || !said) continue;
    ++out.counts[truth == "1"][*said];
  }
  return out;
}

std::string validation_text(const std::vector<Row>& rows,
                            const std::vector<Prediction>& predictions) {
  const auto with = [&](const char* status) {
    return std::count_if(predictions.begin(), predictions.end(),
                         [&](const Prediction& p) { return p.status == status; });
  };
  std::string text =
      fmt::format("{} rows: {} predicted, {} unsupported, {} impossible\n\n", rows.size(),
                  with("predicted"), with("unsupported"), with("impossible"));
  report::Table table = error_table();
  add_rows(table, "all", rows, predictions);
  for (const char* column : {"source_group", "gpu"}) {
    const std::map<std::string, Group> groups = groups_by(rows, column);
    if (groups.size() < 2) continue;
    for (const auto& [name, group] : groups) {
      add_rows(table, name, select(rows, group), select(predictions, group));
    }
  }
  text += table.empty() ? "nothing to compare\n" : table.text("");
  return text + outcome_text(rows, predictions) + missing_text(predictions) +
         row_text(rows, predictions);
}

Json validation_json(const std::vector<Row>& rows, const std::vector<Prediction>& predictions) {
  Json groups = Json::object();
  for (const auto& [name, group] : groups_by(rows, "source_group")) {
    groups[name] = json_of(select(rows, group), select(predictions, group));
  }
  Json all = Json::array();
  for (const Prediction& p : predictions) all.push_back(Json::parse(to_text(p)));
  return {{"rows", rows.size()},
          {"overall", json_of(rows, predictions)},
          {"groups", std::move(groups)},
          {"predictions", std::move(all)}};
}

}  // namespace sim::calibrate
