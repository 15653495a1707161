#include "sim/report/sweep_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "sim/report/run_text.h"
#include "sim/report/table.h"

namespace sim::report {

namespace {

constexpr std::size_t reasons_shown = 10;

std::string text_of(const Json& record, const char* key) {
  return record.at(key);
}

double number_of(const Json& record, const char* key) {
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
    if (record.at("estimate_says_fits").is_null()) continue;
    ++table[record.at("estimate_says_fits") == 1][has_outcome(record, "fits")];
  }
  return table;
}

std::string best_text(const std::vector<Json>& records) {
  using Key = std::tuple<std::string, std::string, std::int64_t, std::int64_t>;
  std::map<Key, const Json*> best;
  for (const Json& record : records) {
    if (!has_outcome(record, "fits")) continue;
    const Key key = {text_of(record, "model"), text_of(record, "cluster"), record.at("seq"),
                     record.at("gpus")};
    const Json*& there = best[key];
    if (there == nullptr ||
        number_of(record, "tflops_gpu_paper") > number_of(*there, "tflops_gpu_paper")) {
      there = &record;
    }
  }
  if (best.empty()) return "";
  Table table({"<model", "<cluster", "seq", "GPUs", "TP", "CP", "PP", "DP", "mbs", "TFLOP/s/GPU",
               "tokens/s/GPU", "step s", "bubble", "reserved GiB", "of"});
  for (const auto& [key, record] : best) {
    const auto integer = [&, r = record](const char* name) {
      return fmt::format("{}", r->at(name).get<std::int64_t>());
    };
    const auto fixed = [&, r = record](const char* name, int digits) {
      return fmt::format("{:.{}f}", number_of(*r, name), digits);
    };
    table.row({std::get<0>(key), std::get<1>(key), integer("seq"), integer("gpus"), integer("tp"),
               integer("cp"), integer("pp"), integer("dp"), integer("mbs"),
               fixed("tflops_gpu_paper", 1), fixed("tokens_s_gpu", 0), fixed("step_time_s", 2),
               fixed("bubble_pct", 1) + " %", fixed("peak_reserved_gib", 1),
               fixed("capacity_gib", 1)});
  }
  return "\nfastest of each world size (TFLOP/s by the paper's formula: full attention, no "
         "recomputation)\n" +
         table.text();
}

// Why points of an outcome do not run, most frequent first.
std::string reasons_text(const std::vector<Json>& records, const char* outcome,
                         const std::string& title, std::string (*reason)(const Json&)) {
  std::map<std::string, std::size_t> counts;
  for (const Json& record : records) {
    if (has_outcome(record, outcome)) ++counts[reason(record)];
  }
  if (counts.empty()) return "";
  std::vector<std::pair<std::string, std::size_t>> order(counts.begin(), counts.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  Table table({"points", "<reason"});
  for (std::size_t i = 0; i < order.size() && i < reasons_shown; ++i) {
    table.row({fmt::format("{}", order[i].second), order[i].first});
  }
  std::string text = "\n" + title + "\n" + table.text();
  if (order.size() > reasons_shown) {
    text += fmt::format("  and {} more reasons, in the column `reason`\n",
                        order.size() - reasons_shown);
  }
  return text;
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

}  // namespace

std::string sweep_text(const std::vector<Json>& records) {
  std::string text =
      fmt::format("{} points: {} fit, {} run out of memory, {} impossible", records.size(),
                  count(records, "fits"), count(records, "oom"), count(records, "impossible"));
  const std::size_t failed = count(records, "failed");
  if (failed > 0) text += fmt::format(", {} FAILED (our bug)", failed);
  text += "\n" + best_text(records);
  text += reasons_text(records, "oom", "where memory runs out", where_it_ends);
  // The first problem, without the values that would do: points differ in those.
  const auto reason = [](const Json& record) {
    const std::string all = text_of(record, "reason");
    return all.substr(0, all.find(';'));
  };
  text += reasons_text(records, "impossible", "impossible because", reason);
  text += reasons_text(records, "failed", "failed because", reason);
  const TwoByTwo rule = rule_against_replay(records);
  Table table({"<80 % rule of the closed form", "replay fits", "replay runs out of memory"});
  for (const int says : {1, 0}) {
    const auto& row = rule[static_cast<std::size_t>(says)];
    table.row({says == 1 ? "says fits" : "says no", fmt::format("{}", row[1]),
               fmt::format("{}", row[0])});
  }
  return text + "\nthe closed-form estimate against the replay (two different answers)\n" +
         table.text();
}

Json sweep_json(const std::vector<Json>& records) {
  const TwoByTwo rule = rule_against_replay(records);
  return {{"points", records.size()},
          {"fits", count(records, "fits")},
          {"oom", count(records, "oom")},
          {"impossible", count(records, "impossible")},
          {"failed", count(records, "failed")},
          {"rule_80_percent",
           {{"says_fits_replay_fits", rule[1][1]},
            {"says_fits_replay_oom", rule[1][0]},
            {"says_no_replay_fits", rule[0][1]},
            {"says_no_replay_oom", rule[0][0]}}}};
}

}  // namespace sim::report
