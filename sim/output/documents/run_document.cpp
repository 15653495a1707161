#include "sim/output/documents/run_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/output/documents/run_text.h"

namespace sim::output {

namespace {

using engine::Account;
using engine::ClassReport;

// More marks cannot be distinguished, and the page must fit into a mail.
constexpr std::size_t spans_most = 24'000;
constexpr std::size_t memory_stages_most = 8;

std::string gib_key(program::Category category) {
  return key_of(program::name(category)) + "_gib";
}

// For each stage the class that `better` prefers.
template <class Better>
std::vector<std::size_t> of_each_stage(const engine::RunReport& run, Better better) {
  std::vector<std::size_t> best;
  std::vector<bool> known;
  for (std::size_t c = 0; c < run.classes.size(); ++c) {
    const auto stage = static_cast<std::size_t>(run.classes[c].stage);
    if (best.size() <= stage) {
      best.resize(stage + 1, 0);
      known.resize(stage + 1, false);
    }
    if (!known[stage] || better(c, best[stage])) best[stage] = c;
    known[stage] = true;
  }
  return best;
}

std::string label_of(const PassTimeline::Span& span) {
  const char letter = program::name(span.pass).front();
  std::string text(1, static_cast<char>(std::toupper(letter)));
  if (span.pass == program::PassKind::weight) text = "W";
  if (span.pass == program::PassKind::output) text = "S";
  if (span.pass == program::PassKind::output_gradient) text = "T";
  if (span.microbatch < 0) return std::string(program::name(span.pass));
  return text + fmt::format("{}", span.microbatch) +
         (span.chunk > 0 ? fmt::format(".{}", span.chunk) : "");
}

Rows pass_rows(const answer::Answer& answer, const PassTimeline& passes) {
  Rows rows{"passes",
            "passes of the last step on the compute stream",
            {{"stage", "stage", "", 0, true},
             {"pass", "pass", "", 0, true},
             {"label", "label", "", 0, true},
             {"begin_s", "begin", "s", 6},
             {"end_s", "end", "s", 6}},
            {},
            true};
  const auto first = [](std::size_t, std::size_t) { return false; };
  Time origin{std::numeric_limits<std::int64_t>::max()};
  const std::vector<std::size_t> classes = of_each_stage(answer.run, first);
  for (const std::size_t c : classes) {
    for (const PassTimeline::Span& span : passes.of(c)) origin = std::min(origin, span.begin);
  }
  for (const std::size_t c : classes) {
    for (const PassTimeline::Span& span : passes.of(c)) {
      if (rows.cells.size() == spans_most) return rows;
      rows.cells.push_back({fmt::format("stage {}", answer.run.classes[c].stage),
                            std::string(program::name(span.pass)), label_of(span),
                            rounded(seconds(span.begin - origin), 6),
                            rounded(seconds(span.end - origin), 6)});
    }
  }
  return rows;
}

Rows memory_rows(const answer::Answer& answer, const MemoryTimeline& memory) {
  Rows rows{"memory",
            "memory over time",
            {{"stage", "stage", "", 0, true}, {"seconds", "time since the start", "s", 3}},
            {},
            true};
  for (int c = 0; c < program::category_count; ++c) {
    const auto category = static_cast<program::Category>(c);
    std::string heading(program::name(category));
    std::ranges::replace(heading, '_', ' ');
    rows.columns.push_back({gib_key(category), heading, "GiB", 3});
  }
  rows.columns.push_back({"reserved_gib", "reserved", "GiB", 3});
  rows.columns.push_back({"where", "where", "", 0, true});
  std::vector<std::size_t> classes = of_each_stage(answer.run, [&](std::size_t a, std::size_t b) {
    return answer.run.classes[a].peak_reserved > answer.run.classes[b].peak_reserved;
  });
  std::ranges::stable_sort(classes, [&](std::size_t a, std::size_t b) {
    return answer.run.classes[a].peak_reserved > answer.run.classes[b].peak_reserved;
  });
  if (classes.size() > memory_stages_most) classes.resize(memory_stages_most);
  for (const std::size_t c : classes) {
    if (c >= memory.size()) continue;
    const ClassReport& who = answer.run.classes[c];
    const MemoryTimeline::Class own = memory.of(c);
    const auto most = std::ranges::max_element(
        own.intervals, {}, [](const auto& interval) { return interval.most.allocated; });
    for (auto at = own.intervals.begin(); at != own.intervals.end(); ++at) {
      const auto index = static_cast<double>(at - own.intervals.begin());
      std::vector<Json> cells = {fmt::format("stage {}", who.stage),
                                 rounded(seconds(own.width) * index, 6)};
      for (const std::int64_t held : at->most.split)
        cells.emplace_back(rounded(gib(Bytes{held}), 3));
      cells.emplace_back(rounded(gib(Bytes{at->most.reserved}), 3));
      cells.emplace_back(at == most ? answer::words(who.peak_place) : "");
      rows.cells.push_back(std::move(cells));
    }
  }
  return rows;
}

Series memory_series(const answer::Answer& answer) {
  Series series;
  series.kind = Series::Kind::areas;
  series.title = "memory over time by category: the fullest rank of each stage";
  series.table = "memory";
  series.x = "seconds";
  series.group = "stage";
  series.label = "where";
  for (int c = 0; c < program::category_count; ++c)
    series.y.push_back(gib_key(static_cast<program::Category>(c)));
  series.y.push_back("reserved_gib");
  series.fixed = {"reserved_gib"};
  series.rules.push_back(
      {Rule::Kind::y, gib(answer::fullest(answer.run).capacity), "device limit"});
  return series;
}

Rows time_rows(const answer::Answer& answer) {
  Rows rows{"time", "where the step's time goes", {{"rank", "ranks", "", 0, true}}, {}};
  for (int a = 0; a < engine::account_count; ++a) {
    const auto account = static_cast<Account>(a);
    rows.columns.push_back({key_of(engine::name(account)) + "_s", answer::words(account), "s", 4});
  }
  for (const ClassReport& who : answer.run.classes) {
    std::vector<Json> cells = {fmt::format("stage {}, cp rank {}", who.stage, who.cp_rank)};
    for (const Duration spent : who.accounts) cells.emplace_back(rounded(seconds(spent), 6));
    rows.cells.push_back(std::move(cells));
  }
  return rows;
}

Rows link_rows(const std::vector<LinkBusy>& links) {
  Rows rows{"links",
            "how busy the links are: the busiest of each kind",
            {{"kind", "kind", "", 0, true},
             {"busiest", "busiest", "", 0, true},
             {"traffic", "traffic", "", 0, true},
             {"busy_pct", "busy", "%", 2},
             {"mean_pct", "mean of the kind", "%", 2},
             {"links", "links", "", 0}},
            {}};
  for (const LinkBusy& link : links) {
    rows.cells.push_back({link.kind, link.busiest, link.traffic, rounded(100 * link.busy, 3),
                          rounded(100 * link.mean, 3), link.links});
  }
  return rows;
}

Series bars(const std::string& title, const std::string& table, const std::string& x,
            std::vector<std::string> y) {
  Series series;
  series.kind = Series::Kind::bars;
  series.title = title;
  series.table = table;
  series.x = x;
  series.y = std::move(y);
  return series;
}

}  // namespace

Document run_document(const answer::Answer& answer, const std::string& intervals,
                      const PassTimeline& passes, const MemoryTimeline& memory,
                      const std::vector<LinkBusy>& links, const std::string& fabric) {
  Document document{
      answer.plan.architecture.name + " on " + answer.machine.cluster, plan_line(answer), {}, {}};
  document.blocks.emplace_back(Note{"", headline(answer), true});
  document.blocks.emplace_back(Note{"", answer::limit(answer) + "\n" + intervals});
  if (!answer.run.fits()) document.blocks.emplace_back(Note{"", oom_text(answer)});
  Rows spans = pass_rows(answer, passes);
  if (!spans.cells.empty()) {
    document.blocks.emplace_back(Timeline{
        spans.cells.size() == spans_most ? "the pipeline: the first passes of the last step"
                                         : "the pipeline: every pass of the last step, by stage",
        "passes", "stage", "begin_s", "end_s", "pass", "label"});
  }
  document.blocks.emplace_back(memory_series(answer));
  Rows time = time_rows(answer);
  std::vector<std::string> accounts;
  for (std::size_t i = 1; i < time.columns.size(); ++i) {
    const bool any = std::ranges::any_of(
        time.cells, [&](const auto& cells) { return cells[i].template get<double>() > 0; });
    if (any) accounts.push_back(time.columns[i].key);
  }
  document.blocks.emplace_back(
      bars("where the step's time goes: every bar is one step", "time", "rank", accounts));
  if (!links.empty()) {
    document.blocks.emplace_back(
        bars("how busy the busiest link of each kind is", "links", "kind", {"busy_pct"}));
    document.blocks.emplace_back(link_rows(links));
    if (!fabric.empty()) document.blocks.emplace_back(Picture{fabric});
  }
  document.blocks.emplace_back(std::move(time));
  document.blocks.emplace_back(std::move(spans));
  document.blocks.emplace_back(memory_rows(answer, memory));
  return document;
}

}  // namespace sim::output
