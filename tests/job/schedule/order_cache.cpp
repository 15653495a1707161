// order_cache.cpp — cached orders are those of the catalog, also after the cache is full.
#include "sim/job/schedule/order_cache.h"

#include <catch2/catch.hpp>

using namespace sim::schedule;

TEST_CASE("schedules: cached orders are the orders of the catalog") {
  // The second round finds some shapes in the cache and others dropped.
  for (int round = 0; round < 2; ++round) {
    for (const Schedule& row : catalog()) {
      for (const int stages : {2, 4})
        for (int microbatches = 4; microbatches <= 64; microbatches += 4) {
          PipelineShape shape{.stages = stages,
                              .microbatches = microbatches,
                              .chunks = row.chunks,
                              .slices = row.slices};
          if (!row.problem(shape).empty()) continue;
          INFO(row.name << " " << stages << " " << microbatches);
          CHECK(*shared_orders(row, shape) == row.orders(shape));
          CHECK(broken_rule_of(row, shape).empty());
        }
    }
  }
}

TEST_CASE("schedules: an order that goes by times is cached for its times") {
  const Schedule& row = *find("zb-1p");
  PipelineShape shape{.stages = 4, .microbatches = 12};
  const SharedOrders even = shared_orders(row, shape);
  shape.times.backward = 2.5;
  shape.times.transfer = 0.5;
  CHECK(*shared_orders(row, shape) == row.orders(shape));
  CHECK(*even != *shared_orders(row, shape));
}
