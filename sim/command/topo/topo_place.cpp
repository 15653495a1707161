// topo_place.cpp — `rehearse topo place`: finds the best nodes for a plan's ranks.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/answer/answer.h"
#include "sim/answer/evaluate.h"
#include "sim/command/common/watch.h"
#include "sim/command/topo/topo.h"
#include "sim/input/plan/plan.h"
#include "sim/output/document.h"
#include "sim/study/tune/place.h"

namespace sim::command {
namespace {

using output::Json;

// Text of an order of nodes: "0-3 7 5-4" with rising and falling ranges, or names if nodes have
// names.
std::string order_text(const std::vector<int>& order, const topology::NodeRates& rates) {
  std::string text;
  for (std::size_t i = 0; i < order.size();) {
    std::size_t end = i + 1;
    if (rates.empty()) {
      while (end < order.size() && order[end] == order[end - 1] + 1) ++end;
    }
    const std::string first =
        rates.empty() ? std::to_string(order[i]) : rates.names[static_cast<std::size_t>(order[i])];
    text += (text.empty() ? "" : " ") + first;
    if (end - i > 1) text += fmt::format("{}{}", end - i > 2 ? "-" : " ", order[end - 1]);
    i = end;
  }
  return text;
}

struct Replayed {
  bool fits = false;
  double step = 0;
};

Replayed replayed(const program::ValidPlan& plan, input::Machine machine,
                  const std::vector<int>& order, bool coupled) {
  // Unused nodes follow, so that the order contains every node.
  std::vector<int> all = order;
  for (int node = 0; node < machine.cluster.nodes; ++node)
    if (std::ranges::count(order, node) == 0) all.push_back(node);
  machine.cluster.hosts = all;
  machine.text += fmt::format("\nhost: {}", fmt::join(all, " "));
  answer::Sites sites;
  engine::Options how;
  how.couple = coupled;
  const answer::CheckedPlan there = need(answer::check(plan, *need(sites.of(machine))));
  const answer::Answer answer = answer::evaluate_once(there, how);
  return {answer.run.fits(), answer.run.fits() ? answer::step_seconds(answer) : 0};
}

output::Rows traffic_of(const study::Placement& found) {
  output::Rows rows{"traffic",
                    "",
                    {{"communicator", "between nodes", "", 0, true},
                     {"bytes", "bytes", "", 0, false, "", 1, output::Show::bytes},
                     {"model_seconds_before", "model", "s", 4},
                     {"longest_link_before", "longest link", "", 0, true},
                     {"model_seconds_after", "then", "s", 4},
                     {"longest_link_after", "longest link then", "", 0, true}},
                    {}};
  for (const study::PlacedTraffic& t : found.traffic)
    rows.cells.push_back(
        {t.who, t.bytes, t.seconds_before, t.link_before, t.seconds_after, t.link_after});
  rows.searched = rows.cells.empty();
  return rows;
}

std::string steps_text(const study::Placement& found, const topology::NodeRates& rates,
                       const std::array<Replayed, 2>& times) {
  const auto step = [](const Replayed& r) {
    return r.fits ? fmt::format("step {:.3f} s", r.step) : std::string("out of memory");
  };
  std::string text = fmt::format("nodes before  {}\nnodes after   {}\n",
                                 order_text(found.before, rates), order_text(found.after, rates));
  text += fmt::format("replayed before  {}\nreplayed after   {}", step(times[0]), step(times[1]));
  if (times[0].fits && times[1].fits)
    text += fmt::format(", {:+.2f} %", 100 * (times[1].step / times[0].step - 1));
  return text + "\n";
}

output::Document document_of(const input::PlanFile& file, const study::Placement& found,
                             const std::array<Replayed, 2>& times, std::int64_t seed) {
  const auto step = [](const Replayed& r) { return r.fits ? Json(r.step) : Json(nullptr); };
  output::Document document;
  document.blocks.emplace_back(
      output::Note{"", fmt::format("{} on {}, {} of {} nodes; {} moves, seed {}", file.name,
                                   file.machine.cluster.name, found.before.size(),
                                   file.machine.cluster.nodes, found.moves, seed)});
  document.blocks.emplace_back(output::Values{
      "",
      {output::value("seed", "", seed), output::value("moves", "", found.moves),
       output::value("before", "", found.before), output::value("after", "", found.after)}});
  if (found.traffic.empty())
    document.blocks.emplace_back(
        output::Note{"", "no traffic leaves a node: the order makes no difference"});
  document.blocks.emplace_back(traffic_of(found));
  document.blocks.emplace_back(
      output::Note{"", steps_text(found, file.machine.cluster.rates, times)});
  document.blocks.emplace_back(
      output::Values{"",
                     {output::value("step_time_s_before", "", step(times[0])),
                      output::value("step_time_s_after", "", step(times[1]))}});
  if (found.after != found.before)
    document.blocks.emplace_back(
        output::Note{"", fmt::format("host=[{}]", fmt::join(found.after, ","))});
  return document;
}

}  // namespace

int topo_place(const Options& options, Globals globals) {
  const Options::Named from = options.named(1);
  const std::string path = from.name.empty() ? "" : workload_path(from.name);
  const input::PlanFile file = need(input::load_plan(path, from.settings));
  answer::Sites sites;
  const answer::CheckedPlan plan = checked(file, sites);
  study::PlaceSettings settings;
  settings.seed = static_cast<std::uint64_t>(options.number("seed", 1, 0, 1'000'000'000));
  settings.moves = options.number("moves", 0, 0, 100'000'000);
  const bool coupled = options.choice("network", "isolated", {"isolated", "coupled"}) == "coupled";
  study::Placement found = study::place(plan, settings);
  std::array<Replayed, 2> times = {replayed(file.plan, file.machine, found.before, coupled),
                                   replayed(file.plan, file.machine, found.after, coupled)};
  // The replay decides: a slower new order is dropped.
  if (times[0].fits && (!times[1].fits || times[1].step > times[0].step)) {
    found.after = found.before;
    times[1] = times[0];
    for (study::PlacedTraffic& t : found.traffic) {
      t.seconds_after = t.seconds_before;
      t.link_after = t.link_before;
    }
  }
  const topology::NodeRates& rates = file.machine.cluster.rates;
  if (options.has("output")) {
    std::string list;
    for (const int node : found.after)
      list += (rates.empty() ? fmt::format("node{}", node)
                             : rates.names[static_cast<std::size_t>(node)]) +
              "\n";
    save(options.text("output"), list);
  }
  say(globals, "topo-place",
      document_of(file, found, times, static_cast<std::int64_t>(settings.seed)));
  return exit_yes;
}

}  // namespace sim::command
