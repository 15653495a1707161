#include "sim/study/campaign/variants.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>

#include "sim/base/quantity.h"
#include "sim/base/text.h"
#include "sim/output/table.h"

namespace sim::campaign {
namespace {

std::string take_span(const std::string& text, double& seconds) {
  const Parsed<double> parsed = parse_span(text);
  if (const auto* message = std::get_if<std::string>(&parsed)) return *message;
  seconds = std::get<double>(parsed);
  return "";
}

std::string set_interval(Setup& setup, const std::string& value) {
  return take_span(value, setup.file.checkpoints.back().interval);
}

std::string set_mtbf(Setup& setup, const std::string& value) {
  if (!setup.kinds.empty()) return "mtbf: a table of failures is given; their rates hold";
  setup.gpu_mtbf = 0;
  return take_span(value, setup.file.mtbf);
}

std::string set_write(Setup& setup, const std::string& value) {
  return take_span(value, setup.file.checkpoints.back().write);
}

std::string set_repair(Setup& setup, const std::string& value) {
  double mean = 0;
  const std::string wrong = take_span(value, mean);
  if (setup.kinds.empty()) setup.repair = mean;
  for (input::FailureFields& kind : setup.kinds)
    if (kind.takes != input::TakesWhat::nothing) kind.repair.mean = mean;
  return wrong;
}

std::string set_rate(Setup& setup, const std::string& value) {
  double factor = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), factor);
  if (error != std::errc{} || end != value.data() + value.size() || !(factor > 0) || factor > 1e6)
    return fmt::format("rate: '{}' is not a factor above 0", value);
  for (input::FailureFields& kind : setup.kinds) kind.life.mean /= factor;
  if (setup.kinds.empty()) setup.file.mtbf /= factor;
  setup.gpu_mtbf /= factor;
  return "";
}

std::string set_spares(Setup& setup, const std::string& value) {
  int spares = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), spares);
  if (error != std::errc{} || end != value.data() + value.size() || spares < 0 ||
      spares > 1'000'000)
    return fmt::format("spares: '{}' is not a number of nodes", value);
  setup.file.spares = spares;
  return "";
}

// Each answer fixes the number of spares: only `spares` has any.
std::string set_answer(Setup& setup, const std::string& value) {
  const std::vector<std::string> answers = {"wait", "spares", "shrink", "replan"};
  if (std::ranges::find(answers, value) == answers.end())
    return fmt::format("there is no answer '{}'{}; one of {}", value, did_you_mean(value, answers),
                       fmt::join(answers, ", "));
  if (value == "spares") {
    setup.file.answer = "wait";
    setup.file.spares = std::max(1, setup.file.spares);
  } else {
    setup.file.answer = value;
    setup.file.spares = 0;
  }
  return "";
}

std::string set_stragglers(Setup& setup, const std::string& value) {
  if (value != "now" && value != "save")
    return fmt::format("stragglers: '{}' is neither now nor save", value);
  setup.file.stragglers = value;
  return "";
}

constexpr std::array<Variable, 8> table = {{
    {"answer", "to missing nodes: wait, spares, shrink, replan", set_answer},
    {"interval", "of training between saves", set_interval},
    {"mtbf", "of the whole job", set_mtbf},
    {"rate", "of all failures, times this", set_rate},
    {"repair", "mean time until a node is back", set_repair},
    {"spares", "nodes that stand by", set_spares},
    {"stragglers", "that are found: taken now, or at the next save", set_stragglers},
    {"write", "in which a save stops the job", set_write},
}};

