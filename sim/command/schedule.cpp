// schedule.cpp — `rehearse schedule`: draws the order of passes of a pipeline schedule with pass
// times that the user states. It needs no model and no machine, like figures in papers.
#include "sim/job/schedule/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "sim/base/text.h"
#include "sim/command/common/command.h"
#include "sim/job/schedule/timeline.h"
#include "sim/job/schedule/timeline_svg.h"
#include "sim/output/document.h"

namespace sim::command {
namespace {

using output::Json;
using schedule::PipelineShape;
using schedule::Schedule;
using schedule::Timeline;

// More columns make the picture unreadable.
constexpr double most_columns = 400;
constexpr double longest_time = 1e9;

const Schedule& schedule_of(const std::string& name) {
  const Schedule* found = schedule::find(name);
  if (!found) throw Stop{exit_usage, schedule::unknown(name)};
  return *found;
}

double time_of(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  const bool whole = !text.empty() && *end == '\0';
  if (!whole || !(value >= 0 && value <= longest_time))
    throw Stop{exit_usage, fmt::format("--times: '{}' is no time; write a number from 0 to {:g}",
                                       text, longest_time)};
  return value;
}

// Reads "forward=1,backward=1,weight=1,transfer=0,kept=1"; missing names keep their values.
schedule::Times times_of(const std::string& text) {
  schedule::Times times;
  const std::vector<std::pair<std::string, double*>> known = {
      {"forward", &times.forward},   {"backward", &times.backward}, {"weight", &times.weight},
      {"transfer", &times.transfer}, {"output", &times.output},     {"kept", &times.kept}};
  std::vector<std::string> names;
  for (const auto& [name, value] : known) names.push_back(name);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string one = text.substr(at, end - at);
    const std::size_t equals = one.find('=');
    const std::string name = one.substr(0, equals);
    const auto found =
        std::ranges::find_if(known, [&](const auto& entry) { return entry.first == name; });
    if (found == known.end() || equals == std::string::npos)
      throw Stop{exit_usage, fmt::format("--times takes NAME=TIME of {}, not '{}'{}",
                                         fmt::join(names, ", "), one, did_you_mean(name, names))};
    *found->second = time_of(one.substr(equals + 1));
    at = end + 1;
  }
  return times;
}

schedule::Interleaving interleaving_of(const Options& options) {
  const std::string rule =
      options.choice("rule", "megatron-0.10", {"megatron-0.9", "megatron-0.10", "pytorch"});
  if (rule == "megatron-0.9") return schedule::Interleaving::all_forwards_first;
  if (rule == "pytorch") return schedule::Interleaving::whole_rounds;
  return schedule::Interleaving::alternating;
}

std::string text_of(const schedule::Order& order) {
  std::string text;
  for (const schedule::ScheduledPass& step : order) text += (text.empty() ? "" : " ") + name(step);
  return text;
}

// Time per column: the shortest pass, unless the picture becomes too wide.
double column(const Timeline& timeline) {
  double shortest = timeline.makespan;
  for (const auto& row : timeline.rows)
    for (const schedule::Timed& timed : row)
      if (timed.end > timed.start) shortest = std::min(shortest, timed.end - timed.start);
  return std::max(shortest, timeline.makespan / most_columns);
}

output::Document document_of(const Schedule& schedule, const PipelineShape& shape,
                             const Timeline& timeline, const std::vector<schedule::Order>& orders) {
  const double unit = column(timeline);
  std::vector<std::string> live_text, busy_text;
  Json live = Json::array(), texts = Json::array();
  for (const int one : timeline.live) {
    live.push_back(in_stages(schedule, shape, one));
    live_text.push_back(shortest(in_stages(schedule, shape, one)));
  }
  for (const double one : timeline.busy) busy_text.push_back(shortest(one));
  for (const schedule::Order& order : orders) texts.push_back(text_of(order));
  std::string head =
      fmt::format("{}: {}, {} microbatch{}", schedule.name, counted(shape.stages, "stage"),
                  shape.microbatches, shape.microbatches == 1 ? "" : "es");
  if (shape.chunks > 1) head += fmt::format(", {} chunks", shape.chunks);
  if (shape.slices > 1) head += fmt::format(", {} slices", shape.slices);
  head += fmt::format("; a column is {}\n", shortest(unit));
  output::Document document;
  document.blocks.emplace_back(output::Note{"", head, true});
  document.blocks.emplace_back(output::Values{
      "",
      {output::value("schedule", "", std::string(schedule.name)),
       output::value("stages", "", shape.stages),
       output::value("microbatches", "", shape.microbatches),
       output::value("chunks", "", shape.chunks), output::value("slices", "", shape.slices),
       output::value("makespan", "", timeline.makespan), output::value("span", "", timeline.span),
       output::value("busy", "", timeline.busy), output::value("peak_live", "", live),
       output::value("bubble_pct", "", timeline.bubble_percent())}});
  document.blocks.emplace_back(output::Data{"orders", texts});
  document.blocks.emplace_back(output::Picture{unit > 0 ? draw(timeline, unit) : ""});
  document.blocks.emplace_back(
      output::Values{"",
                     {output::value("", "makespan", shortest(timeline.makespan)),
                      output::value("", "span", shortest(timeline.span), "(longest stage)"),
                      output::value("", "busy", fmt::format("{}", fmt::join(busy_text, " "))),
                      output::value("", "peak live", fmt::format("{}", fmt::join(live_text, " ")),
                                    "(activations of a full stage)"),
                      output::value("", "bubble", timeline.bubble_percent(), "%", 1)}});
  return document;
}

}  // namespace

