#include "sim/calibrate/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "sim/base/text.h"
#include "sim/calibrate/ranking.h"
#include "sim/output/document.h"

namespace sim::calibrate {

namespace {

using output::Json;

// Percentage of the rows with an interval; null without such rows.
Json share(std::size_t inside, std::size_t of) {
  return of == 0 ? Json(nullptr)
                 : Json(100 * static_cast<double>(inside) / static_cast<double>(of));
}

// A group of rows, as indices in the table.
using Group = std::vector<std::size_t>;

// Groups of rows with equal values in all these columns; named like "mixtral, H100-SXM".
std::map<std::string, Group> groups_by(const std::vector<Row>& rows,
                                       const std::vector<std::string>& columns) {
  std::map<std::string, Group> groups;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::vector<std::string> cells;
    for (const std::string& column : columns) cells.push_back(cell(rows[i], column));
    groups[fmt::format("{}", fmt::join(cells, ", "))].push_back(i);
  }
  return groups;
}

template <class T>
std::vector<T> select(const std::vector<T>& all, const Group& group) {
  std::vector<T> some;
  for (const std::size_t i : group) some.push_back(all[i]);
  return some;
}

// Columns of the errors in one quantity, for text and JSON.
std::vector<output::Column> error_columns() {
  const auto percent = [](const char* key, const char* heading, int digits) {
    return output::Column{key, heading, "", digits};
  };
  return {{"rows", "rows"},
          percent("mean_pct", "mean", 2),
          percent("median_pct", "median", 2),
          percent("p90_pct", "p90", 2),
          percent("max_pct", "max", 2),
          {"worst_row", "worst row", "", 0, true},
          {"bias_pct", "bias", "", 2, false, "", 1, output::Show::change},
          {"with_interval"},
          {"inside_interval"},
          percent("", "in 90 %", 1),
          {"with_interval_unseen"},
          {"inside_interval_unseen"},
          percent("", "unseen", 1)};
}

std::vector<Json> error_cells(const Errors& e) {
  return {e.rows,
          e.mean,
          e.median,
          e.p90,
          e.most,
          e.worst,
          e.bias,
          e.with_interval,
          e.inside,
          share(e.inside, e.with_interval),
          e.with_interval_elsewhere,
          e.inside_elsewhere,
          share(e.inside_elsewhere, e.with_interval_elsewhere)};
}

void add_rows(output::Rows& table, const std::string& name, const std::vector<Row>& rows,
              const std::vector<Prediction>& predictions) {
  for (const Quantity& quantity : quantities()) {
    const Errors e = errors(rows, predictions, quantity);
    if (e.rows == 0) continue;
    std::vector<Json> cells = error_cells(e);
    cells.insert(cells.begin(), {Json(name), Json(quantity.name)});
    table.cells.push_back(std::move(cells));
  }
}

output::Rows error_table() {
  output::Rows table{
      "",
      "errors (|predicted / measured - 1|), and shares inside of intervals, in percent",
      error_columns(),
      {}};
  table.columns.insert(table.columns.begin(),
                       {{"", "group", "", 0, true}, {"", "quantity", "", 0, true}});
  return table;
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

// Text on rows that are left out of the errors.
std::string left_out_text(const std::vector<Row>& rows,
                          const std::vector<Prediction>& predictions) {
  const auto number = [](std::ptrdiff_t n) {
    return n == 1 ? std::string("1 row is") : fmt::format("{} rows are", n);
  };
  std::string text;
  const auto assumed = std::ranges::count(predictions, true, &Prediction::assumes_gpus);
  if (assumed > 0)
    text += fmt::format("{} not among them: on how many GPUs {} ran is not published.\n",
                        number(assumed), assumed == 1 ? "it" : "they");
  std::ptrdiff_t ran = 0;
  for (std::size_t i = 0; i < rows.size(); ++i)
    ran += measured_out_of_memory(rows[i]) == false && predictions[i].oom == true;
  if (ran > 0)
    text += fmt::format(
        "{} not among them: {} ran, but the replay runs out of memory and has no time or peak.\n",
        number(ran), ran == 1 ? "it" : "they");
  return text;
}

std::string use_text(std::size_t fitted) {
  return fmt::format(
      "in 90 %: measured values inside the prediction's 90 % interval, made without the row "
      "itself;\n"
      "unseen: the same when made without the row's source. {}\n",
      fitted == 0 ? "No profile was fitted on any of these rows."
                  : fmt::format("Profiles were fitted on {} of these rows.", fitted));
}

std::vector<output::Column> outcome_columns() {
  return {{"rows"},         {"right_pct"},     {"ran_said_fits"},
          {"ran_said_oom"}, {"oom_said_fits"}, {"oom_said_oom"}};
}

std::vector<Json> outcome_cells(const Outcomes& o) {
  return {o.rows(), o.right_pct(), o.counts[0][0], o.counts[0][1], o.counts[1][0], o.counts[1][1]};
}

// Adds a two-by-two table of outcomes for each predictor.
void add_outcomes(output::Document& document, const std::vector<Row>& rows,
                  const std::vector<Prediction>& predictions) {
  for (const Judge judge : {Judge::replay, Judge::rule}) {
    const Outcomes o = outcomes(rows, predictions, judge);
    if (o.rows() == 0) continue;
    const bool by_rule = judge == Judge::rule;
    output::Rows table{
        "",
        fmt::format("{} outcome right in {:.1f} % of {}",
                    by_rule ? "closed form:" : "replay:", o.right_pct(), counted(o.rows(), "row")),
        {{"", by_rule ? "80 % rule of the closed form" : "replay", "", 0, true},
         {"", "measured: ran"},
         {"", "measured: out of memory"}},
        {}};
    for (const int said : {0, 1})
      table.cells.push_back({said == 0 ? "says it fits" : "says out of memory", o.counts[0][said],
                             o.counts[1][said]});
    if (!by_rule) {
      const Outcomes sure = outcomes(rows, predictions, Judge::decided);
      table.footnote = fmt::format(
          "decided: {}, right in {:.1f} %; tight: {}; with those on their more likely side: "
          "right in {:.1f} %\n",
          counted(sure.rows(), "row"), sure.right_pct(), counted(o.rows() - sure.rows(), "row"),
          outcomes(rows, predictions, Judge::likely).right_pct());
    }
    document.blocks.emplace_back(std::move(table));
    if (!by_rule) document.blocks.emplace_back(probability_rows(rows, predictions));
  }
}

output::Rows missing_rows(const std::vector<Prediction>& predictions) {
  std::map<std::pair<std::string, std::string>, std::size_t> counts;
  for (const Prediction& p : predictions) {
    if (p.status != "predicted") ++counts[{p.status, p.reason}];
  }
  output::Rows table{
      "missing",
      "rows without a prediction",
      {{"rows", "rows"}, {"status", "status", "", 0, true}, {"reason", "reason", "", 0, true}},
      {}};
  for (const auto& [why, count] : counts) table.cells.push_back({count, why.first, why.second});
  return table;
}

output::Rows apart_rows(const std::vector<Row>& rows, const std::vector<Prediction>& predictions) {
  const input::RunResiduals residuals = residuals_of(rows, predictions, "");
  output::Rows table{"sources_apart",
                     "sources whose times disagree by more than their noise (medians of ln "
                     "measured / predicted)",
                     {{"situation", "situation", "", 0, true},
                      {"one", "one", "", 0, true},
                      {"other", "other", "", 0, true},
                      {"apart_pct", "apart", "", 1, false, " %"},
                      {"noise_pct", "noise", "", 1, false, " %"}},
                     {}};
  for (const SourcesApart& one : sources_apart(residuals))
    table.cells.push_back({one.situation, one.one, one.other, one.percent, one.noise_percent});
  return table;
}

// Table of all rows, for text only: the predictions in JSON contain these numbers.
output::Rows row_by_row(const std::vector<Row>& rows, const std::vector<Prediction>& predictions) {
  output::Rows table{"",
                     "row by row (outcome: measured/said; GiB)",
                     {{"", "row", "", 0, true},
                      {"", "plan", "", 0, true},
                      {"", "outcome", "", 0, true},
                      {"", "TFLOP/s"},
                      {"", "said"},
                      {"", "error", "", 1, false, " %", 1, output::Show::change},
                      {"", "time s"},
                      {"", "said"},
                      {"", "allocated"},
                      {"", "said"},
                      {"", "reserved"},
                      {"", "said"}},
                     {}};
  const auto number = [](const std::optional<double>& value) {
    return value ? Json(*value) : Json(nullptr);
  };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Prediction& p = predictions[i];
    if (p.status != "predicted") continue;
    const bool ran = cell(rows[i], "oom") != "1";
    const auto add = [&](const Quantity& quantity, std::vector<Json>& out) {
      out.push_back(number(measured(rows[i], quantity)));
      out.push_back(number(quantity.predicted(p)));
    };
    std::vector<Json> cells = {p.row_id, p.plan,
                               fmt::format("{}/{}", ran ? "ran" : "oom", *p.oom ? "oom" : "fits")};
    add(quantities()[throughput], cells);
    const std::optional<double> error = relative_error(rows[i], p, quantities()[throughput]);
    cells.push_back(error ? Json(100 * *error) : Json(nullptr));
    for (const std::size_t q : {iteration_time, allocated, reserved}) add(quantities()[q], cells);
    table.cells.push_back(std::move(cells));
  }
  return table;
}

Json json_of(const std::vector<Row>& rows, const std::vector<Prediction>& predictions) {
  Json json = Json::object();
  for (const Quantity& quantity : quantities()) {
    const Errors e = errors(rows, predictions, quantity);
    if (e.rows > 0) json[quantity.column] = output::to_json(error_columns(), error_cells(e));
  }
  const std::pair<Judge, const char*> judges[] = {{Judge::replay, "outcome"},
                                                  {Judge::decided, "outcome_decided"},
                                                  {Judge::likely, "outcome_likely"},
                                                  {Judge::rule, "outcome_80_percent_rule"}};
  for (const auto& [judge, key] : judges) {
    const Outcomes o = outcomes(rows, predictions, judge);
    if (o.rows() == 0) continue;
    json[key] = output::to_json(outcome_columns(), outcome_cells(o));
  }
  return json;
}

// JSON of a prediction with the interval of each quantity.
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

namespace {

// The columns of each set of groups: the requested ones together, else source and GPU one by one.
std::vector<std::vector<std::string>> columns_of_groups(const std::vector<std::string>& by) {
  if (!by.empty()) return {by};
  return {{"source_group"}, {"gpu"}};
}

// Error table: overall, by use in a fit, and by group.
output::Rows group_rows(const std::vector<Row>& rows, const std::vector<Prediction>& predictions,
                        const std::vector<std::string>& by) {
  output::Rows table = error_table();
  add_rows(table, "all", rows, predictions);
  const auto [fitted, others] = by_use(predictions);
  if (!fitted.empty()) {
    add_rows(table, "fitted on", select(rows, fitted), select(predictions, fitted));
    add_rows(table, "not fitted on", select(rows, others), select(predictions, others));
  }
  for (const std::vector<std::string>& columns : columns_of_groups(by)) {
    const std::map<std::string, Group> groups = groups_by(rows, columns);
    if (groups.size() < 2) continue;
    for (const auto& [name, group] : groups)
      add_rows(table, name, select(rows, group), select(predictions, group));
  }
  if (!table.cells.empty())
    table.footnote = use_text(fitted.size()) + left_out_text(rows, predictions);
  return table;
}

// Data for programs: the same errors by name, and every prediction.
std::vector<output::Block> data(const std::vector<Row>& rows,
                                const std::vector<Prediction>& predictions,
                                const std::vector<std::string>& by) {
  Json groups = Json::object();
  for (const auto& [name, group] : groups_by(rows, columns_of_groups(by).front()))
    groups[name] = json_of(select(rows, group), select(predictions, group));
  Json all = Json::array();
  for (const Prediction& p : predictions) all.push_back(json_of(p));
  const auto [fitted, others] = by_use(predictions);
  return {output::Data{"overall", json_of(rows, predictions)},
          output::Data{"fitted_on", json_of(select(rows, fitted), select(predictions, fitted))},
          output::Data{"not_fitted_on", json_of(select(rows, others), select(predictions, others))},
          output::Data{"groups", std::move(groups)}, output::Data{"predictions", std::move(all)}};
}

}  // namespace

output::Rows probability_rows(const std::vector<Row>& rows,
                              const std::vector<Prediction>& predictions) {
  struct Given {
    std::size_t points = 0, ran = 0;
    double sum = 0;
  };
  std::map<double, Given> given;  // by tenths
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::optional<bool> out_of_memory = measured_out_of_memory(rows[i]);
    if (!out_of_memory || !predictions[i].fits_probability) continue;
    Given& at = given[std::round(*predictions[i].fits_probability * 10)];
    ++at.points;
    at.ran += !*out_of_memory;
    at.sum += *predictions[i].fits_probability;
  }
  output::Rows table{"",
                     "",
                     {{"", "probability that it fits", "", 0, false, " %"},
                      {"", "rows"},
                      {"", "ran", "", 0, false, " %"}},
                     {}};
  for (const auto& [tenth, g] : given) {
    const double points = static_cast<double>(g.points);
    table.cells.push_back(
        {100 * g.sum / points, g.points, 100 * static_cast<double>(g.ran) / points});
  }
  table.searched = given.size() < 3;
  return table;
}

