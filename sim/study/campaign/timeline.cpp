#include "sim/study/campaign/timeline.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "sim/output/perfetto/slice_trace.h"

namespace sim::campaign {
namespace {

constexpr std::string_view marks = "=-xw";

// The mark that a slice counts for: training with its saves, smaller shape, down, waiting.
std::size_t mark_of(const Slice& slice) {
  if (slice.activity == Activity::waiting) return 3;
  if (slice.activity == Activity::detecting || slice.activity == Activity::restarting) return 2;
  return slice.shape > 0 ? 1 : 0;
}

}  // namespace

std::string strip(const std::vector<Slice>& timeline, int columns) {
  if (timeline.empty()) return "";
  const double length = static_cast<double>(timeline.back().to.ns);
  std::vector<std::array<double, marks.size()>> spent(static_cast<std::size_t>(columns));
  for (const Slice& slice : timeline) {
    const double from = static_cast<double>(slice.from.ns) / length * columns;
    const double to = static_cast<double>(slice.to.ns) / length * columns;
    for (int c = static_cast<int>(from); c < columns && c < to; ++c)
      spent[static_cast<std::size_t>(c)][mark_of(slice)] +=
          std::min(to, c + 1.0) - std::max<double>(from, c);
  }
  std::string text;
  for (const auto& column : spent) {
    // Downtime matters most to readers, so one tenth of a column is enough to show it.
    std::size_t mark = column[1] > column[0] ? 1 : 0;
    if (column[2] >= 0.1 || column[3] >= 0.1) mark = column[3] > column[2] ? 3 : 2;
    text += marks[mark];
  }
  return text;
}

std::string words(const Spec& spec, const Slice& slice) {
  if (slice.activity == Activity::saving) return "save";
  if (slice.activity != Activity::training)
    return slice.cause >= 0 ? spec.kinds[static_cast<std::size_t>(slice.cause)].name : "planned";
  const Phase& phase = spec.phases[static_cast<std::size_t>(slice.phase)];
  const auto& shapes = phase.shapes[static_cast<std::size_t>(slice.pool)];
  const JobShape& shape =
      shapes[std::min(shapes.size() - 1, static_cast<std::size_t>(slice.shape))];
  return phase.name + (shape.plan.empty() ? "" : ": " + shape.plan);
}

std::string write_trace(const std::string& path, const Spec& spec, const std::string& name,
                        const std::vector<Slice>& timeline) {
  output::SliceTrace trace;
  std::string problem = trace.open(path, name);
  if (!problem.empty()) return problem;
  std::array<int, 5> tracks{};
  const std::array<const char*, 5> names = {"training", "saves", "detection", "waiting",
                                            "restarts"};
  for (std::size_t i = 0; i < names.size(); ++i) tracks[i] = trace.track(names[i]);
  for (const Slice& slice : timeline) {
    trace.slice(tracks[static_cast<std::size_t>(slice.activity)], words(spec, slice), slice.from.ns,
                slice.to.ns);
  }
  return trace.close();
}

}  // namespace sim::campaign
