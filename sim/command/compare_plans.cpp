#include "sim/command/compare_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/answer/evaluate.h"
#include "sim/answer/resolve_balanced.h"
#include "sim/base/text.h"
#include "sim/calibrate/readers/reader.h"
#include "sim/command/common/watch.h"
#include "sim/input/fields/fields.h"
#include "sim/input/launch/launch.h"
#include "sim/input/text/locate.h"
#include "sim/output/documents/explain_document.h"

namespace sim::command {

namespace {

using output::Json;
using output::Show;

bool is_quoted(const std::string& argument) {
  return split_settings(argument).size() > 1;
}

bool is_plan(const std::string& argument) {
  if (is_quoted(argument)) return true;
  const Result<std::string> path = input::locate(input::Kind::workload, argument);
  return path && calibrate::reader_of(*path) == nullptr &&
         (path->ends_with(".textproto") || input::named_as_launch(*path));
}

struct Side {
  std::string name;
  input::PlanFile file;
  std::optional<answer::Answer> answer;
};

Side loaded(const std::string& argument, const std::vector<std::string>& more,
            const Globals& globals) {
  std::vector<std::string> settings;
  std::string path = argument;
  if (is_quoted(argument)) {
    settings = split_settings(argument);
    const bool named = settings.front().find('=') == std::string::npos;
    path = named ? settings.front() : "";
    if (named) settings.erase(settings.begin());
  }
  settings.insert(settings.end(), more.begin(), more.end());
  if (!path.empty()) path = workload_path(path);
  Side side{argument,
            need(input::named_as_launch(path) ? input::load_megatron(path, settings)
                                              : input::load_plan(path, settings)),
            {}};
  if (!globals.quiet)
    for (const std::string& text : side.file.notes) note("note: " + text);
  return side;
}

output::Column text_column(const char* key, const char* heading) {
  return {key, heading, "", 0, true};
}

// The columns of two values and their difference.
std::vector<output::Column> value_columns(const char* what, const char* key, const char* unit) {
  return {text_column("what", what),
          {fmt::format("first_{}", key), "first", unit, 3},
          {fmt::format("second_{}", key), "second", unit, 3},
          {fmt::format("difference_{}", key), "difference", unit, 3, false, "", 1, Show::change}};
}

output::Rows settings_of(const Side& first, const Side& second) {
  output::Rows rows{"settings",
                    "settings that differ",
                    {text_column("field", "field"), text_column("first", "first"),
                     text_column("second", "second")},
                    {}};
  for (const input::Field& field : input::plan_fields()) {
    if (!field.place) continue;
    const std::string a = input::text_of(field.place.get(*first.file.plan));
    const std::string b = input::text_of(field.place.get(*second.file.plan));
    if (a != b)
      rows.cells.push_back(
          {std::string(field.name), a.empty() ? "unset" : a, b.empty() ? "unset" : b});
  }
  const std::string a = first.file.machine.cluster.name, b = second.file.machine.cluster.name;
  if (a != b) rows.cells.push_back({"cluster", a, b});
  return rows;
}

output::Rows times_of(const answer::Answer& first, const answer::Answer& second) {
  output::Rows rows{"time",
                    "where the time of a step goes, mean of the ranks",
                    value_columns("account", "s", "s"),
                    {}};
  const std::vector<double> a = answer::mean_accounts(first.run);
  const std::vector<double> b = answer::mean_accounts(second.run);
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i] > 0 || b[i] > 0)
      rows.cells.push_back(
          {answer::words(static_cast<engine::Account>(i)), a[i], b[i], b[i] - a[i]});
  const double step_a = answer::step_seconds(first), step_b = answer::step_seconds(second);
  rows.cells.push_back({"step", step_a, step_b, step_b - step_a});
  return rows;
}

