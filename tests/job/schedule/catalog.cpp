// catalog.cpp — every schedule over all small shapes, groups, rules of interleaving and some
// unequal times: the refused shapes, the order of each stage, and the closed forms. A file has a
// line for each schedule and number of stages, because tests of single properties do not notice
// every change.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "sim/job/schedule/schedule.h"
#include "sim/job/schedule/timeline.h"
#include "tests/picture.h"

namespace {

using namespace sim::schedule;

// An FNV-1a hash of everything that is added.
struct Said {
  std::uint64_t hash = 14695981039346656037u;
  void operator()(std::string_view text) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  }
};

// The numbers of microbatches, chunks and slices for one number of stages.
template <class Check>
void shapes(int stages, const Check& check) {
  const Times plain, unlike{.forward = 2, .backward = 3, .weight = 1, .transfer = 0.5, .kept = 0.6};
  const Times slow{.forward = 4, .backward = 3, .weight = 3, .transfer = 2, .output = 1};
  for (int m = 1; m <= 12; ++m)
    for (int v = 1; v <= 3; ++v)
      for (const int slices : {1, 2, 4})
        for (const int group : {0, 1, 2, stages, stages + 1, 5})
          for (const Times& times : {plain, unlike, slow}) {
            if (slices > 1 && group > 0) continue;
            check({.stages = stages,
                   .microbatches = m,
                   .chunks = v,
                   .slices = slices,
                   .group = group,
                   .interleaving = static_cast<Interleaving>((m + v + stages) % 3),
                   .times = times});
          }
}

std::string told(const Schedule& schedule, int stages) {
  int possible = 0, forms = 0;
  Said refusals, orders, closed, lasting;
  shapes(stages, [&](const PipelineShape& shape) {
    const std::string problem = schedule.problem(shape);
    refusals(problem + "\n");
    if (!problem.empty()) return;
    ++possible;
    for (const Order& order : schedule.orders(shape)) {
      for (const ScheduledPass& step : order) {
        orders(fmt::format("{} {} {} {}", name(step), step.chunk, step.slice, step.paired));
      }
      orders("\n");
    }
    if (const auto makespan = schedule.makespan(shape))
      ++forms, closed(fmt::format("{} ", *makespan));
    for (int stage = 0; stage < stages; ++stage)
      if (const auto live = schedule.live(shape, stage)) ++forms, closed(fmt::format("{},", *live));
    closed("\n");
    const Timeline timeline = run(schedule, shape);
    lasting(fmt::format("{:.6f}\n", timeline.makespan));
    for (const auto live : timeline.live) lasting(fmt::format("{} ", live));
  });
  return fmt::format("{} {}: {} shapes, {} closed forms; {:016x} {:016x} {:016x} {:016x}\n",
                     schedule.name, stages, possible, forms, refusals.hash, orders.hash,
                     closed.hash, lasting.hash);
}

}  // namespace

TEST_CASE("schedule: every schedule refuses, orders and counts as it did, over all small shapes") {
  std::string all = "# refusals, orders, closed forms, times and live tasks\n";
  for (const Schedule& schedule : catalog())
    for (const int stages : {1, 2, 3, 4, 6}) all += told(schedule, stages);
  picture::same("job/schedule/pictures/catalog.txt", all);
}
