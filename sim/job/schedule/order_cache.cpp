#include "sim/job/schedule/order_cache.h"

#include <algorithm>
#include <cstddef>
#include <list>
#include <optional>
#include <tuple>

#include "sim/job/schedule/order_rules.h"

namespace sim::schedule {

namespace {

// Passes and entries that a thread keeps: about 20 MB.
constexpr std::size_t most_passes = std::size_t{1} << 20, most_entries = 512;

// All fields that an order may depend on.
auto fields(const PipelineShape& shape) {
  const Times& t = shape.times;
  return std::tuple(shape.stages, shape.microbatches, shape.chunks, shape.slices, shape.group,
                    shape.interleaving,
                    std::tuple(t.forward, t.backward, t.weight, t.transfer, t.output, t.kept));
}

struct CachedOrders {
  const Schedule* row = nullptr;
  PipelineShape shape;
  SharedOrders orders;  // null: dropped, but the rule is known
  std::size_t passes = 0;
  std::optional<std::string> broken;
};

// The last used entry comes first.
struct OrderCache {
  std::list<CachedOrders> entries;
  std::size_t passes = 0;

  CachedOrders& of(const Schedule& row, const PipelineShape& shape) {
    const auto at = std::ranges::find_if(entries, [&](const CachedOrders& one) {
      return one.row == &row && fields(one.shape) == fields(shape);
    });
    if (at == entries.end()) {
      entries.push_front({&row, shape, nullptr, 0, std::nullopt});
    } else {
      entries.splice(entries.begin(), entries, at);
    }
    return entries.front();
  }

  SharedOrders orders_of(CachedOrders& entry) {
    if (entry.orders) return entry.orders;
    entry.orders = std::make_shared<const std::vector<Order>>(entry.row->orders(entry.shape));
    for (const Order& order : *entry.orders) entry.passes += order.size();
    passes += entry.passes;
    SharedOrders asked = entry.orders;
    for (auto old = entries.rbegin(); old != entries.rend() && passes > most_passes; ++old) {
      passes -= old->passes;
      old->passes = 0;
      old->orders = nullptr;
    }
    while (entries.size() > most_entries) {
      passes -= entries.back().passes;
      entries.pop_back();
    }
    return asked;
  }
};

OrderCache& cache() {
  thread_local OrderCache own;
  return own;
}

}  // namespace

SharedOrders shared_orders(const Schedule& row, const PipelineShape& shape) {
  return cache().orders_of(cache().of(row, shape));
}

std::string broken_rule_of(const Schedule& row, const PipelineShape& shape) {
  CachedOrders& entry = cache().of(row, shape);
  if (!entry.broken) entry.broken = broken_rule(row, shape, *cache().orders_of(entry));
  return *entry.broken;
}

}  // namespace sim::schedule