// The best answer for each combination of the other variables, by two measures.
std::string crossover(const std::vector<Row>& rows) {
  std::vector<std::string> others;
  std::map<std::string, std::map<std::string, const Row*>> by_other;
  for (const Row& row : rows) {
    if (!row.problem.empty()) continue;
    std::string other, answer;
    for (const std::string& setting : row.settings) {
      if (setting.rfind("answer=", 0) == 0) {
        answer = setting.substr(7);
      } else {
        other += (other.empty() ? "" : " ") + setting;
      }
    }
    if (answer.empty()) return "";
    if (by_other.count(other) == 0) others.push_back(other);
    by_other[other][answer] = &row;
  }
  output::Table best({"<with", "<most tokens", "", "<most tokens a paid GPU", "", "next to it"});
  for (const std::string& other : others) {
    std::vector<std::pair<std::string, const Row*>> answers(by_other[other].begin(),
                                                            by_other[other].end());
    if (answers.size() < 2) return "";
    std::ranges::stable_sort(answers, [](const auto& a, const auto& b) {
      return a.second->summary.effective.mean > b.second->summary.effective.mean;
    });
    const auto fastest = answers.front();
    std::ranges::stable_sort(answers, [](const auto& a, const auto& b) {
      return a.second->per_gpu > b.second->per_gpu;
    });
    best.row({other.empty() ? "all" : other, fastest.first,
              percent(fastest.second->summary.effective.mean), answers[0].first,
              percent(answers[0].second->per_gpu),
              fmt::format("{} {}", answers[1].first, percent(answers[1].second->per_gpu))});
  }
  return others.empty() ? "" : "\n" + best.text("");
}

// Variants set the same variables, so all assume the same times.
std::string assumed_by(const std::vector<Row>& rows) {
  const auto ran = std::ranges::find_if(rows, [](const Row& row) { return row.problem.empty(); });
  return ran == rows.end() ? "" : assumed_text(ran->summary);
}

// The intervals between saves: one line if all variants have the same.
std::string intervals_of(const std::vector<Row>& rows) {
  std::string text, first;
  bool alike = true;
  for (const Row& row : rows) {
    if (!row.problem.empty()) continue;
    const std::string line = intervals_text(row.summary);
    if (first.empty()) first = line;
    alike = alike && line == first;
    text += row.name + ": " + line;
  }
  return alike ? first : text;
}

std::string cost_of(const Row& row) {
  const double tokens = row.tokens_per_money > 0 ? row.tokens_per_money : row.tokens_per_gpu_hour;
  return tokens > 0 ? fmt::format("{:.4g}", tokens) : "";
}

}  // namespace

std::span<const Variable> variables() {
  return table;
}

std::string set(Setup& setup, const std::string& setting) {
  const std::string name = setting.substr(0, setting.find('='));
  const auto found = std::ranges::find(table, name, &Variable::name);
  return found != table.end() ? found->set(setup, setting.substr(name.size() + 1)) : unknown(name);
}

std::string malformed(const std::string& setting) {
  Setup any;
  any.file.checkpoints.emplace_back();
  return set(any, setting);
}

std::string unknown(const std::string& name) {
  if (std::ranges::find(table, name, &Variable::name) != table.end()) return "";
  std::vector<std::string> names;
  for (const Variable& variable : table) names.emplace_back(variable.name);
  return fmt::format("nothing that varies is called '{}'{}; one of {}", name,
                     did_you_mean(name, names), fmt::join(names, ", "));
}

std::string without_effect(const Setup& setup, const std::vector<std::string>& varied) {
  const auto varies = [&](const char* name) {
    return std::ranges::find(varied, name) != varied.end();
  };
  const auto any = [&](const auto& test) { return std::ranges::any_of(setup.kinds, test); };
  const bool takes = setup.kinds.empty() ? setup.repair > 0 || varies("repair")
                                         : any([](const input::FailureFields& kind) {
                                             return kind.takes != input::TakesWhat::nothing;
                                           });
  for (const char* name : {"spares", "answer"})
    if (varies(name) && !takes)
      return fmt::format(
          "{} changes nothing: no failure takes a node. Add --repair 1d, so that each failure of "
          "--mtbf takes a node for that mean time, or a table: --failures rsc-1",
          name);
  if (varies("repair") && !takes)
    return "repair changes nothing: no failure of the table takes a node";
  if (varies("stragglers") && !any([](const input::FailureFields& kind) { return kind.speed < 1; }))
    return "stragglers changes nothing: no failure makes a GPU slow. Use a table with a kind of a "
           "speed below 1, such as --failures everything";
  return "";
}

