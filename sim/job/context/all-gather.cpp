// all-gather.cpp — every rank first gathers all keys and values and reorders them. Its two chunks
// of queries then each attend to the keys up to their own end. No message overlaps the products.
#include "sim/job/context/context.h"

namespace sim::context {

std::string all_gather_problem(const AttentionShape& shape) {
  if (shape.ranks > 1 && shape.order != TokenOrder::zigzag)
    return "gathered keys and values are split in zigzag order";
  return split_problem(shape);
}

std::vector<AttentionStep> all_gather_forward(const AttentionShape& shape, int rank) {
  AttentionStep step;
  if (shape.ranks == 1) {
    step.calls.push_back({shape.sequence, shape.sequence, true});
    return {step};
  }
  const std::int64_t whole = shape.sequence * shape.batch * shape.groups * shape.element;
  const auto gather = [](std::string_view label, std::int64_t bytes) {
    return Message{label, collective::Kind::all_gather, Level::all, bytes};
  };
  step.before = {gather("key gather", whole * shape.head_dim),
                 gather("value gather", whole * shape.width_of_value())};
  const std::int64_t chunk = shape.local() / 2;
  for (const int c : {rank, 2 * shape.ranks - 1 - rank})
    step.calls.push_back({chunk, (c + 1) * chunk, true});
  return {step};
}

}  // namespace sim::context
