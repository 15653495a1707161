#include "sim/output/documents/run_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "sim/output/documents/run_text.h"
#include "sim/output/documents/schedule_picture.h"

namespace sim::output {

namespace {

using engine::Account;
using engine::ClassReport;

// More marks cannot be distinguished, and the page must fit into a mail.
constexpr std::size_t spans_most = 24'000;
constexpr std::size_t memory_stages_most = 8, memory_rows_most = 2'400;
constexpr std::size_t stream_stages_most = 8, stream_spans_most = 120;
// A stream that is busy for less of the first part of the step has no lane.
constexpr double busy_least = 0.002;

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

// The rows of a timeline of passes, and where its first part ends: the warm-up of the pipeline and
// some passes of its steady state.
struct PassRows {
  Rows rows;
  double first = 0;  // seconds; 0: the step is short enough to be shown whole
};

// What a stream does, as the lane that readers look for.
std::string lane_of(program::Stream stream) {
  using program::Stream;
  switch (stream) {
    case Stream::unshard:
    case Stream::reduce:
    case Stream::dp:
    case Stream::dp_cp:
    case Stream::shard:
    case Stream::replicate:
    case Stream::shard_near:
    case Stream::shard_far:
      return "data parallel";
    case Stream::pcie_up:
    case Stream::pcie_down:
      return "PCIe copies";
    default:
      break;
  }
  const std::string name(program::name(stream));
  return name.starts_with("pp") ? "pipeline" : name;
}

using Busy = std::vector<PassTimeline::Busy>;

// Joins gaps that cannot be seen, and keeps the first spans.
Busy joined(Busy all, Time origin, Time until) {
  const std::int64_t gap = (until - origin).ps / 800;
  std::ranges::sort(all, {}, [](const PassTimeline::Busy& one) { return one.begin.ps; });
  Busy spans;
  for (const PassTimeline::Busy& one : all) {
    if (one.end <= origin || one.begin >= until) continue;
    if (!spans.empty() && (one.begin - spans.back().end).ps <= gap) {
      spans.back().end = std::max(spans.back().end, one.end);
    } else if (spans.size() < stream_spans_most) {
      spans.push_back({std::max(one.begin, origin), one.end});
    }
  }
  return spans;
}

// The communication of a stage in the first part of the step, in lanes below the stage.
void add_lanes(std::vector<std::vector<Json>>& cells, const std::string& stage,
               const PassTimeline::Streams& streams, Time origin, Time until) {
  std::map<std::string, Busy> lanes;
  for (const auto& [stream, all] : streams) {
    Busy& lane = lanes[lane_of(stream)];
    lane.insert(lane.end(), all.begin(), all.end());
  }
  for (const auto& [name, all] : lanes) {
    std::int64_t busy = 0;
    for (const PassTimeline::Busy& one : all)
      if (one.begin < until) busy += (one.end - one.begin).ps;
    if (static_cast<double>(busy) < busy_least * static_cast<double>((until - origin).ps)) continue;
    for (const PassTimeline::Busy& one : joined(all, origin, until))
      cells.push_back({stage + " " + name, name, "", rounded(seconds(one.begin - origin), 6),
                       rounded(seconds(one.end - origin), 6)});
  }
}

PassRows pass_rows(const answer::Answer& answer, const PassTimeline& passes) {
  PassRows all;
  Rows& rows = all.rows;
  rows = {"passes",
          "passes of the last step, and what other streams do in its first part",
          {{"stage", "lane", "", 0, true},
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
  Time until{};
  for (const std::size_t c : classes)
    for (const PassTimeline::Span& span : passes.of(c)) until = std::max(until, span.end);
  const std::size_t first_passes = 2 * classes.size() + 24;
  if (const auto leading =
          classes.empty() ? std::vector<PassTimeline::Span>{} : passes.of(classes[0]);
      leading.size() > 2 * first_passes) {
    until = leading[first_passes].end;
    all.first = rounded(seconds(until - origin), 6);
  }
  for (const std::size_t c : classes) {
    const std::string stage = fmt::format("stage {}", answer.run.classes[c].stage);
    for (const PassTimeline::Span& span : passes.of(c)) {
      if (rows.cells.size() >= spans_most) return all;
      rows.cells.push_back({stage, std::string(program::name(span.pass)), label_of(span),
                            rounded(seconds(span.begin - origin), 6),
                            rounded(seconds(span.end - origin), 6)});
    }
    if (classes.size() <= stream_stages_most)
      add_lanes(rows.cells, stage, passes.streams_of(c), origin, until);
  }
  return all;
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
    const auto allocated = [](const auto& interval) { return interval.most.allocated; };
    const auto most = std::ranges::max_element(own.intervals, {}, allocated);
    // Neighbours share a row if there are too many; the row shows the highest of them.
    const std::size_t width =
        1 + own.intervals.size() * std::min(classes.size(), memory.size()) / memory_rows_most;
    for (std::size_t from = 0; from < own.intervals.size(); from += width) {
      const auto begin = own.intervals.begin() + static_cast<std::ptrdiff_t>(from);
      const auto end =
          begin + static_cast<std::ptrdiff_t>(std::min(width, own.intervals.size() - from));
      const auto at = std::max_element(
          begin, end, [&](const auto& a, const auto& b) { return allocated(a) < allocated(b); });
      const auto index = static_cast<double>(from);
      std::vector<Json> cells = {fmt::format("stage {}", who.stage),
                                 rounded(seconds(own.width) * index, 6)};
      for (const std::int64_t held : at->most.split)
        cells.emplace_back(rounded(gib(Bytes{held}), 3));
      std::int64_t reserved = 0;
      for (auto one = begin; one != end; ++one) reserved = std::max(reserved, one->most.reserved);
      cells.emplace_back(rounded(gib(Bytes{reserved}), 3));
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
  const int all = answer.plan.microbatches(), first = answer.plan.warm_up_microbatches();
  if (answer.run.warm_up_time.ps > 0)
    series.rules.push_back({Rule::Kind::x, seconds(answer.run.warm_up_time),
                            first < all ? fmt::format("step 1 is cut: {} of {} microbatches fill "
                                                      "the pipeline",
                                                      first, all)
                                        : "step 1 ends"});
  for (const ClassReport& who : answer.run.classes)
    if (who.out_of_memory)
      series.rules.push_back(
          {Rule::Kind::x, seconds(who.out_of_memory->when - Time{}),
           fmt::format("out of memory: {} asks for {:.2f} GiB", who.out_of_memory->place.label,
                       gib(who.out_of_memory->requested)),
           fmt::format("stage {}", who.stage)});
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
  if (!answer.run.fits()) {
    document.blocks.emplace_back(Note{"", oom_text(answer)});
    document.blocks.emplace_back(
        Note{"", "The charts show the rest of the run as if the device had more memory."});
    document.blocks.emplace_back(memory_series(answer));
  }
  SchedulePicture schedule = schedule_picture(answer.plan);
  if (!schedule.rows.cells.empty()) document.blocks.emplace_back(schedule.chart);
  PassRows spans = pass_rows(answer, passes);
  if (!spans.rows.cells.empty()) {
    TimelineChart timeline{spans.rows.cells.size() >= spans_most
                               ? "the pipeline: the first passes of the last step"
                               : "the pipeline: every pass of the last step, by stage",
                           "passes",
                           "stage",
                           "begin_s",
                           "end_s",
                           "pass",
                           "label"};
    timeline.first = spans.first;
    document.blocks.emplace_back(std::move(timeline));
  }
  if (answer.run.fits()) document.blocks.emplace_back(memory_series(answer));
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
  if (!schedule.rows.cells.empty()) document.blocks.emplace_back(std::move(schedule.rows));
  document.blocks.emplace_back(std::move(spans.rows));
  document.blocks.emplace_back(memory_rows(answer, memory));
  return document;
}

}  // namespace sim::output
