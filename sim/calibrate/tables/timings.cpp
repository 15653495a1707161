#include "sim/calibrate/tables/timings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "sim/calibrate/tables/error_statistics.h"
#include "sim/input/profile/table_machine.h"
#include "sim/output/csv.h"

namespace sim::calibrate {

namespace {

using output::Json;

ErrorStatistics spread(const std::vector<const Timing*>& lines) {
  std::vector<std::pair<double, std::size_t>> errors;
  for (const Timing* t : lines)
    if (t->reason.empty())
      errors.emplace_back(100 * (t->predicted_us / t->measured_us - 1),
                          static_cast<std::size_t>(t->line));
  return statistics_of(errors);
}

// Statistics of all lines, of each half, then of each GPU, network and group in alphabetical order.
std::vector<std::pair<std::string, ErrorStatistics>> spreads(const std::vector<Timing>& timings) {
  std::map<std::string, std::vector<const Timing*>> groups;
  std::map<std::string, std::vector<const Timing*>> gpus, fabrics;
  std::vector<const Timing*> halves[2];
  std::vector<const Timing*> all;
  for (const Timing& t : timings) {
    groups[t.group].push_back(&t);
    gpus[t.group.substr(0, t.group.find(','))].push_back(&t);
    if (!t.fabric.empty()) fabrics[t.fabric].push_back(&t);
    halves[t.fitted ? 0 : 1].push_back(&t);
    all.push_back(&t);
  }
  std::vector<std::pair<std::string, ErrorStatistics>> out = {
      {"all", spread(all)},
      {"all, the half that may be fitted", spread(halves[0])},
      {"all, the half that checks", spread(halves[1])}};
  for (const auto* map : {&gpus, &fabrics, &groups}) {
    for (const auto& [name, lines] : *map) out.emplace_back(name, spread(lines));
  }
  return out;
}

}  // namespace

std::string cluster_of_gpu(const std::string& gpu) {
  if (!input::table_machines()) return "";
  const input::TableMachine found = input::machine_of_table(gpu, 0);
  return found.machine ? found.machine->cluster.name : "";
}

TimingTable timing_table(const input::Table& table) {
  if (table.has("kernel") && table.has("tflops")) return TimingTable::products;
  if (table.has("op") && table.has("fwd_us")) return TimingTable::operations;
  if (table.has("collective") && table.has("bytes")) return TimingTable::collectives;
  return TimingTable::none;
}

std::vector<Timing> timings(const input::Table& table, answer::Sites& sites) {
  const TimingTable kind = timing_table(table);
  assert(kind != TimingTable::none);
  std::vector<Timing> out;
  for (const input::TableRow& row : table.rows) {
    const std::size_t before = out.size();
    switch (kind) {
      case TimingTable::products:
        time_products(row, sites, out);
        break;
      case TimingTable::operations:
        time_operations(row, sites, out);
        break;
      default:
        time_collectives(row, sites, out);
        break;
    }
    for (std::size_t i = before; i < out.size(); ++i) {
      out[i].line = row.line;
      const bool timed = out[i].measured_us > 0 && std::isfinite(out[i].measured_us);
      if (out[i].reason.empty() && (!(out[i].predicted_us > 0) || !timed)) {
        out[i].reason = "no time is published";
      }
    }
  }
  std::map<std::string, std::size_t> seen;
  for (Timing& t : out) {
    if (t.reason.empty()) t.fitted = seen[t.group]++ % 2 == 0;
  }
  return out;
}

std::string timings_csv(const std::vector<Timing>& timings) {
  std::string text = output::csv_line(
      {"line", "status", "reason", "group", "half", "measured_us", "predicted_us", "error_pct"});
  for (const Timing& t : timings) {
    const bool ok = t.reason.empty();
    text += output::csv_line(
        {fmt::format("{}", t.line), ok ? "predicted" : "unsupported", t.reason, t.group,
         ok ? (t.fitted ? "fit" : "check") : "", fmt::format("{:.3f}", t.measured_us),
         ok ? fmt::format("{:.3f}", t.predicted_us) : "",
         ok ? fmt::format("{:.2f}", 100 * (t.predicted_us / t.measured_us - 1)) : ""});
  }
  return text;
}

namespace {

// Statistics by group: in the JSON, and in the text unless collectives have tables of their own.
void add_groups(const std::vector<Timing>& timings, bool in_text, output::Document& document) {
  const std::vector<output::Column> columns = statistics_columns("times", "worst_line");
  output::Rows rows{"", "", columns, {}};
  rows.columns.insert(rows.columns.begin(), {"", "group", "", 0, true});
  Json groups = Json::object();
  for (const auto& [name, s] : spreads(timings)) {
    if (s.rows == 0) continue;
    std::vector<Json> cells = statistics_cells(s);
    groups[name] = output::to_json(columns, cells);
    cells.insert(cells.begin(), name);
    rows.cells.push_back(std::move(cells));
  }
  document.blocks.emplace_back(output::Data{"groups", std::move(groups)});
  if (rows.cells.empty()) document.blocks.emplace_back(output::Note{"", "nothing to compare"});
  rows.searched = rows.cells.empty();
  if (in_text) document.blocks.emplace_back(std::move(rows));
}

}  // namespace

output::Document timings_document(const std::vector<Timing>& timings) {
  std::map<std::string, std::size_t> reasons;
  std::size_t predicted = 0;
  for (const Timing& t : timings) {
    if (t.reason.empty()) {
      ++predicted;
    } else {
      ++reasons[t.reason];
    }
  }
  output::Document document;
  document.blocks.emplace_back(
      output::Note{"",
                   fmt::format("{} measured times: {} predicted, {} unsupported", timings.size(),
                               predicted, timings.size() - predicted),
                   true});
  document.blocks.emplace_back(output::Values{"", {output::value("times", "", timings.size())}});
  const bool collectives =
      std::ranges::any_of(timings, [](const Timing& t) { return !t.source.empty(); });
  if (collectives) {
    document.blocks.emplace_back(reason_rows(reasons, "times"));
    for (output::Rows& rows : collective_errors(timings))
      document.blocks.emplace_back(std::move(rows));
  }
  add_groups(timings, !collectives, document);
  if (!collectives) document.blocks.emplace_back(reason_rows(reasons, "times"));
  return document;
}

}  // namespace sim::calibrate
