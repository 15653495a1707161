// validation_document.cpp — a validation as a document: each quantity plotted over the measured
// value with its interval, and the error by source.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "sim/base/text.h"
#include "sim/calibrate/validate.h"
#include "sim/output/document.h"

namespace sim::calibrate {

namespace {

using output::Json;

struct Unit {
  const char *heading, *unit;
};
Unit unit_of(const std::string& name) {
  if (name == quantities()[throughput].name) return {"throughput", "TFLOP/s/GPU"};
  if (name == quantities()[iteration_time].name) return {"iteration time", "s"};
  if (name == quantities()[allocated].name) return {"allocated", "GiB"};
  if (name == quantities()[reserved].name) return {"reserved", "GiB"};
  return {"bubble", "%"};
}

output::Rows quantity_rows(const std::vector<Row>& rows, const std::vector<Prediction>& predictions,
                           std::size_t which) {
  const Quantity& quantity = quantities()[which];
  const Unit unit = unit_of(quantity.name);
  output::Rows table{quantity.name,
                     std::string(unit.heading) + ": every row that states it",
                     {{"row", "row", "", 0, true},
                      {"source", "source", "", 0, true},
                      {"measured", "measured", unit.unit, 2},
                      {"predicted", "predicted", unit.unit, 2},
                      {"low", "90 % from", unit.unit, 2},
                      {"high", "to", unit.unit, 2},
                      {"error_pct", "error", "%", 2},
                      {"fitted", "profile fitted on it", "", 0},
                      {"plan", "plan", "", 0, true}},
                     {},
                     true};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Prediction& prediction = predictions[i];
    const std::optional<double> error = relative_error(rows[i], prediction, quantity);
    if (!error) continue;
    const std::optional<answer::Interval>* interval =
        which < prediction.intervals.size() ? &prediction.intervals[which] : nullptr;
    const bool known = interval != nullptr && interval->has_value();
    const auto number = [](double value) { return Json(output::rounded(value, 4)); };
    table.cells.push_back(
        {prediction.row_id, cell(rows[i], "source_group"), number(*measured(rows[i], quantity)),
         number(*quantity.predicted(prediction)), known ? number((*interval)->low) : Json(nullptr),
         known ? number((*interval)->high) : Json(nullptr), number(100 * *error), prediction.fitted,
         prediction.plan});
  }
  return table;
}

// Mean and bias of the errors, by source.
output::Rows source_rows(const output::Rows& table) {
  struct Sum {
    double absolute = 0, bias = 0;
    int rows = 0;
  };
  std::map<std::string, Sum> sums;
  for (const auto& cells : table.cells) {
    Sum& sum = sums[cells[1].get<std::string>()];
    const double error = cells[6].get<double>();
    sum.absolute += std::abs(error);
    sum.bias += error;
    ++sum.rows;
  }
  output::Rows out{table.name + "_by_source",
                   "",
                   {{"source", "source", "", 0, true},
                    {"mean_error_pct", "mean |error|", "%", 2},
                    {"bias_pct", "bias", "%", 2},
                    {"rows", "rows", "", 0}},
                   {}};
  for (const auto& [source, sum] : sums) {
    out.cells.push_back({source.empty() ? "(no source)" : source,
                         output::rounded(sum.absolute / sum.rows, 3),
                         output::rounded(sum.bias / sum.rows, 3), sum.rows});
  }
  out.title = "error by source, " + table.title.substr(0, table.title.find(':'));
  return out;
}

void add_charts(output::Document& document, const output::Rows& table) {
  const std::string what = table.title.substr(0, table.title.find(':'));
  output::Series points;
  points.title = what + ": predicted against measured, with 90 % intervals";
  points.table = table.name;
  points.x = "measured";
  points.y = {"predicted"};
  points.group = "source";
  points.label = "row";
  points.low = "low";
  points.high = "high";
  points.rules.push_back({output::Rule::Kind::slope, 1, "equal"});
  document.blocks.emplace_back(std::move(points));
  output::Series bars;
  bars.kind = output::Series::Kind::bars;
  bars.title = what + ": mean error by source, percent";
  bars.table = table.name + "_by_source";
  bars.x = "source";
  bars.y = {"mean_error_pct"};
  document.blocks.emplace_back(std::move(bars));
}

}  // namespace

output::Document validation_document(const std::string& name, const std::vector<Row>& rows,
                                     const std::vector<Prediction>& predictions) {
  output::Document document{
      "Predicted against measured: " + name, "every row of the tables, replayed", {"source"}, {}};
  const auto predicted = std::ranges::count(predictions, "predicted", &Prediction::status);
  document.blocks.emplace_back(output::Note{
      "", fmt::format("{}, {} predicted", counted(std::ssize(rows), "row"), predicted), true});
  std::vector<output::Rows> tables;
  for (std::size_t which = 0; which < quantities().size(); ++which) {
    output::Rows table = quantity_rows(rows, predictions, which);
    if (table.cells.empty()) continue;
    add_charts(document, table);
    tables.push_back(source_rows(table));
    tables.push_back(std::move(table));
  }
  for (output::Rows& table : tables) document.blocks.emplace_back(std::move(table));
  return document;
}

}  // namespace sim::calibrate