// Why no row has two numbers to compare.
std::string nothing_to_compare(const std::vector<Row>& rows,
                               const std::vector<Prediction>& predictions) {
  std::size_t ran = 0;
  for (std::size_t i = 0; i < rows.size(); ++i)
    ran += predictions[i].oom == true && measured_out_of_memory(rows[i]) == false;
  if (ran == 0) return "nothing to compare";
  return fmt::format(
      "nothing to compare: {} that ran {} predicted to run out of memory. A setting that a row "
      "does "
      "not state has its framework's default; state it in the column `settings`, for example "
      "zero=1 (the distributed optimizer). `--csv -` has the reason of each row",
      counted(static_cast<std::int64_t>(ran), "row"), ran == 1 ? "is" : "are");
}

output::Document validation_answer(const std::vector<Row>& rows,
                                   const std::vector<Prediction>& predictions,
                                   const std::vector<std::string>& by) {
  const auto with = [&](const char* status) {
    return std::count_if(predictions.begin(), predictions.end(),
                         [&](const Prediction& p) { return p.status == status; });
  };
  output::Document document;
  const auto add = [&](output::Rows table) {
    table.searched = table.cells.empty();  // an empty table has no text
    document.blocks.emplace_back(std::move(table));
  };
  document.blocks.emplace_back(
      output::Note{"",
                   fmt::format("{}: {} predicted, {} unsupported, {} impossible",
                               counted(std::ssize(rows), "row"), with("predicted"),
                               with("unsupported"), with("impossible")),
                   true});
  document.blocks.emplace_back(output::Values{"", {output::value("rows", "", rows.size())}});
  output::Rows groups = group_rows(rows, predictions, by);
  if (groups.cells.empty())
    document.blocks.emplace_back(output::Note{"", nothing_to_compare(rows, predictions)});
  add(std::move(groups));
  add_outcomes(document, rows, predictions);
  document.blocks.emplace_back(output::Note{"", ranking_text(ranking(rows, predictions))});
  add(apart_rows(rows, predictions));
  add(missing_rows(predictions));
  add(row_by_row(rows, predictions));
  for (output::Block& block : data(rows, predictions, by))
    document.blocks.push_back(std::move(block));
  return document;
}

}  // namespace sim::calibrate
