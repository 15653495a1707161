// catalog.cpp — the table of context-parallel methods, and their shared functions.
//
// To add one: write context/<name>.cpp, then add its lines here.
#include <fmt/format.h>

#include <array>
#include <numeric>

#include "sim/base/text.h"
#include "sim/job/context/context.h"

namespace sim::context {

std::string ring_problem(const AttentionShape& shape);
std::vector<AttentionStep> ring_forward(const AttentionShape& shape, int rank);
std::string all_gather_problem(const AttentionShape& shape);
std::vector<AttentionStep> all_gather_forward(const AttentionShape& shape, int rank);
std::string ulysses_problem(const AttentionShape& shape);
std::vector<AttentionStep> ulysses_forward(const AttentionShape& shape, int rank);
std::string hierarchical_problem(const AttentionShape& shape);
std::vector<AttentionStep> hierarchical_forward(const AttentionShape& shape, int rank);
std::string usp_problem(const AttentionShape& shape);
std::vector<AttentionStep> usp_forward(const AttentionShape& shape, int rank);
std::string torch_problem(const AttentionShape& shape);
std::vector<AttentionStep> torch_all_gather_forward(const AttentionShape& shape, int rank);
std::vector<AttentionStep> torch_all_to_all_forward(const AttentionShape& shape, int rank);

std::span<const Method> catalog() {
  static constexpr std::array table{
      Method{"ring", "keys and values go around a ring beside the products",
             "arXiv:2310.01889; TransformerEngine p2p", "p2p", ring_problem, ring_forward},
      Method{"all-gather", "keys and values are gathered before the products",
             "Llama 3, arXiv:2407.21783; TransformerEngine all_gather", "all_gather",
             all_gather_problem, all_gather_forward},
      Method{"ulysses", "sequence is exchanged for heads",
             "arXiv:2309.14509; TransformerEngine a2a", "a2a", ulysses_problem, ulysses_forward,
             Exchange::all},
      Method{"hierarchical", "sequence for heads among neighbours, a ring between them",
             "TransformerEngine a2a+p2p; Megatron-LM core 0.9", "a2a+p2p", hierarchical_problem,
             hierarchical_forward, Exchange::neighbours},
      Method{"usp", "the same two levels, each exchange by itself",
             "arXiv:2405.07719; feifeibear/long-context-attention", "", usp_problem, usp_forward,
             Exchange::neighbours},
      Method{"torch-allgather",
             "PyTorch's context_parallel: gathered keys and values, step by step",
             "pytorch torch/distributed/tensor/experimental/_attention.py", "", torch_problem,
             torch_all_gather_forward, Exchange::nobody, "allgather"},
      Method{"torch-alltoall", "the same; keys and values are passed on step by step",
             "pytorch torch/distributed/tensor/experimental/_attention.py", "", torch_problem,
             torch_all_to_all_forward, Exchange::nobody, "alltoall"},
  };
  return table;
}

int Method::exchanging(const AttentionShape& shape) const {
  return exchange == Exchange::all          ? shape.ranks
         : exchange == Exchange::neighbours ? shape.ulysses
                                            : 1;
}

int Method::groups(const AttentionShape& shape) const {
  const int ranks = exchanging(shape);
  return repeated_groups(shape.groups, ranks) / ranks;
}

const Method* find(std::string_view name) {
  for (const Method& method : catalog())
    if (method.name == name) return &method;
  return nullptr;
}

const Method* of_megatron(std::string_view comm_type) {
  for (const Method& method : catalog())
    if (!comm_type.empty() && method.megatron == comm_type) return &method;
  return nullptr;
}

std::string unknown(std::string_view name) {
  std::vector<std::string> names;
  for (const Method& method : catalog()) names.emplace_back(method.name);
  return fmt::format("'{}' is no way to share a sequence ({}){}", name, fmt::join(names, ", "),
                     did_you_mean(name, names));
}

int repeated_groups(int groups, int ulysses) {
  return std::lcm(groups, ulysses);
}

std::string split_problem(const AttentionShape& shape) {
  const std::int64_t parts = shape.ranks > 1 && shape.order == TokenOrder::zigzag
                                 ? 2 * std::int64_t{shape.ranks}
                                 : shape.ranks;
  if (shape.sequence % parts == 0 && shape.sequence >= parts) return "";
  return fmt::format("{} tokens do not split into {} parts", shape.sequence, parts);
}

std::string heads_problem(const AttentionShape& shape, int ulysses) {
  if (shape.heads % ulysses != 0)
    return fmt::format("{} heads of a rank are not shared evenly by {} ranks", shape.heads,
                       ulysses);
  if (shape.heads % repeated_groups(shape.groups, ulysses) != 0)
    return fmt::format("{} key-value heads, repeated for {} ranks, do not divide {} heads",
                       shape.groups, ulysses, shape.heads);
  return "";
}

std::vector<AttentionStep> ring_steps(TokenOrder order, int ring, int place, std::int64_t sequence,
                                      std::int64_t width, Level level) {
  std::vector<AttentionStep> steps;
  const std::int64_t local = sequence / ring;
  for (int s = 0; s < ring; ++s) {
    AttentionStep& step = steps.emplace_back();
    step.merges = s > 0;
    if (s + 1 < ring)
      step.beside.push_back(
          {"key and value ring", collective::Kind::ring_exchange, level, local * width});
    // The current keys come from rank place - s, which is before this rank.
    const bool earlier = s <= place;
    if (s == 0) {
      step.calls.push_back({local, local, true});
    } else if (order == TokenOrder::striped) {
      step.calls.push_back({local, local, true});
    } else if (order == TokenOrder::zigzag) {
      step.calls.push_back(earlier ? Call{local, local / 2, false} : Call{local / 2, local, false});
    } else if (earlier) {
      step.calls.push_back({local, local, false});
    } else {
      step.merges = false;
    }
  }
  return steps;
}

}  // namespace sim::context
