#include "sim/calibrate/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "sim/calibrate/ranking.h"
#include "sim/report/table.h"

namespace sim::calibrate {

namespace {

using report::Json;

std::string percent(double value) {
  return fmt::format("{:.2f} %", value);
}

// "91.2 %" of the rows with an interval.
std::string share(std::size_t inside, std::size_t of) {
  if (of == 0) return "";
  return fmt::format("{:.1f} %", 100 * static_cast<double>(inside) / static_cast<double>(of));
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
               percent(e.p90), percent(e.most), e.worst, fmt::format("{:+.2f} %", e.bias),
               share(e.inside, e.with_interval),
               share(e.inside_elsewhere, e.with_interval_elsewhere)});
  }
}

report::Table error_table() {
  return report::Table({"<group", "<quantity", "rows", "mean", "median", "p90", "max", "<worst row",
                        "bias", "in 90 %", "unseen"});
}

// Rows that their profile was fitted on, and the others.
std::pair<Group, Group> by_use(const std::vector<Prediction>& predictions) {
  std::pair<Group, Group> groups;
  for (std::size_t i = 0; i < predictions.size(); ++i) {
    if (predictions[i].status != "predicted") continue;
    (predictions[i].fitted ? groups.first : groups.second).push_back(i);
  }
  return groups;
}

std::string use_text(std::size_t fitted) {
  return fmt::format(
      "in 90 %: measured values inside the prediction's 90 % interval; unseen: the same when the "
      "intervals\nknow nothing of the row's source. {}\n",
      fitted == 0 ? "No profile was fitted on any of these rows."
                  : fmt::format("Profiles were fitted on {} of these rows.", fitted));
}

// Of the points that were given such a probability, how many ran.
std::string probability_text(const std::vector<Row>& rows,
                             const std::vector<Prediction>& predictions) {
  struct Given {
    std::size_t points = 0, ran = 0;
    double sum = 0;
  };
  std::map<double, Given> given;  // by tenths
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string& truth = cell(rows[i], "oom");
    if ((truth != "0" && truth != "1") || !predictions[i].fits_probability) continue;
    Given& at = given[std::round(*predictions[i].fits_probability * 10)];
    ++at.points;
    at.ran += truth == "0";
    at.sum += *predictions[i].fits_probability;
  }
  if (given.size() < 3) return "";
  report::Table table({"probability that it fits", "rows", "ran"});
  for (const auto& [tenth, g] : given) {
    const double points = static_cast<double>(g.points);
    table.row({fmt::format("{:.0f} %", 100 * g.sum / points), fmt::format("{}", g.points),
               fmt::format("{:.0f} %", 100 * static_cast<double>(g.ran) / points)});
  }
  return table.text();
}

