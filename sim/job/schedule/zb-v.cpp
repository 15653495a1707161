// zb-v.cpp — the ZB-V schedule: two parts per stage in a V. The gradients of a microbatch start
// where its loss is, on the stage that began it. With F = B = W a stage has no bubble between its
// first and last pass. Every stage needs the memory of 1F1B's first stage (2p half-stages).
//
// Stage s runs 2(p - s) - 1 forwards of chunk 0, s pairs of forwards, p - s triples (f b w), then F
// B W f b w, then drains. With fewer than 2p - 1 microbatches, it is the order of 2p - 1 without
// the passes of the missing ones.
//
// Qi et al., "Pipeline Parallelism with Controllable Memory" (arXiv:2405.15362), figure 2; the
// order is that of PyTorch's ScheduleZBVZeroBubble.
#include <algorithm>
#include <cstddef>

#include "sim/job/schedule/rules.h"
#include "sim/job/schedule/schedule.h"

namespace sim::schedule {
namespace {

// Numbers the passes of each kind and chunk, and drops those of missing microbatches.
class Writer {
 public:
  explicit Writer(int microbatches) : microbatches_(microbatches) {}

  void add(Pass pass, int chunk) {
    int& next = next_[static_cast<std::size_t>(pass)][chunk];
    if (next < microbatches_) order_.push_back({pass, next, chunk});
    ++next;
  }
  void split(int chunk) {
    add(Pass::input, chunk);
    add(Pass::weight, chunk);
  }
  int count(Pass pass, int chunk) const { return next_[static_cast<std::size_t>(pass)][chunk]; }
  Order order() { return std::move(order_); }

 private:
  int microbatches_;
  int next_[4][2] = {};
  Order order_;
};

Order order(const PipelineShape& shape, int stage) {
  const int p = shape.stages;
  const int m = std::max(2 * p - 1, shape.microbatches);
  Writer w(shape.microbatches);
  for (int i = 0; i < 2 * (p - stage) - 1; ++i) w.add(Pass::forward, 0);
  for (int i = 0; i < stage; ++i) {
    w.add(Pass::forward, 1);
    w.add(Pass::forward, 0);
  }
  for (int i = 0; i < p - stage; ++i) {
    w.add(Pass::forward, 1);
    w.split(1);
  }
  while (w.count(Pass::forward, 1) < m) {
    if (w.count(Pass::forward, 0) < m) w.add(Pass::forward, 0);
    w.split(0);
    w.add(Pass::forward, 1);
    w.split(1);
  }
  for (int i = 0; i < stage; ++i) {
    w.add(Pass::input, 0);
    w.add(Pass::input, 1);
  }
  for (int i = 0; i < p - stage; ++i) w.split(0);
  while (w.count(Pass::weight, 1) < m) w.add(Pass::weight, 1);
  while (w.count(Pass::weight, 0) < m) w.add(Pass::weight, 0);
  return w.order();
}

// No stage waits between its first and its last pass; the last stage starts p - 1 later.
std::optional<std::int64_t> makespan(const PipelineShape& shape) {
  if (shape.microbatches < 2 * shape.stages - 1) return {};
  return 6 * std::int64_t{shape.microbatches} + shape.stages - 1;
}

std::optional<int> live(const PipelineShape& shape, int /*stage*/) {
  if (shape.microbatches < 2 * shape.stages - 1) return {};
  return 2 * shape.stages;
}

}  // namespace

extern constinit const Schedule zb_v{
    .name = "zb-v",
    .torch = "ZBVZeroBubble",
    .summary = "two parts per stage in a V, no bubble in a stage; memory of 1f1b",
    .source = "arXiv:2405.15362",
    .placement = Placement::v,
    .splits = Splits::all,
    .wire = posted_ahead,
    .chunks = 2,
    .problem = two_chunks,
    .order = order,
    .makespan = makespan,
    .live = live,
};

}  // namespace sim::schedule
