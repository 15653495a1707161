// ulysses.cpp — each rank receives the whole sequence for its share of the heads, and returns the
// output by a second exchange.
#include "sim/job/context/context.h"

namespace sim::context {

std::string ulysses_problem(const AttentionShape& shape) {
  const std::string problem = heads_problem(shape, shape.ranks);
  return problem.empty() ? split_problem(shape) : problem;
}

std::vector<AttentionStep> ulysses_forward(const AttentionShape& shape, int) {
  AttentionStep step;
  step.calls.push_back({shape.sequence, shape.sequence, true});
  if (shape.ranks == 1) return {step};
  const std::int64_t rows = shape.local() * shape.batch * shape.element;
  const std::int64_t groups = repeated_groups(shape.groups, shape.ranks);
  const auto exchange = [](std::string_view label, std::int64_t bytes) {
    return Message{label, collective::Kind::all_to_all, Level::all, bytes};
  };
  step.before = {exchange("query exchange", rows * shape.heads * shape.head_dim),
                 exchange("key exchange", rows * groups * shape.head_dim),
                 exchange("value exchange", rows * groups * shape.width_of_value())};
  step.after = {exchange("output exchange", rows * shape.heads * shape.width_of_value())};
  return {step};
}

}  // namespace sim::context
