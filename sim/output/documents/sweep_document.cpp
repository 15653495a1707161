#include "sim/output/documents/sweep_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "sim/base/split.h"
#include "sim/output/document.h"
#include "sim/output/record.h"

namespace sim::output {

namespace {

constexpr std::size_t reasons_shown = 10;

std::string text_of(const Json& record, const char* key) {
  return record.at(key);
}

double number_of(const Json& record, const std::string& key) {
  return record.at(key);
}

bool has_outcome(const Json& record, const char* outcome) {
  return record.at("outcome") == outcome;
}

std::size_t count(const std::vector<Json>& records, const char* outcome) {
  return static_cast<std::size_t>(
      std::count_if(records.begin(), records.end(),
                    [&](const Json& record) { return has_outcome(record, outcome); }));
}

// [rule says fits][replay fits]
using TwoByTwo = std::array<std::array<std::size_t, 2>, 2>;

TwoByTwo rule_against_replay(const std::vector<Json>& records) {
  TwoByTwo table{};
  for (const Json& record : records) {
    if (record.at("estimate_says_fits").is_null() || has_outcome(record, not_asked)) continue;
    ++table[record.at("estimate_says_fits") == 1][has_outcome(record, "fits")];
  }
  return table;
}

// Points by model, cluster, sequence, world size and global batch.
using BestPoints =
    std::map<std::tuple<std::string, std::string, std::int64_t, std::int64_t, std::int64_t>,
             const Json*>;

// Whether runs of one model, cluster and sequence have several global batches.
bool batch_varies(const BestPoints& points) {
  std::map<std::tuple<std::string, std::string, std::int64_t>, std::set<std::int64_t>> batches;
  for (const auto& [key, record] : points) {
    const auto& [model, cluster, sequence, gpus, batch] = key;
    batches[{model, cluster, sequence}].insert(batch);
  }
  return std::ranges::any_of(batches, [](const auto& one) { return one.second.size() > 1; });
}

// Whether points that fit differ in a setting.
bool varies(const std::vector<Json>& records, const std::string& key) {
  std::set<Json> values;
  for (const Json& record : records)
    if (has_outcome(record, "fits") || has_outcome(record, not_asked))
      values.insert(record.at(key));
  return values.size() > 1;
}

// Settings beside the degrees: all on a page, else those that the grid varies, because they belong
// to the answer.
std::vector<Column> settings_shown(const std::vector<Json>& records, bool of_page) {
  std::vector<Column> all = {{"virtual_stages", "VP", ""},
                             {"schedule", "schedule", "", 0, true},
                             {"recompute", "recompute", "", 0, true}};
  if (!of_page) std::erase_if(all, [&](const Column& one) { return !varies(records, one.key); });
  return all;
}

// A setting as the record's own words have it, which can be pasted; a point's name has no "-" in
// its values. Without such words it is the one of the name.
std::string as_asked(const std::vector<std::string>& words, const std::string& of_name) {
  const std::string key = of_name.substr(0, of_name.find('=') + 1);
  const auto found =
      std::ranges::find_if(words, [&](const std::string& word) { return word.starts_with(key); });
  return found == words.end() ? of_name : *found;
}

// The settings of a point's name that have no column: "framework=torchtitan zero=2".
std::string further_settings(const Json& record) {
  constexpr std::array<std::string_view, 5> have_columns = {"model", "cluster", "gpus", "sequence",
                                                            "global_batch"};
  const std::string point = text_of(record, "point");
  const std::vector<std::string> asked = split(record.value("settings", ""), ' ');
  std::string all;
  for (const std::string& word : split(point.substr(point.find('/') + 1), '-')) {
    const std::size_t equals = word.find('=');
    if (equals == word.npos ||
        std::ranges::find(have_columns, word.substr(0, equals)) != have_columns.end())
      continue;
    all += (all.empty() ? "" : " ") + as_asked(asked, word);
  }
  return all;
}

// The fastest point per model, cluster, sequence, world size and global batch; no rows if nothing
// fits. The batch is a column where it varies for one sequence length. A page has room for more
// columns than a terminal.
Rows best_rows(const std::vector<Json>& records, bool of_page) {
  static constexpr std::string_view world_size = "fastest of each world size";
  BestPoints best;
  const std::string throughput = throughput_column(records);
  for (const Json& record : records) {
    if (!has_outcome(record, "fits") && !has_outcome(record, not_asked)) continue;
    const BestPoints::key_type key = {text_of(record, "model"), text_of(record, "cluster"),
                                      record.at("seq"), record.at("gpus"), record.at("gbs")};
    const Json*& there = best[key];
    if (there == nullptr || number_of(record, throughput) > number_of(*there, throughput)) {
      there = &record;
    }
  }
  Rows rows{"best",
            fmt::format("{} (per GPU; TFLOP/s {})", world_size,
                        throughput == "tflops_gpu_paper" ? "by the paper's formula"
                                                         : "as Megatron-LM counts them"),
            {{"model", "model", "", 0, true},
             {"cluster", "cluster", "", 0, true},
             {"seq", "seq", ""},
             {"gpus", "GPUs", ""},
             {"tp", "TP", ""},
             {"cp", "CP", ""},
             {"pp", "PP", ""},
             {"dp", "DP", ""},
             {"mbs", "mbs", ""},
             {throughput, "TFLOP/s", "", 1},
             {"tokens_s_gpu", "tokens/s", "", 0},
             {"step_time_s", "step", "s", 2},
             {"bubble_pct"},
             {"peak_reserved_gib", "GiB", "", 1},
             {"capacity_gib", "of", "", 1}},
            {}};
  const auto column = [&](const char* key) {
    return std::ranges::find(rows.columns, key, &Column::key);
  };
  if (of_page) *column("bubble_pct") = {"bubble_pct", "bubble", "%", 1};
  const std::vector<Column> further = settings_shown(records, of_page);
  rows.columns.insert(of_page ? std::next(column("mbs")) : column("mbs"), further.begin(),
                      further.end());
  if (batch_varies(best)) {
    rows.title.insert(world_size.size(), " and global batch");
    rows.columns.insert(column("tp"), Column{"gbs", "batch", ""});
  }
  const bool asked = count(records, not_asked) == 0;
  if (!asked) rows.columns.resize(rows.columns.size() - 2);
  if (have_cost(records)) rows.columns.push_back(cost_column());
  const bool has_further = std::ranges::any_of(
      best, [](const auto& one) { return !further_settings(*one.second).empty(); });
  for (const auto& [key, record] : best) {
    std::vector<Json>& cells = rows.cells.emplace_back();
    for (const Column& column : rows.columns) cells.push_back(record->value(column.key, Json()));
    if (has_further) cells.emplace_back(further_settings(*record));
  }
  if (has_further) rows.columns.push_back({"settings", "settings", "", 0, true});
  return rows;
}

// Of each model, cluster, sequence, world size and global batch: the points that fit and that no
// other point beats in time and in memory, the fastest first.
Rows front_rows(const std::vector<Json>& records) {
  std::map<std::tuple<Json, Json, Json, Json, Json>, std::vector<const Json*>> groups;
  for (const Json& record : records)
    if (has_outcome(record, "fits"))
      groups[{record.at("model"), record.at("cluster"), record.at("seq"), record.at("gpus"),
              record.at("gbs")}]
          .push_back(&record);
  Rows rows{"front",
            "time against memory: no other point takes less of both",
            {{"point", "point", "", 0, true},
             {"gpus", "GPUs", ""},
             {"step_time_s", "step", "s", 3},
             {"tokens_s_gpu", "tokens/s/GPU", "", 0},
             {"peak_reserved_gib", "reserved", "GiB", 1},
             {"capacity_gib", "of", "", 1}},
            {}};
  for (auto& [key, points] : groups) {
    std::ranges::stable_sort(points, [](const Json* a, const Json* b) {
      return std::pair(number_of(*a, "step_time_s"), number_of(*a, "peak_reserved_gib")) <
             std::pair(number_of(*b, "step_time_s"), number_of(*b, "peak_reserved_gib"));
    });
    double least = std::numeric_limits<double>::infinity();
    for (const Json* point : points) {
      const double memory = number_of(*point, "peak_reserved_gib");
      if (memory >= least) continue;
      least = memory;
      std::vector<Json>& cells = rows.cells.emplace_back();
      for (const Column& column : rows.columns) cells.push_back(point->value(column.key, Json()));
    }
  }
  return rows;
}

// Reasons of points with one outcome, most frequent first.
Rows reasons_rows(const std::vector<Json>& records, const char* outcome, const std::string& title,
                  std::string (*reason)(const Json&)) {
  std::map<std::string, std::size_t> counts;
  for (const Json& record : records) {
    if (has_outcome(record, outcome)) ++counts[reason(record)];
  }
  std::vector<std::pair<std::string, std::size_t>> order(counts.begin(), counts.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  Rows rows{std::string(outcome) + "_reasons",
            title,
            {{"points", "points", ""}, {"reason", "reason", "", 0, true}},
            {}};
  for (std::size_t i = 0; i < order.size() && i < reasons_shown; ++i) {
    rows.cells.push_back({order[i].second, order[i].first});
  }
  if (order.size() > reasons_shown) {
    rows.footnote = fmt::format("  and {} more reasons, in the column `reason`\n",
                                order.size() - reasons_shown);
  }
  return rows;
}

std::string where_it_ends(const Json& record) {
  const Json& event = record.at("out_of_memory");
  const std::int64_t stage = event.at("stage");
  const std::int64_t step = event.at("step");
  std::string text = step == 0
                         ? "during set-up"
                         : fmt::format("in step {}, {}", step, event.at("pass").get<std::string>());
  return fmt::format("stage {} of {}, {}", stage, record.at("pp").get<int>(), text) +
         (event.at("fragmentation_alone").get<bool>() ? ", by fragmentation alone" : "");
}

std::string headline(const std::vector<Json>& records) {
  std::string text =
      fmt::format("{} points: {} fit, {} run out of memory, {} impossible", records.size(),
                  count(records, "fits"), count(records, "oom"), count(records, "impossible"));
  if (const std::size_t timed = count(records, not_asked); timed > 0)
    text += fmt::format(", {} timed (memory not asked)", timed);
  const auto killed =
      static_cast<std::size_t>(std::count_if(records.begin(), records.end(), was_killed));
  if (killed > 0) text += fmt::format(", {} killed from outside (--resume tries again)", killed);
  const std::size_t failed = count(records, "failed") - killed;
  if (failed > 0) text += fmt::format(", {} FAILED (our bug)", failed);
  return text;
}

Rows rule_rows(const std::vector<Json>& records) {
  const TwoByTwo rule = rule_against_replay(records);
  Rows rows{"",
            "the closed-form estimate against the replay (two different answers)",
            {{"rule", "80 % rule of the closed form", "", 0, true},
             {"fits", "replay fits", ""},
             {"oom", "replay runs out of memory", ""}},
            {}};
  // Points without a replay are left out.
  const auto replayed = [](const Json& record) {
    return has_outcome(record, "fits") || has_outcome(record, "oom");
  };
  if (count(records, not_asked) > 0 && std::ranges::none_of(records, replayed)) return rows;
  for (const int says : {1, 0}) {
    const auto& row = rule[static_cast<std::size_t>(says)];
    rows.cells.push_back({says == 1 ? "says fits" : "says no", row[1], row[0]});
  }
  return rows;
}

// Blocks about all points together.
std::vector<Block> summary(const std::vector<Json>& records, bool of_page = false) {
  // The first problem without the possible values, which differ between points.
  const auto reason = [](const Json& record) {
    const std::string all = text_of(record, "reason");
    return all.substr(0, all.find(';'));
  };
  std::vector<Block> blocks;
  for (Rows& rows : std::vector<Rows>{
           best_rows(records, of_page),
           reasons_rows(records, "oom", "where memory runs out", where_it_ends),
           reasons_rows(records, "impossible", "impossible because", reason),
           reasons_rows(records, "failed", "failed because", reason), rule_rows(records)}) {
    if (!rows.cells.empty()) blocks.emplace_back(std::move(rows));
  }
  return blocks;
}

Rows points(const std::vector<Json>& records) {
  Rows rows{"points", "all points", record_columns(), {}, true};
  if (have_cost(records)) rows.columns.push_back(cost_column());
  rows.columns.push_back({"settings", "settings", "", 0, true});
  // The best plans first; points without a time keep the order of the grid.
  std::vector<const Json*> order;
  for (const Json& record : records) order.push_back(&record);
  const auto speed = [](const Json* record) {
    const Json& value = record->at("tokens_s_gpu");
    return value.is_number() ? value.get<double>() : -1;
  };
  std::ranges::stable_sort(order, std::greater<>(), speed);
  for (const Json* record : order) {
    std::vector<Json>& cells = rows.cells.emplace_back();
    for (const Column& column : rows.columns) cells.push_back(record->value(column.key, Json()));
  }
  return rows;
}

Series throughput_against_memory(const std::vector<Json>& records) {
  Series series;
  series.title = "throughput against memory; the line joins the plans that no other beats in both";
  series.table = "points";
  series.x = "peak_reserved_gib";
  series.y = {throughput_column(records)};
  series.group = "outcome";
  series.label = "point";
  series.front = true;
  return series;
}

// The best plans over their numbers of GPUs: weak or strong scaling. REQUIRES: a table `best`.
Series throughput_over_gpus() {
  Series series;
  series.title = "throughput per GPU over GPUs: the fastest plan of each world size";
  series.table = "best";
  series.x = "gpus";
  series.y = {"tokens_s_gpu"};
  series.group = "model";
  series.label = "cluster";
  return series;
}

// Whether a table has several values in a column.
bool varies(const Rows& rows, const char* key) {
  const auto column = static_cast<std::size_t>(std::ranges::find(rows.columns, key, &Column::key) -
                                               rows.columns.begin());
  return std::ranges::any_of(rows.cells, [&](const std::vector<Json>& cells) {
    return cells[column] != rows.cells.front()[column];
  });
}

// Chart with the capacities of the GPUs as lines, and 80 % of their nominal memory.
Series estimate_against_replay(const std::vector<Json>& records) {
  Series series;
  series.title = "the closed-form estimate against the replay: memory of the fullest GPU";
  series.table = "points";
  series.x = "estimate_gib";
  series.y = {"peak_reserved_gib"};
  series.group = "outcome";
  series.label = "point";
  series.rules.push_back({Rule::Kind::slope, 1, "equal"});
  std::set<double> capacities;
  for (const Json& record : records) {
    if (record.at("capacity_gib").is_number()) capacities.insert(number_of(record, "capacity_gib"));
  }
  if (capacities.size() > 4) return series;
  for (const double capacity : capacities) {
    series.rules.push_back(
        {Rule::Kind::y, capacity, fmt::format("{:.1f} GiB for PyTorch", capacity)});
    series.rules.push_back(
        {Rule::Kind::x, 0.8 * capacity, fmt::format("80 % of {:.1f}", capacity)});
  }
  return series;
}

}  // namespace

Document sweep_answer(const std::vector<Json>& records, bool front) {
  const TwoByTwo rule = rule_against_replay(records);
  Document document;
  document.blocks.emplace_back(Note{"", headline(records), true});
  document.blocks.emplace_back(
      Values{"",
             {value("points", "", records.size()), value("fits", "", count(records, "fits")),
              value("oom", "", count(records, "oom")),
              value("impossible", "", count(records, "impossible")),
              value("failed", "", count(records, "failed"))}});
  if (const std::size_t timed = count(records, not_asked); timed > 0)
    document.blocks.emplace_back(Values{"", {value("not_asked", "", timed)}});
  document.blocks.emplace_back(Data{"rule_80_percent",
                                    {{"says_fits_replay_fits", rule[1][1]},
                                     {"says_fits_replay_oom", rule[1][0]},
                                     {"says_no_replay_fits", rule[0][1]},
                                     {"says_no_replay_oom", rule[0][0]}}});
  for (Block& block : summary(records)) document.blocks.push_back(std::move(block));
  if (front) document.blocks.emplace_back(front_rows(records));
  return document;
}

Document sweep_document(const std::string& name, const std::vector<Json>& records) {
  Document document{"Sweep: " + name,
                    "every point of a grid, replayed; move over a mark to read it, click to find "
                    "it in the table",
                    {"model", "cluster", "gpus", "seq", "family", "recompute", "schedule"},
                    {}};
  document.blocks.emplace_back(Note{"", headline(records), true});
  std::vector<Block> tables = summary(records, true);
  const auto best = std::ranges::find_if(tables, [](const Block& block) {
    const Rows* rows = std::get_if<Rows>(&block);
    return rows != nullptr && rows->name == "best";
  });
  if (best != tables.end()) {
    const bool scales = varies(std::get<Rows>(*best), "gpus");
    document.blocks.push_back(std::move(*best));
    if (scales) document.blocks.emplace_back(throughput_over_gpus());
    tables.erase(best);
  }
  document.blocks.emplace_back(Heatmap{
      "the best plan of each cell",
      "points",
      {"tp", "pp", "cp", "dp", "virtual_stages", "mbs", "gbs", "seq", "gpus", "schedule",
       "recompute", "model", "cluster", "family"},
      {throughput_column(records), "tokens_s_gpu", "mfu_megatron_pct", "step_time_s", "bubble_pct",
       "peak_reserved_gib", "exposed_tp_pct", "exposed_cp_pct", "exposed_dp_pct"},
      "outcome"});
  document.blocks.emplace_back(throughput_against_memory(records));
  document.blocks.emplace_back(estimate_against_replay(records));
  if (count(records, "oom") > 0) {
    Series bars;
    bars.kind = Series::Kind::bars;
    bars.title = "where memory runs out (points)";
    bars.table = "oom_reasons";
    bars.x = "reason";
    bars.y = {"points"};
    document.blocks.emplace_back(std::move(bars));
  }
  document.blocks.emplace_back(points(records));
  for (Block& block : tables) document.blocks.push_back(std::move(block));
  return document;
}

}  // namespace sim::output
