// usp.cpp — Ulysses among neighbours, and rings across neighbourhoods: q, k and v are exchanged one
// after the other. A ring covers the tokens of a group of neighbours. The output is exchanged back.
//
//     context of 4 x 2:   neighbours {0 1 2 3} {4 5 6 7}     rings {0 4} {1 5} {2 6} {3 7}
#include "sim/job/context/context.h"

namespace sim::context {

std::string usp_problem(const AttentionShape& shape) {
  if (shape.ulysses < 1 || shape.ranks % shape.ulysses != 0)
    return "the ranks of a context are not a multiple of its neighbours";
  const std::string problem = heads_problem(shape, shape.ulysses);
  return problem.empty() ? split_problem(shape) : problem;
}

std::vector<AttentionStep> usp_forward(const AttentionShape& shape, int rank) {
  const int groups = repeated_groups(shape.groups, shape.ulysses);
  std::vector<AttentionStep> steps =
      ring_steps(shape.order, shape.ring(), rank / shape.ulysses, shape.sequence,
                 shape.pair_bytes(groups / shape.ulysses), Level::alike);
  if (shape.ulysses == 1) return steps;
  const std::int64_t rows = shape.local() * shape.batch * shape.element;
  const auto exchange = [](std::string_view label, std::int64_t bytes) {
    return Message{label, collective::Kind::all_to_all, Level::neighbours, bytes};
  };
  steps.front().before = {exchange("query exchange", rows * shape.heads * shape.head_dim),
                          exchange("key exchange", rows * groups * shape.head_dim),
                          exchange("value exchange", rows * groups * shape.width_of_value())};
  steps.back().after = {exchange("output exchange", rows * shape.heads * shape.width_of_value())};
  return steps;
}

}  // namespace sim::context
