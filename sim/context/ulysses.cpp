// ulysses.cpp — each rank gets the whole sequence for its share of the heads, and gives the output
// back the same way.
#include "sim/context/context.h"

namespace sim::context {

std::string ulysses_problem(const Shape& shape) {
  const std::string problem = heads_problem(shape, shape.ranks);
  return problem.empty() ? split_problem(shape) : problem;
}

std::vector<Step> ulysses_forward(const Shape& shape, int) {
  Step step;
  step.calls.push_back({shape.sequence, shape.sequence, true});
  if (shape.ranks == 1) return {step};
  const std::int64_t rows = shape.local() * shape.batch * shape.head_dim * shape.element;
  const std::int64_t keys = rows * repeated_groups(shape.groups, shape.ranks);
  const auto exchange = [](std::string_view label, std::int64_t bytes) {
    return Message{label, collective::Kind::all_to_all, Level::all, bytes};
  };
  step.before = {exchange("query exchange", rows * shape.heads), exchange("key exchange", keys),
                 exchange("value exchange", keys)};
  step.after = {exchange("output exchange", rows * shape.heads)};
  return {step};
}

}  // namespace sim::context