std::string outcome_text(const std::vector<Row>& rows, const std::vector<Prediction>& predictions) {
  std::string text;
  for (const Judge judge : {Judge::replay, Judge::rule}) {
    const Outcomes o = outcomes(rows, predictions, judge);
    if (o.rows() == 0) continue;
    report::Table table({judge == Judge::rule ? "<80 % rule of the closed form" : "<replay",
                         "measured: ran", "measured: out of memory"});
    for (const int said : {0, 1}) {
      table.row({said == 0 ? "says it fits" : "says out of memory",
                 fmt::format("{}", o.counts[0][said]), fmt::format("{}", o.counts[1][said])});
    }
    text +=
        fmt::format("\n{} outcome right in {:.1f} % of {} rows\n",
                    judge == Judge::rule ? "closed form:" : "replay:", o.right_pct(), o.rows()) +
        table.text();
    if (judge == Judge::rule) continue;
    const Outcomes sure = outcomes(rows, predictions, Judge::decided);
    text += fmt::format(
                "decided: {} rows, right in {:.1f} %; tight: {} rows; with those on their "
                "more likely side: right in {:.1f} %\n",
                sure.rows(), sure.right_pct(), o.rows() - sure.rows(),
                outcomes(rows, predictions, Judge::likely).right_pct()) +
            probability_text(rows, predictions);
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

std::string apart_text(const std::vector<Row>& rows, const std::vector<Prediction>& predictions) {
  const config::RunResiduals residuals = residuals_of(rows, predictions, "");
  report::Table table({"<situation", "<one", "<other", "apart", "noise"});
  for (const SourcesApart& one : sources_apart(residuals))
    table.row({one.situation, one.one, one.other, fmt::format("{:.1f} %", one.percent),
               fmt::format("{:.1f} %", one.noise_percent)});
  return table.empty() ? ""
                       : "\nsources whose times disagree by more than their noise (medians of "
                         "ln measured / predicted)\n" +
                             table.text();
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
    cells(rows[i], p, quantities()[throughput], row);
    const std::optional<double> error = relative_error(rows[i], p, quantities()[throughput]);
    row.push_back(error ? fmt::format("{:+.1f} %", 100 * *error) : "");
    for (const std::size_t q : {iteration_time, allocated, reserved})
      cells(rows[i], p, quantities()[q], row);
    table.row(row);
  }
  return table.empty() ? "" : "\nrow by row (outcome: measured/said; GiB)\n" + table.text();
}

Json json_of(const Errors& e) {
  return {{"rows", e.rows},
          {"mean_pct", e.mean},
          {"median_pct", e.median},
          {"p90_pct", e.p90},
          {"max_pct", e.most},
          {"worst_row", e.worst},
          {"bias_pct", e.bias},
          {"with_interval", e.with_interval},
          {"inside_interval", e.inside},
          {"with_interval_unseen", e.with_interval_elsewhere},
          {"inside_interval_unseen", e.inside_elsewhere}};
}

Json json_of(const std::vector<Row>& rows, const std::vector<Prediction>& predictions) {
  Json json = Json::object();
  for (const Quantity& quantity : quantities()) {
    const Errors e = errors(rows, predictions, quantity);
    if (e.rows > 0) json[quantity.column] = json_of(e);
  }
  const std::pair<Judge, const char*> judges[] = {{Judge::replay, "outcome"},
                                                  {Judge::decided, "outcome_decided"},
                                                  {Judge::likely, "outcome_likely"},
                                                  {Judge::rule, "outcome_80_percent_rule"}};
  for (const auto& [judge, key] : judges) {
    const Outcomes o = outcomes(rows, predictions, judge);
    if (o.rows() == 0) continue;
    json[key] = {{"rows", o.rows()},
                 {"right_pct", o.right_pct()},
                 {"ran_said_fits", o.counts[0][0]},
                 {"ran_said_oom", o.counts[0][1]},
                 {"oom_said_fits", o.counts[1][0]},
                 {"oom_said_oom", o.counts[1][1]}};
  }
  return json;
}

// The prediction with the interval of each quantity.
Json json_of(const Prediction& p) {
  Json json = Json::parse(to_text(p));
  Json intervals = Json::object();
  for (std::size_t q = 0; q < p.intervals.size(); ++q) {
    if (!p.intervals[q]) continue;
    intervals[quantities()[q].column] = {{"lo90", p.intervals[q]->low},
                                         {"hi90", p.intervals[q]->high}};
  }
  json["intervals"] = std::move(intervals);
  return json;
}

}  // namespace

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
  const auto [fitted, others] = by_use(predictions);
  if (!fitted.empty()) {
    add_rows(table, "fitted on", select(rows, fitted), select(predictions, fitted));
    add_rows(table, "not fitted on", select(rows, others), select(predictions, others));
  }
  for (const char* column : {"source_group", "gpu"}) {
    const std::map<std::string, Group> groups = groups_by(rows, column);
    if (groups.size() < 2) continue;
    for (const auto& [name, group] : groups) {
      add_rows(table, name, select(rows, group), select(predictions, group));
    }
  }
  text += table.empty() ? "nothing to compare\n" : table.text("");
  if (!table.empty()) text += use_text(fitted.size());
  return text + outcome_text(rows, predictions) + ranking_text(ranking(rows, predictions)) +
         apart_text(rows, predictions) + missing_text(predictions) + row_text(rows, predictions);
}

Json validation_json(const std::vector<Row>& rows, const std::vector<Prediction>& predictions) {
  Json groups = Json::object();
  for (const auto& [name, group] : groups_by(rows, "source_group")) {
    groups[name] = json_of(select(rows, group), select(predictions, group));
  }
  Json all = Json::array();
  for (const Prediction& p : predictions) all.push_back(json_of(p));
  const auto [fitted, others] = by_use(predictions);
  return {{"rows", rows.size()},
          {"overall", json_of(rows, predictions)},
          {"fitted_on", json_of(select(rows, fitted), select(predictions, fitted))},
          {"not_fitted_on", json_of(select(rows, others), select(predictions, others))},
          {"groups", std::move(groups)},
          {"predictions", std::move(all)}};
}

}  // namespace sim::calibrate
