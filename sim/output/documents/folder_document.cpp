#include "sim/output/documents/folder_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>

#include "sim/output/record.h"

namespace sim::output {

namespace {

constexpr std::size_t changes_shown = 1000;

std::optional<double> value_at(const Json& record, const char* key) {
  const auto found = record.find(key);
  if (found == record.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

// The fastest record that fits; nullptr if none does.
const Json* fastest(const std::vector<Json>& records) {
  const Json* best = nullptr;
  for (const Json& record : records) {
    const auto speed = value_at(record, "tokens_s_gpu");
    if (speed && (best == nullptr || *speed > *value_at(*best, "tokens_s_gpu"))) best = &record;
  }
  return best;
}

std::size_t points_with(const std::vector<Json>& records, const char* outcome) {
  return static_cast<std::size_t>(std::ranges::count_if(
      records, [&](const Json& record) { return record.at("outcome") == outcome; }));
}

// Identity of a point in several sweeps: its settings, or its name.
std::string same_point(const Json& record, const char* key) {
  return record.value(key, record.at("point").get<std::string>());
}

// "settings" if the sweeps share points with the same settings; else their names are compared.
const char* shared_key(const std::vector<ResultFolder>& sweeps) {
  std::set<std::string> known;
  for (const Json& record : sweeps.front().records) known.insert(same_point(record, "settings"));
  for (std::size_t k = 1; k < sweeps.size(); ++k)
    for (const Json& record : sweeps[k].records)
      if (known.contains(same_point(record, "settings"))) return "settings";
  return "point";
}

Json change_pct(std::optional<double> now, std::optional<double> before) {
  if (!now || !before || *before == 0) return {};
  return rounded(100 * (*now / *before - 1), 3);
}

std::string sweep_line(const ResultFolder& sweep) {
  std::string text =
      fmt::format("{}: {} points, {} fit, {} run out of memory", sweep.name, sweep.records.size(),
                  points_with(sweep.records, "fits"), points_with(sweep.records, "oom"));
  if (const Json* best = fastest(sweep.records))
    text += fmt::format("; fastest {} with {:.0f} tokens/s/GPU",
                        best->at("point").get<std::string>(), *value_at(*best, "tokens_s_gpu"));
  return text;
}

Rows fastest_points(const std::vector<ResultFolder>& sweeps) {
  Rows rows{"best", "the fastest point of each sweep", {{"sweep", "sweep", "", 0, true}}, {}};
  for (const Column& column : record_columns())
    for (const char* key :
         {"point", "gpus", "tp", "cp", "pp", "dp", "virtual_stages", "mbs", "schedule", "recompute",
          "step_time_s", "tokens_s_gpu", "bubble_pct", "peak_reserved_gib", "capacity_gib"})
      if (column.key == key) rows.columns.push_back(column);
  for (const ResultFolder& sweep : sweeps) {
    const Json* best = fastest(sweep.records);
    if (best == nullptr) continue;
    std::vector<Json>& cells = rows.cells.emplace_back(std::vector<Json>{sweep.name});
    for (std::size_t i = 1; i < rows.columns.size(); ++i)
      cells.push_back(best->at(rows.columns[i].key));
  }
  return rows;
}

Rows joined_points(const std::vector<ResultFolder>& sweeps) {
  Rows rows{"points", "all points", {{"sweep", "sweep", "", 0, true}}, {}, true};
  const std::vector<Column>& columns = record_columns();
  rows.columns.insert(rows.columns.end(), columns.begin(), columns.end());
  rows.columns.push_back({"settings", "settings", "", 0, true});
  for (const ResultFolder& sweep : sweeps)
    for (const Json& record : sweep.records) {
      std::vector<Json>& cells = rows.cells.emplace_back(std::vector<Json>{sweep.name});
      for (std::size_t i = 1; i < rows.columns.size(); ++i)
        cells.push_back(record.value(rows.columns[i].key, Json()));
    }
  // The best plans first.
  const auto at = static_cast<std::size_t>(
      std::ranges::find(rows.columns, "tokens_s_gpu", &Column::key) - rows.columns.begin());
  std::ranges::stable_sort(rows.cells, std::greater<>(), [at](const std::vector<Json>& cells) {
    return cells[at].is_number() ? cells[at].get<double>() : -1;
  });
  return rows;
}

// Points of later sweeps that the first one has too, the largest change of the step first.
Rows change_rows(const std::vector<ResultFolder>& sweeps) {
  Rows rows{"changes",
            "points that are in " + sweeps.front().name + " too, the largest change first",
            {{"sweep", "sweep", "", 0, true},
             {"point", "point", "", 0, true},
             {"outcome_before", "outcome before", "", 0, true},
             {"outcome", "outcome", "", 0, true},
             {"step_before_s", "step before", "s", 3},
             {"step_time_s", "step", "s", 3},
             {"change_pct", "change", "%", 2},
             {"reserved_before_gib", "reserved before", "GiB", 2},
             {"peak_reserved_gib", "reserved", "GiB", 2}},
            {},
            true};
  std::map<std::string, const Json*> before;
  const char* key = shared_key(sweeps);
  for (const Json& record : sweeps.front().records)
    before.emplace(same_point(record, key), &record);
  for (std::size_t k = 1; k < sweeps.size(); ++k)
    for (const Json& now : sweeps[k].records) {
      const auto found = before.find(same_point(now, key));
      if (found == before.end()) continue;
      const Json& old = *found->second;
      rows.cells.push_back({sweeps[k].name, now.at("point"), old.at("outcome"), now.at("outcome"),
                            old.at("step_time_s"), now.at("step_time_s"),
                            change_pct(value_at(now, "step_time_s"), value_at(old, "step_time_s")),
                            old.at("peak_reserved_gib"), now.at("peak_reserved_gib")});
    }
  // A changed outcome first, then the change of the step.
  const auto weight = [](const std::vector<Json>& cells) {
    const bool reversed = cells[2] != cells[3];
    return std::pair(reversed, cells[6].is_number() ? std::abs(cells[6].get<double>()) : 0.0);
  };
  std::ranges::stable_sort(rows.cells, std::greater<>(), weight);
  if (rows.cells.size() > changes_shown) rows.cells.resize(changes_shown);
  return rows;
}

Note change_note(const Rows& rows, const char* key) {
  const auto reversed = std::ranges::count_if(
      rows.cells, [](const std::vector<Json>& cells) { return cells[2] != cells[3]; });
  const auto changed = std::ranges::count_if(rows.cells, [](const std::vector<Json>& cells) {
    return cells[6].is_number() && std::abs(cells[6].get<double>()) > 0.005;
  });
  if (rows.cells.empty()) return {"", "No point of one sweep is in the other."};
  return {"", fmt::format("{} points with the same {} are compared: {} have another outcome, {} "
                          "another step time.",
                          rows.cells.size(), key == std::string_view("point") ? "name" : key,
                          reversed, changed)};
}

Series speed_chart(const std::string& table, const std::string& y, const std::string& group,
                   const std::string& label) {
  Series series;
  series.title = "throughput against memory";
  series.table = table;
  series.x = "peak_reserved_gib";
  series.y = {y};
  series.group = group;
  series.label = label;
  return series;
}

// ---- searches ----

std::string words_in(const Json& plan) {
  return plan.value("settings", "");
}

Rows found_plans(const std::vector<ResultFolder>& searches) {
  const bool several = searches.size() > 1;
  Rows rows{"points", "the best plans", {}, {}, true};
  if (several) rows.columns.push_back({"search", "search", "", 0, true});
  const std::vector<Column> further = {{"step_time_s", "step", "s", 3},
                                       {"tokens_s_gpu", "tokens/s/GPU", "", 0},
                                       {"tflops_gpu_megatron", "TFLOP/s/GPU (Megatron-LM)", "", 1},
                                       {"bubble_pct", "bubble", "%", 1},
                                       {"peak_reserved_gib", "reserved", "GiB", 1},
                                       {"capacity_gib", "of", "GiB", 1},
                                       {"settings", "settings", "", 0, true}};
  rows.columns.insert(rows.columns.end(), further.begin(), further.end());
  for (const ResultFolder& search : searches)
    for (const Json& plan : search.plans) {
      std::vector<Json>& cells = rows.cells.emplace_back();
      if (several) cells.emplace_back(search.name);
      for (const Column& column : further) {
        const auto share = value_at(plan, "bubble");
        cells.push_back(column.key != "bubble_pct" ? plan.value(column.key, Json())
                        : share                    ? Json(rounded(100 * *share, 2))
                                                   : Json());
      }
    }
  return rows;
}

// Words of `now` that `before` does not have: "tp=4 micro_batch=2".
std::string changed_text(const std::string& before, const std::string& now) {
  std::istringstream words(now);
  std::string text;
  for (std::string word; words >> word;)
    if ((" " + before + " ").find(" " + word + " ") == std::string::npos)
      text += (text.empty() ? "" : " ") + word;
  return text.empty() ? "the same settings" : text;
}

Note best_plans(const std::vector<ResultFolder>& searches) {
  const Json& first = searches.front().plans.front();
  std::string text;
  for (const ResultFolder& search : searches) {
    const Json& best = search.plans.front();
    text += fmt::format("{}{}: {:.3f} s, {:.0f} tokens/s/GPU, {:.1f} GiB", text.empty() ? "" : "\n",
                        search.name, value_at(best, "step_time_s").value_or(0),
                        value_at(best, "tokens_s_gpu").value_or(0),
                        value_at(best, "peak_reserved_gib").value_or(0));
    if (&best == &first) continue;
    const Json change = change_pct(value_at(best, "tokens_s_gpu"), value_at(first, "tokens_s_gpu"));
    if (change.is_number()) text += fmt::format(" ({:+.1f} % tokens/s/GPU)", change.get<double>());
    text += "; " + changed_text(words_in(first), words_in(best));
  }
  return {"", text, true};
}

}  // namespace

Document search_page(const ResultFolder& search) {
  Document document{"Search: " + search.name, words_in(search.plans.front()), {}, {}};
  document.blocks.emplace_back(best_plans({search}));
  document.blocks.emplace_back(speed_chart("points", "tokens_s_gpu", "", "settings"));
  document.blocks.emplace_back(found_plans({search}));
  return document;
}

Document searches_page(const std::vector<ResultFolder>& searches) {
  Document document{"Searches side by side", "the best plans of each", {"search"}, {}};
  document.blocks.emplace_back(best_plans(searches));
  document.blocks.emplace_back(speed_chart("points", "tokens_s_gpu", "search", "settings"));
  document.blocks.emplace_back(found_plans(searches));
  return document;
}

Document sweeps_page(const std::vector<ResultFolder>& sweeps) {
  Document document{"Sweeps side by side",
                    "move over a mark to read it, click to find it in the table",
                    {"sweep", "model", "cluster", "gpus", "seq", "recompute", "schedule"},
                    {}};
  std::string text;
  for (const ResultFolder& sweep : sweeps) text += (text.empty() ? "" : "\n") + sweep_line(sweep);
  document.blocks.emplace_back(Note{"", text, true});
  Rows changes = change_rows(sweeps);
  document.blocks.emplace_back(change_note(changes, shared_key(sweeps)));
  if (Rows best = fastest_points(sweeps); !best.cells.empty()) document.blocks.emplace_back(best);
  if (!changes.cells.empty()) {
    Series equal = speed_chart("changes", "step_time_s", "sweep", "point");
    equal.title = "step time of the same points, against " + sweeps.front().name;
    equal.x = "step_before_s";
    equal.rules.push_back({Rule::Kind::slope, 1, "equal"});
    document.blocks.emplace_back(std::move(equal));
    document.blocks.emplace_back(std::move(changes));
  }
  document.blocks.emplace_back(speed_chart("points", "tokens_s_gpu", "sweep", "point"));
  document.blocks.emplace_back(Heatmap{
      "the best plan of each cell",
      "points",
      {"tp", "pp", "sweep", "cp", "dp", "virtual_stages", "mbs", "gbs", "seq", "gpus", "schedule",
       "recompute", "model", "cluster", "family"},
      {"tokens_s_gpu", "tflops_gpu_megatron", "step_time_s", "bubble_pct", "peak_reserved_gib"},
      "outcome"});
  document.blocks.emplace_back(joined_points(sweeps));
  return document;
}

}  // namespace sim::output
