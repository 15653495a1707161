// order_cache.h — the orders of shapes that were asked for before, and the rules that they break.
//
// An order depends on its shape alone, and plans of a search or a sweep share few shapes. Program
// writers and checks of plans call these functions; each thread has a cache of its own, with a
// limit. The results are the same as without a cache.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/job/schedule/schedule.h"

namespace sim::schedule {

using SharedOrders = std::shared_ptr<const std::vector<Order>>;

// The orders of all stages. REQUIRES: row.problem(shape) is empty; `row` is in the catalog.
SharedOrders shared_orders(const Schedule& row, const PipelineShape& shape);

// broken_rule of these orders (order_rules.h). REQUIRES: as shared_orders.
std::string broken_rule_of(const Schedule& row, const PipelineShape& shape);

}  // namespace sim::schedule