int run_schedule(const Arguments& arguments, Globals globals) {
  Options options("schedule");
  options.value("stages", "P", "pipeline stages");
  options.value("microbatches", "M", "microbatches of a step");
  options.value("chunks", "V", "parts of the model per stage (default: the schedule's own)");
  options.value("slices", "N", "token slices of a sequence (default: the schedule's own)");
  options.value("group", "G", "microbatches that go round together (default: by the rule)");
  options.value("rule", "RULE", "interleaving: megatron-0.9, megatron-0.10 or pytorch");
  options.value("times", "NAME=TIME,...",
                "forward=1,backward=1,weight=1,transfer=0,output=0 (vocabulary passes),kept=1 (of "
                "a microbatch's memory, from its backward to its weight pass)");
  options.output("svg", "FILE", "also draw it as papers do: boxes with microbatch numbers (SVG)");
  options.words(1, 1).parse(arguments, globals);
  const Schedule& schedule = schedule_of(options.words()[0]);
  for (const char* needed : {"stages", "microbatches"})
    if (!options.has(needed))
      throw Stop{exit_usage, fmt::format("`rehearse schedule` needs --{}", needed)};
  constexpr std::int64_t most = 1 << 30;  // the schedule's own rule limits the numbers
  const auto number = [&](const char* name, int otherwise) {
    return static_cast<int>(options.number(name, otherwise, -most, most));
  };
  PipelineShape shape{.stages = number("stages", 1),
                      .microbatches = number("microbatches", 1),
                      .chunks = number("chunks", schedule.chunks),
                      .slices = number("slices", schedule.slices),
                      .group = number("group", 0),
                      .interleaving = interleaving_of(options),
                      .times = times_of(options.text("times"))};
  if (const std::string problem = schedule.problem(shape); !problem.empty())
    throw Stop{exit_data, fmt::format("schedule {}: {}", schedule.name, problem)};
  const std::vector<schedule::Order> orders = schedule.orders(shape);
  const Timeline timeline = run(schedule, shape, orders);
  if (options.has("svg")) {
    const std::string title =
        fmt::format("{}: {}, {}, bubble {:.1f} %", schedule.name, counted(shape.stages, "stage"),
                    fmt::format("{} microbatches", shape.microbatches), timeline.bubble_percent());
    save(options.text("svg"), schedule::timeline_svg(timeline, title));
  }
  say(globals, "schedule", document_of(schedule, shape, timeline, orders));
  return exit_yes;
}

}  // namespace sim::command
