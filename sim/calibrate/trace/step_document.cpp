#include "sim/calibrate/trace/step_document.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/output/few_rows.h"

namespace sim::calibrate {

namespace {

using output::Rows;
using output::Show;

constexpr std::size_t most_rows = 25;  // in text; JSON has all rows

output::Column words(const char* key, const char* heading) {
  return {key, heading, "", 0, true};
}
output::Column milliseconds(const char* key, const char* heading, Show show = Show::fixed) {
  return {key, heading, "ms", 3, false, "", 1e3, show};
}

// Kernels have short names in text, in the column `name`.
void shorten(Rows& rows, std::size_t name) {
  std::vector<std::string> kernels;
  for (const auto& row : rows.cells) kernels.push_back(row[name].get<std::string>());
  const std::vector<std::string> shorter = short_names(kernels);
  for (std::size_t i = 0; i < shorter.size(); ++i) rows.cells[i][name] = shorter[i];
}

// Adds the first rows for text, and all rows for JSON.
void add(std::vector<output::Block>& blocks, Rows rows) {
  Rows few = rows;
  if (few.columns.back().key == "name") shorten(few, few.columns.size() - 1);
  few = output::few_rows(few, most_rows);
  if (!few.cells.empty()) blocks.emplace_back(std::move(few));
  rows.searched = true;
  blocks.emplace_back(std::move(rows));
}

Rows operations(const StepComparison& c) {
  Rows rows{
      "operations",
      "operations of a step, largest difference first (collectives with their waiting; ratio: "
      "predicted over measured)",
      {words("queue", "queue"),
       words("label", "operation"),
       words("family", ""),
       words("pass", "pass"),
       {"count", "", "", 0},
       {"matched", "count", "", 0},
       milliseconds("predicted_s", "predicted"),
       milliseconds("measured_s", "measured"),
       milliseconds("difference_s", "difference", Show::change),
       {"ratio", "ratio", "", 2},
       {"measured_call_s", "a call", "us", 1, false, "", 1e6}},
      {}};
  for (const OperationRow& r : c.rows) {
    const bool timed = r.measured_s > 0;
    rows.cells.push_back({r.queue, r.label, r.family, r.pass, r.count, r.matched, r.predicted_s,
                          r.measured_s, r.measured_s - r.predicted_s,
                          timed ? output::Json(r.predicted_s / r.measured_s) : nullptr,
                          timed ? output::Json(r.measured_s / r.matched) : nullptr});
  }
  return rows;
}

Rows alone(const char* name, const char* title, const std::vector<Unmatched>& some) {
  Rows rows{name,
            title,
            {{"count", "a step", "", 1},
             milliseconds("seconds", "time"),
             words("family", "family"),
             words("name", "name")},
            {}};
  for (const Unmatched& one : some)
    rows.cells.push_back({one.count, one.seconds, one.family, one.name});
  return rows;
}

}  // namespace

std::vector<output::Block> comparison_blocks(const ComparedTrace& compared) {
  const StepComparison& c = compared.comparison;
  std::vector<output::Block> blocks;
  blocks.emplace_back(output::Note{
      "",
      fmt::format("{}, rank {}: a step takes {:.4g} s, {:.4g} s predicted ({:+.1f} %); with the "
                  "measured times of its kernels the replay says {:.4g} s ({:+.1f} %)",
                  compared.path, compared.rank, c.measured_s, c.predicted_s,
                  100 * (c.predicted_s / c.measured_s - 1), c.rebuilt_s,
                  100 * (c.rebuilt_s / c.measured_s - 1)),
      true});
  blocks.emplace_back(output::Values{
      "",
      {output::value("steps", compared.trace.found.c_str(), c.steps),
       output::value("measured_step_s", "", c.measured_s),
       output::value("predicted_step_s", "", c.predicted_s),
       output::value("rebuilt_step_s", "", c.rebuilt_s),
       output::value("kernels", "kernels", c.share.kernels),
       output::value("matched_by_count_pct", "matched, by count", 100 * c.share.by_count(), "%", 1),
       output::value("matched_by_time_pct", "matched, by time", 100 * c.share.by_time(), "%", 1),
       output::value("near_by_time_pct", "of that within a factor of two of the prediction",
                     100 * c.share.near_by_time(), "%", 1),
       output::value("operations", "operations of the program", c.share.operations),
       output::value("operations_matched", "with kernels", c.share.operations_matched)}});
  add(blocks, operations(c));
  add(blocks, alone("unmatched_kernels", "kernels that are no operation of the plan", c.kernels));
  add(blocks, alone("unmatched_operations", "operations without a kernel", c.operations));
  return blocks;
}

Rows clock_rows(const std::vector<RankClock>& clocks) {
  Rows rows{"ranks",
            "ranks: clocks against the first one's, and who came last to collectives",
            {{"rank", "rank", "", 0},
             {"collectives", "shared", "", 0},
             {"offset_s", "clock", "us", 1, false, "", 1e6, Show::change},
             {"scatter_s", "scatter", "us", 1, false, "", 1e6},
             {"last", "last", "times", 0},
             milliseconds("kept_waiting_s", "kept others waiting")},
            {}};
  for (const RankClock& c : clocks)
    rows.cells.push_back(
        {c.rank, c.collectives, c.offset_s, c.scatter_s, c.last, c.kept_waiting_s});
  return rows;
}

void draw(const ComparedTrace& compared, output::SliceTrace& out) {
  if (compared.trace.steps.empty()) return;
  const MeasuredStep& step = compared.trace.steps.front();
  for (const StreamQueue& matched : compared.match.queues) {
    const std::string queue(program::name(matched.queue));
    const int expected = out.track(queue + ", predicted");
    for (const ExpectedOperation& o : compared.expected->operations)
      if (o.queue == matched.queue)
        out.slice(expected, o.label, o.start.ps / 1000, o.end.ps / 1000);
    for (const int stream : matched.streams) {
      const int track = out.track(fmt::format("{}, measured (stream {})", queue, stream));
      std::int64_t free = 0;
      for (std::size_t k = 0; k < step.kernels.size(); ++k) {
        const MeasuredKernel& kernel = compared.trace.kernels[step.kernels[k]];
        if (kernel.stream != stream) continue;
        const std::int32_t owner = compared.match.owners.front()[k];
        const std::int64_t begin = std::max(free, kernel.start_ns - step.begin_ns);
        free = std::max(begin, kernel.end_ns() - step.begin_ns);
        const std::string of =
            owner < 0 ? "?" : compared.expected->operations[static_cast<std::size_t>(owner)].label;
        out.slice(track, fmt::format("{}: {}", of, kernel.name.substr(0, 80)), begin, free);
      }
    }
  }
}

}  // namespace sim::calibrate