// The bytes of both GPUs nearest to their limits, by what holds them.
output::Rows memory_of(const answer::Answer& first, const answer::Answer& second) {
  output::Rows rows{
      "memory",
      fmt::format("memory of the fullest GPU at its peak: stage {} of the first, "
                  "stage {} of the second",
                  answer::fullest(first.run).stage, answer::fullest(second.run).stage),
      value_columns("on the GPU", "gib", "GiB"),
      {}};
  const auto add = [&](const answer::Answer& answer, std::size_t column) {
    for (const std::vector<Json>& cells : output::memory_rows(answer).cells) {
      const auto same = std::ranges::find_if(
          rows.cells, [&](const std::vector<Json>& row) { return row[0] == cells[0]; });
      const double held = gib(Bytes{cells[1].get<std::int64_t>()});
      if (same != rows.cells.end())
        (*same)[column] = held;
      else
        rows.cells.push_back({cells[0], column == 1 ? held : 0.0, column == 2 ? held : 0.0, 0.0});
    }
  };
  add(first, 1);
  add(second, 2);
  // The whole GPU comes last.
  std::ranges::stable_partition(rows.cells, [](const auto& row) { return row[0] != "GPU"; });
  for (std::vector<Json>& row : rows.cells) row[3] = row[2].get<double>() - row[1].get<double>();
  return rows;
}

std::string headline(const Side& side) {
  const answer::Answer& answer = *side.answer;
  if (!answer.run.fits())
    return fmt::format("{}: out of memory: {}", side.name, answer::oom_reason(answer.run));
  const engine::ClassReport& who = answer::fullest(answer.run);
  return fmt::format("{}: step {:.3f} s, {:.0f} tokens/s/GPU, {:.1f} of {:.1f} GiB", side.name,
                     answer::step_seconds(answer), answer::tokens_per_second_gpu(answer),
                     gib(who.peak_reserved), gib(who.capacity));
}

}  // namespace

std::optional<TwoPlans> two_plans(const Arguments& arguments) {
  constexpr std::array<std::string_view, 3> with_value = {"--cluster", "--within",
                                                          "--megatron-args"};
  TwoPlans asked;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& one = arguments[i];
    if (one.starts_with("--megatron-args")) return std::nullopt;
    if (std::ranges::find(with_value, one) != with_value.end()) ++i;
    if (one.starts_with("-")) continue;
    const bool setting = !is_quoted(one) && one.find('=') != std::string::npos;
    (setting ? asked.settings : asked.plans).push_back(one);
  }
  if (asked.plans.size() != 2 || !std::ranges::all_of(asked.plans, is_plan)) return std::nullopt;
  return asked;
}

int compare_plans(const TwoPlans& asked, const Globals& globals) {
  std::array<Side, 2> sides = {loaded(asked.plans[0], asked.settings, globals),
                               loaded(asked.plans[1], asked.settings, globals)};
  answer::Sites sites;
  for (Side& side : sides)
    side.answer = answer::evaluate(answer::resolve_balanced(checked(side.file, sites)));
  const auto& [first, second] = sides;
  const bool both = first.answer->run.fits() && second.answer->run.fits();
  std::string text = "first: " + headline(first) + "\nsecond: " + headline(second);
  const double ratio = answer::tokens_per_second_gpu(*second.answer) /
                       std::max(answer::tokens_per_second_gpu(*first.answer), 1e-9);
  if (both) text += fmt::format("\ntokens/s/GPU of the second: {:+.1f} %", 100 * (ratio - 1));
  output::Document document;
  document.blocks.emplace_back(output::Note{"", text, true});
  document.blocks.emplace_back(
      output::Values{"",
                     {output::value("first_fits", "", first.answer->run.fits()),
                      output::value("second_fits", "", second.answer->run.fits())}});
  if (both)
    document.blocks.emplace_back(
        output::Values{"", {output::value("tokens_s_gpu_change_pct", "", 100 * (ratio - 1))}});
  output::Rows settings = settings_of(first, second);
  settings.searched = settings.cells.empty();
  document.blocks.emplace_back(std::move(settings));
  if (both) document.blocks.emplace_back(times_of(*first.answer, *second.answer));
  document.blocks.emplace_back(memory_of(*first.answer, *second.answer));
  say(globals, "compare-plans", document);
  return both ? exit_yes : exit_no;
}

}  // namespace sim::command
