#include "sim/study/plan/document.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/base/text.h"
#include "sim/study/plan/report_values.h"

namespace sim::planner {

const Refined* launched_form(const SearchReport& said) {
  const Refined* form = nullptr;
  if (said.own != nullptr) return form;  // the changes of the user's plan are those of the best
  std::int64_t least = said.outcome.best.front().step_ps;
  // For other objectives only refined forms of the best plan count.
  const bool any = said.wanted.objective == Objective::time;
  for (const Refined& one : said.refined)
    if ((any || one.rank == 0) && one.replayed.step_ps < least) {
      least = one.replayed.step_ps;
      form = &one;
    }
  return form;
}

std::size_t launched_rank(const SearchReport& said) {
  const Refined* form = launched_form(said);
  return form == nullptr ? 0 : form->rank;
}

namespace {

using output::Json;
using output::Note;
using output::Rows;

// The settings `all` of a plan without those that all plans share.
std::string own_text(const SearchReport& said, const Replayed& one, const std::string& all) {
  const PlanShape& core = said.space.cores()[one.core];
  const std::string& shared = said.space.bases()[core.base].words;
  std::string own = all.substr(std::min(shared.size() + 1, all.size()));
  // Adds settings of the base that differ between bases.
  for (std::size_t at = 0; at < shared.size();) {
    const std::size_t end = std::min(shared.find(' ', at), shared.size());
    const std::string word = shared.substr(at, end - at);
    at = end + 1;
    const bool everywhere = std::ranges::all_of(said.space.bases(), [&](const Base& base) {
      return (base.words + " ").find(word + " ") != std::string::npos;
    });
    if (!everywhere) own = word + " " + own;
  }
  return own;
}

std::string own_text(const SearchReport& said, const Replayed& one) {
  return own_text(said, one, said.space.words(said.space.cores()[one.core], one.variant));
}

// The columns of a whole training run that are known, as `whatif` prints them, with their values of
// one plan.
std::vector<std::pair<output::Column, double>> whole_run(const SearchReport& said,
                                                         const Replayed* one) {
  if (said.cost.tokens <= 0) return {};
  answer::RunCost run;
  if (one != nullptr) run = answer::run_cost(said.cost, one->tokens_s_gpu, gpus_of(said, *one));
  std::vector<std::pair<output::Column, double>> columns = {{{"days", "days", "", 1}, run.days}};
  if (said.cost.price_per_gpu_hour > 0)
    columns.emplace_back(output::Column{"cost", "cost", "", 4, false, "", 1, output::Show::general},
                         run.cost);
  if (said.cost.power_w > 0)
    columns.emplace_back(output::Column{"energy_mwh", "energy", "MWh", 1}, run.mwh);
  return columns;
}

std::vector<output::Column> plan_columns(const SearchReport& said) {
  std::vector<output::Column> columns = {{"step_time_s", "step", "s", 3},
                                         {"low_s", "low", "s", 2},
                                         {"high_s", "high", "s", 2},
                                         {"tokens_s_gpu", "tokens/s/GPU", "", 0},
                                         {"tflops_gpu", "TFLOP/s/GPU", "", 1},
                                         {"bubble", "bubble", "%", 1},
                                         {"peak_reserved_gib", "reserved", "GiB", 1},
                                         {"headroom_gib", "headroom", "GiB", 1},
                                         {"fits_probability", "fits", "%", 0}};
  if (said.cost.price_per_gpu_hour > 0)
    columns.push_back({"cost_per_million_tokens", "cost/Mtoken", "", 3});
  if (said.cost.power_w > 0) columns.push_back({"joules_per_token", "J/token", "", 3});
  for (const auto& [column, value] : whole_run(said, nullptr)) columns.push_back(column);
  columns.push_back({"plan", "plan", "", 0, true});
  return columns;
}

std::vector<Json> plan_cells(const SearchReport& said, const Replayed& one) {
  std::vector<Json> cells = {output::rounded(seconds_of(one), 4)};
  for (const double bound : {one.low_s, one.high_s})
    cells.push_back(bound > 0 ? Json(output::rounded(bound, 3)) : Json());
  cells.emplace_back(output::rounded(one.tokens_s_gpu, 2));
  cells.emplace_back(output::rounded(one.tflops_gpu, 2));
  cells.emplace_back(output::rounded(100 * one.bubble, 2));
  cells.emplace_back(output::rounded(gib_of(one.reserved), 2));
  cells.emplace_back(output::rounded(gib_of(one.capacity - one.reserved), 2));
  cells.push_back(one.likely < 0 ? Json() : Json(output::rounded(100 * one.likely, 1)));
  if (said.cost.price_per_gpu_hour > 0)
    cells.emplace_back(output::rounded(cost_per_million(said, one), 4));
  if (said.cost.power_w > 0)
    cells.emplace_back(output::rounded(said.cost.power_w / one.tokens_s_gpu, 4));
  for (const auto& [column, value] : whole_run(said, &one)) cells.emplace_back(value);
  cells.emplace_back(own_text(said, one));
  return cells;
}

Rows table_of(const SearchReport& said, const std::string& name, const std::string& title,
              const std::vector<Replayed>& plans) {
  Rows rows{name, title, plan_columns(said), {}};
  for (const Replayed& one : plans) rows.cells.push_back(plan_cells(said, one));
  // JSON and CSV keep the column.
  const auto likely = std::ranges::find(rows.columns, "fits_probability", &output::Column::key);
  if (std::ranges::any_of(plans, [](const Replayed& one) { return one.likely >= 0; })) return rows;
  likely->heading.clear();
  rows.footnote =
      "Probability of fitting: unknown. The GPU's profile has no range for memory outside the "
      "allocator\n";
  return rows;
}

// "75.3 of 75.5 GiB, at least 97 % likely to fit": a plan may also fit with less than its peak.
std::string memory_text(const Replayed& one) {
  std::string text =
      fmt::format("{:.1f} of {:.1f} GiB", gib_of(one.reserved), gib_of(one.capacity));
  if (one.likely >= 0)
    text += fmt::format(", {}{:.0f} % likely to fit", one.likely < 1 ? "at least " : "",
                        std::floor(100 * one.likely));
  return text;
}

// The faster plan that leaves less memory free than is wanted; "" if none is known.
std::string tight_of(const SearchReport& said, const Replayed& best) {
  if (!said.outcome.tight) return "";
  if (said.wanted.objective == Objective::time && said.outcome.tight->step_ps >= best.step_ps)
    return "";
  const Replayed& tight = *said.outcome.tight;
  return fmt::format("\nwith less memory free (--headroom 0): step {:.3f} s, {}, not proven:\n{}",
                     seconds_of(tight), memory_text(tight),
                     said.space.words(said.space.cores()[tight.core], tight.variant));
}

// The cost, energy and days of the best plan, where they are known.
std::string cost_of(const SearchReport& said, const Replayed& best) {
  answer::RateRange range;
  if (best.low_s > 0)
    range = answer::rate_range(best.tokens_s_gpu, seconds_of(best), best.low_s, best.high_s);
  const std::string text =
      answer::cost_text(said.cost, best.tokens_s_gpu, gpus_of(said, best), range);
  return text.empty() ? "" : "\n" + text.substr(0, text.size() - 1);
}

bool same_gpus(const SearchReport& said, const Replayed& best) {
  return gpus_of(said, best) == static_cast<int>(said.own->file.plan->world());
}

// "your plan (train.sh): step 12.1 s, 70.1 of 73.5 GiB"; "" if the search starts from no plan.
std::string own_plan_of(const SearchReport& said) {
  if (said.own == nullptr) return "";
  const Replayed& own = said.own->replayed;
  if (own.accounts.empty())
    return fmt::format("your plan ({}): out of memory: {}\n", said.own->path, own.reason);
  return fmt::format("your plan ({}): step {:.3f} s, {:.0f} tokens/s/GPU, {}\n", said.own->path,
                     seconds_of(own), own.tokens_s_gpu, memory_text(own));
}

// " (-14.2 %)": the step of the best against that of the user's plan, if both have the same GPUs.
std::string gain_over_own(const SearchReport& said, const Replayed& best) {
  if (said.own == nullptr || said.own->replayed.accounts.empty() || !same_gpus(said, best))
    return "";
  return fmt::format(" ({:+.1f} %)", 100 * (seconds_of(best) / seconds_of(said.own->replayed) - 1));
}

// "against your plan: tp 8 -> 4, ...", and a remark if the search found nothing faster.
std::string changes_of(const SearchReport& said, const Replayed& best) {
  if (said.own == nullptr) return "";
  std::string text;
  for (const Change& one : changes(*said.own->file.plan, plan_of(said, best), said.own->said))
    text += fmt::format("{}{} {} -> {}", text.empty() ? "\nagainst your plan: " : ", ", one.field,
                        one.from.empty() ? "unset" : one.from, one.to.empty() ? "unset" : one.to);
  if (text.empty()) return "\nyour plan is the best of the space";
  const Replayed& own = said.own->replayed;
  if (!own.accounts.empty() && same_gpus(said, best) && own.step_ps <= best.step_ps)
    text += own.fits ? "\nyour plan is faster: it has values that the search does not vary"
                     : "\nyour plan is faster, but leaves less memory free than the search asks "
                       "for (--headroom 0)";
  return text;
}

// The words of `run` that give the plan.
std::string words_of(const SearchReport& said, const Replayed& one) {
  const std::string whole = said.space.words(said.space.cores()[one.core], one.variant);
  if (said.own == nullptr) return whole;
  const std::string from_own = words_from_own(*said.own, plan_of(said, one));
  return from_own.empty() ? whole : from_own;
}

Note answer_of(const SearchReport& said) {
  const Outcome& outcome = said.outcome;
  if (outcome.best.empty()) {
    std::string text = own_plan_of(said) + "no plan fits";
    if (!outcome.complete)
      text = own_plan_of(said) +
             fmt::format(
                 "stopped before a plan was found: {} of {} plans were not looked at. A longer "
                 "--time-limit, or settings that you fix (tp=8), help",
                 outcome.counts.left, outcome.counts.plans);
    if (outcome.complete && outcome.nearest_known) {
      const PlanShape& core = said.space.cores()[outcome.nearest_core];
      text += fmt::format("\nthe nearest lacks {} on the rank that needs most: {}",
                          human(Bytes{outcome.nearest_lacks}), said.space.words(core, 0));
    }
    for (const std::string& relaxed : said.relaxed) text += "\n" + relaxed;
    return {"", text, true};
  }
  const Replayed& best = outcome.best.front();
  const Refined* form = launched_form(said);
  const Replayed& shown = form != nullptr ? form->replayed : best;
  std::string words = form != nullptr ? form->settings : words_of(said, best);
  if (form != nullptr)
    words += fmt::format("\nIt is plan {} below ({:.3f} s), refined: {}.", form->rank + 1,
                         seconds_of(outcome.best[form->rank]),
                         added_words(words_of(said, outcome.best[form->rank]), form->settings));
  return {"",
          fmt::format("{}{}: step {:.3f} s{}, {:.0f} tokens/s/GPU, {}{}\n{}{}", own_plan_of(said),
                      best.proven ? "best" : "best so far", seconds_of(shown),
                      gain_over_own(said, shown), shown.tokens_s_gpu, memory_text(shown),
                      changes_of(said, shown), words, tight_of(said, shown) + cost_of(said, shown)),
          true};
}

// "Started by Megatron-LM, NeMo 2: plans 1, 3; by torchtitan: plan 2": plans with the same programs
// together.
std::string programs_text(const std::vector<std::vector<std::string>>& programs) {
  std::vector<std::pair<std::vector<std::string>, std::vector<std::size_t>>> groups;
  for (std::size_t i = 0; i < programs.size(); ++i) {
    const auto same =
        std::ranges::find_if(groups, [&](const auto& group) { return group.first == programs[i]; });
    if (same == groups.end())
      groups.push_back({programs[i], {i + 1}});
    else
      same->second.push_back(i + 1);
  }
  std::string text;
  for (const auto& [names, plans] : groups)
    text += fmt::format(
        "{}{}: {}", text.empty() ? "Started by " : "; by ",
        names.empty() ? "no program that we write files for"
                      : fmt::format("{}", fmt::join(names, ", ")),
        groups.size() == 1 && programs.size() > 1
            ? "all of them"
            : fmt::format("{} {}", plans.size() == 1 ? "plan" : "plans", fmt::join(plans, ", ")));
  return text;
}

// If runs like the best plan were hardly measured: the fastest plan of the list with a narrow
// interval.
std::string surer_than_best(const SearchReport& said) {
  constexpr double wide = 1.8, narrow = 1.6;  // high / low
  const Replayed& best = said.outcome.best.front();
  const auto spread = [](const Replayed& one) {
    return one.low_s > 0 ? one.high_s / one.low_s : 0;
  };
  if (spread(best) <= wide) return "";
  std::string text =
      "\nthe best's interval is wide: few measured runs share parameters and gradients as it does";
  for (const Replayed& one : said.outcome.best)
    if (spread(one) > 0 && spread(one) <= narrow)
      return text +
             fmt::format(". The fastest with a narrow one takes {:.3f} s ({:.2f}-{:.2f} s): {}",
                         seconds_of(one), one.low_s, one.high_s, own_text(said, one));
  return text;
}

Note certainty_of(const SearchReport& said) {
  const Outcome& outcome = said.outcome;
  std::string text;
  const auto proven = static_cast<std::size_t>(
      std::ranges::count(outcome.best, true, [](const Replayed& one) { return one.proven; }));
  if (!outcome.complete) {
    text =
        outcome.least_left_s > 0
            ? fmt::format("stopped: a plan that was not looked at takes {:.3f} s or longer",
                          outcome.least_left_s)
            : "stopped before anything was proven: faster plans may exist. A longer --time-limit, "
              "or settings that you fix (tp=8), help";
  } else {
    text = "exact: no plan of the space is better in replay";
    if (proven < outcome.best.size())
      text += fmt::format(
          ". Proven: the first {}. The others are good plans; plans between them may exist "
          "(--best {} proves all)",
          proven, outcome.best.size());
  }
  if (outcome.best.size() < 2) return {"", text};
  const Replayed& best = outcome.best.front();
  std::size_t overlap = 0;
  for (std::size_t i = 1; i < outcome.best.size(); ++i)
    if (outcome.best[i].low_s > 0 && outcome.best[i].low_s <= best.high_s) ++overlap;
  if (best.high_s > 0)
    text += fmt::format(
        "\nagainst a real machine: of the {} others, {} have 90 % intervals that overlap the "
        "best's ({:.2f}-{:.2f} s); errors of plans on one machine go together, so the order is "
        "surer than that",
        outcome.best.size() - 1, overlap, best.low_s, best.high_s);
  text += surer_than_best(said);
  return {"", text};
}

Rows counts_of(const SearchReport& said) {
  const Counts& c = said.outcome.counts;
  Rows rows{
      "space", "the space", {{"what", "plans that", "", 0, true}, {"plans", "number", "", 0}}, {}};
  std::vector<std::pair<const char*, std::int64_t>> lines = {
      {"there are", c.plans},
      {"break a rule", c.impossible},
      {"were cut by their bound of time", c.cut_by_time},
      {"were cut by their bound of memory", c.cut_by_memory},
      {"were replayed", c.replayed}};
  if (c.left > 0) lines.emplace_back("were not looked at", c.left);
  for (const auto& [what, count] : lines) rows.cells.push_back({what, count});
  return rows;
}

Rows neighbours_of(const SearchReport& said) {
  Rows rows{"neighbours",
            "why not its neighbours: one decision changed, each replayed",
            {{"change", "change", "", 0, true},
             {"step_time_s", "step", "s", 3},
             {"against_best", "against", "%", 1},
             {"peak_reserved_gib", "reserved", "GiB", 1},
             {"why", "why", "", 0, true}},
            {}};
  const std::size_t rank = launched_rank(said);
  if (launched_form(said) != nullptr)
    rows.title += fmt::format(", beside plan {} before it was refined", rank + 1);
  const double best = seconds_of(said.outcome.best[rank]);
  for (const Neighbour& one : said.neighbours) {
    const bool ran = !one.replayed.accounts.empty();
    rows.cells.push_back(
        {one.change, ran ? Json(output::rounded(seconds_of(one.replayed), 4)) : Json(),
         ran ? Json(output::rounded(100 * (seconds_of(one.replayed) / best - 1), 2)) : Json(),
         one.replayed.needs > 0 ? Json() : Json(output::rounded(gib_of(one.replayed.reserved), 2)),
         one.why});
  }
  return rows;
}

Rows refined_of(const SearchReport& said) {
  Rows rows{"refined",
            "the best plans, refined: layers dealt to stages by the times of their blocks, "
            "tensor-parallel messages behind products, nodes ordered by their links",
            {{"rank", "of", "", 0},
             {"step_time_s", "step", "s", 3},
             {"against_plan", "against", "%", 1},
             {"peak_reserved_gib", "reserved", "GiB", 1},
             {"plan_words", "plan", "", 0, true}},
            {}};
  for (const Refined& one : said.refined) {
    const double even = seconds_of(said.outcome.best[one.rank]);
    const double step = seconds_of(one.replayed);
    rows.cells.push_back({one.rank + 1, output::rounded(step, 4),
                          output::rounded(100 * (step / even - 1), 2),
                          output::rounded(gib_of(one.replayed.reserved), 2),
                          own_text(said, one.replayed, one.settings)});
  }
  return rows;
}

Rows lifted_of(const SearchReport& said) {
  Rows rows{"constraints",
            "which constraint costs most: the best plan with twice of one, each searched",
            {{"constraint", "constraint", "", 0, true},
             {"change", "change", "", 0, true},
             {"tokens_s_gpu", "tokens/s/GPU", "", 0},
             {"gain", "gain", "%", 1, false, "", 100, output::Show::change},
             {"plan", "plan", "", 0, true}},
            {}};
  for (const Lifted& one : said.lifted) {
    const bool found = one.tokens_s_gpu > 0;
    rows.cells.push_back({one.constraint, one.change,
                          found ? Json(output::rounded(one.tokens_s_gpu, 1)) : Json(nullptr),
                          found ? Json(output::rounded(gain_of(said, one), 4)) : Json(nullptr),
                          one.plan});
  }
  return rows;
}

Note launch_of(const SearchReport& said) {
  std::string text;
  for (const LaunchText& one : said.launches) {
    if (!text.empty()) text += "\n";
    text += one.text.empty()
                ? fmt::format("{}: {}\n", one.program, one.left)
                : fmt::format("{} ({}){}\n{}", one.program, one.file,
                              one.left.empty() ? "" : ", which cannot say " + one.left, one.text);
  }
  const Replayed& best = said.outcome.best.front();
  const bool own = said.launched == said.space.words(said.space.cores()[best.core], best.variant);
  return {own ? "what to launch" : "what to launch: " + said.launched, text, false, "", true};
}

}  // namespace

Json found(const Space& space, const std::vector<Replayed>& replayed) {
  constexpr std::size_t most = 300;
  std::vector<const Replayed*> fitting;
  for (const Replayed& one : replayed)
    if (one.fits && !one.stopped) fitting.push_back(&one);
  std::ranges::sort(fitting, {}, [](const Replayed* one) { return one->step_ps; });
  if (fitting.size() > most) fitting.resize(most);
  Json all = Json::array();
  for (const Replayed* one : fitting)
    all.push_back({{"settings", space.words(space.cores()[one->core], one->variant)},
                   {"step_time_s", seconds_of(*one)},
                   {"tokens_s_gpu", one->tokens_s_gpu},
                   {"peak_reserved_gib", gib_of(one->reserved)},
                   {"capacity_gib", gib_of(one->capacity)}});
  return all;
}

output::Document document(const SearchReport& said) {
  output::Document out;
  out.title = fmt::format("plan: {} on {}", said.own != nullptr ? said.own->path : said.model,
                          said.cluster);
  out.blocks.emplace_back(answer_of(said));
  if (!said.outcome.best.empty()) {
    Rows plans = table_of(said, "plans", "the best plans (TFLOP/s as Megatron-LM counts them)",
                          said.outcome.best);
    std::vector<std::vector<std::string>> programs;
    for (const Replayed& one : said.outcome.best) programs.push_back(programs_of(said, one));
    plans.footnote += programs_text(programs) + "\n";
    if (said.own != nullptr && !said.own->replayed.accounts.empty()) {
      plans.cells.push_back(plan_cells(said, said.own->replayed));
      plans.cells.back().back() = "your plan, " + said.own->path;
    }
    if (said.cost.tokens > 0 && said.cost.power_w > 0)
      plans.footnote +=
          "Energy: boards at gpu.power_w, or at their rated power, without CPUs, switches and "
          "cooling (PUE)\n";
    out.blocks.emplace_back(std::move(plans));
    out.blocks.emplace_back(certainty_of(said));
    output::Series points;
    points.title = "throughput against memory";
    points.table = "replayed";
    points.x = "peak_reserved_gib";
    points.y = {"tokens_s_gpu"};
    points.label = "plan";
    points.front = true;
    out.blocks.emplace_back(points);
  }
  if (!said.refined.empty()) out.blocks.emplace_back(refined_of(said));
  out.blocks.emplace_back(counts_of(said));
  if (said.outcome.best.empty()) return out;
  Rows trade =
      table_of(said, "front", "time against memory: the front of the plans that were replayed",
               front(said.outcome.replayed));
  trade.footnote.clear();
  out.blocks.emplace_back(std::move(trade));
  if (!said.neighbours.empty()) out.blocks.emplace_back(neighbours_of(said));
  if (!said.lifted.empty()) out.blocks.emplace_back(lifted_of(said));
  Rows all = table_of(said, "replayed", "all plans that were replayed", said.outcome.replayed);
  std::erase_if(all.cells, [](const std::vector<Json>& cells) { return cells[3] == 0.0; });
  all.searched = true;
  out.blocks.emplace_back(std::move(all));
  if (!said.launches.empty()) out.blocks.emplace_back(launch_of(said));
  return out;
}

}  // namespace sim::planner