std::vector<Row> compare(const Setup& setup, const std::vector<input::Variant>& variants,
                         Steps& steps, const Seeds& seeds, const std::function<bool()>& go_on) {
  std::vector<Row> rows;
  for (const input::Variant& variant : variants) {
    Row row;
    row.name = variant.name;
    row.settings = variant.settings;
    Setup changed = setup;
    for (const std::string& setting : variant.settings) {
      const std::string wrong = set(changed, setting);
      if (!wrong.empty()) row.problem += (row.problem.empty() ? "" : "; ") + wrong;
    }
    if (row.problem.empty()) {
      const Result<Built> built = build(changed, steps);
      if (!built)
        for (const Diagnostic& problem : built.errors())
          row.problem += (row.problem.empty() ? "" : "; ") + problem.message;
      if (built) {
        const std::vector<Outcome> outcomes =
            simulate_all(built->spec, seeds.first, seeds.count, seeds.threads, go_on);
        if (outcomes.empty()) return {};
        row.summary = summary_of(*built, seeds.first, outcomes);
        const double paid = row.summary.gpu_hours;
        if (paid > 0)
          row.per_gpu =
              row.summary.effective.mean * built->job_gpus * (row.summary.wall.mean / 3600) / paid;
        if (built->tokens_per_step > 0 && paid > 0)
          row.tokens_per_gpu_hour = row.summary.tokens / paid;
        if (built->price_per_gpu_hour > 0)
          row.tokens_per_money = row.tokens_per_gpu_hour / built->price_per_gpu_hour;
      }
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

output::Json to_json(const Row& row) {
  output::Json json = {{"name", row.name}, {"settings", row.settings}, {"problem", row.problem}};
  json["tokens_per_paid_gpu"] = row.per_gpu;
  const auto known = [](double value) { return value > 0 ? output::Json(value) : output::Json(); };
  json["tokens_per_gpu_hour"] = known(row.tokens_per_gpu_hour);
  json["tokens_per_money"] = known(row.tokens_per_money);
  json["result"] = row.problem.empty() ? to_json(row.summary) : output::Json();
  return json;
}

std::string text(const std::vector<Row>& rows) {
  // Shows the most informative cost that is known.
  const auto has = [&](double Row::*value) {
    return std::ranges::any_of(rows, [&](const Row& row) { return row.*value > 0; });
  };
  const bool prices = has(&Row::tokens_per_money), tokens = has(&Row::tokens_per_gpu_hour);
  const char* cost = prices ? "tokens for the price" : tokens ? "tokens a GPU hour" : "";
  output::Table all({"<variant", "goodput", "tokens", "error", "a paid GPU", "interruptions",
                     "saving", "lost", "waiting", "down", "changes", cost});
  std::string problems;
  for (const Row& row : rows) {
    std::vector<std::string> cells = {row.name};
    if (!row.problem.empty()) {
      problems += fmt::format("{}: impossible: {}\n", row.name, row.problem);
      cells.resize(12);
      cells[1] = "impossible";
    } else {
      const Summary& s = row.summary;
      // The order of Summary::accounts: kept, saving, lost, detecting, waiting, restarting.
      const auto share = [&](std::size_t account) { return s.accounts[account].share; };
      cells.insert(cells.end(),
                   {percent(s.goodput.mean), percent(s.effective.mean),
                    fmt::format("{:.3f} %", 100 * s.effective.standard_error), percent(row.per_gpu),
                    fmt::format("{:.1f}", s.interruptions.mean), percent(share(1)),
                    percent(share(2)), percent(share(4)), percent(share(3) + share(5)),
                    fmt::format("{:.1f}", s.changes), cost_of(row)});
    }
    all.row(std::move(cells));
  }
  return all.text("") +
         "Goodput: share of wall time that trained what was kept. Tokens: kept, of those of the\n"
         "undisturbed job; error: of their mean over the seeds (standard error). A paid GPU: the "
         "same\nover all GPUs, spares included. Saving, lost, waiting, down: shares of wall "
         "time\n" +
         (prices   ? "Tokens for the price: kept, for one of the currency of the price\n"
          : tokens ? "Tokens a GPU hour: kept, of the hours that are paid for\n"
                   : "") +
         intervals_of(rows) + assumed_by(rows) + crossover(rows) +
         (problems.empty() ? "" : "\n" + problems);
}

}  // namespace sim::campaign
