#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <string>
#include <vector>

#include "sim/program/plan/context_plan.h"
#include "sim/program/plan/rules/rules.h"
#include "sim/program/plan/schedule_plan.h"

namespace sim::program::rules {

namespace {

// The degrees up to `most` for which the shape is valid, as text: "1, 2 or 4".
template <class Possible>
std::string degrees(int most, Possible possible) {
  std::vector<int> found;
  for (int degree = 1; degree <= most && found.size() < 13; ++degree)
    if (possible(degree)) found.push_back(degree);
  if (found.size() > 1)
    return fmt::format("{} or {}", fmt::join(found.begin(), found.end() - 1, ", "), found.back());
  return fmt::format("{}", fmt::join(found, ""));
}

// The catalog's rule that the shape breaks, with the valid degrees.
void shape_problem(const Plan& plan, Diagnostics& problems) {
  const context::Method& method = context_method(plan);
  const context::AttentionShape shape = context_shape(plan);
  const std::string problem = method.problem(shape);
  if (problem.empty()) return;
  const bool levels = method.exchange == context::Exchange::neighbours;
  const std::string would_do = degrees(levels ? shape.ranks : shape.heads, [&](int degree) {
    context::AttentionShape other = shape;
    (levels ? other.ulysses : other.ranks) = degree;
    other.sequence = shape.sequence / shape.ranks * other.ranks;
    return method.problem(other).empty();
  });
  const char* field = levels ? "ulysses" : "cp";
  problems.push_back(
      {field, fmt::format("context {}, {} {}: {}; {} may be {}", plan.mesh.context, field,
                          levels ? shape.ulysses : shape.ranks, problem, field, would_do)});
}

// TransformerEngine's ring has no windows, and all methods but the ring assert that samples are not
// packed [TransformerEngine 2.9 context_parallel.py]. No method works with unfused attention
// [attention.cpp].
void context_combinations(const Plan& plan, Diagnostics& problems) {
  const model::Architecture& a = plan.architecture;
  const bool whole_sequence = context_method(plan).exchange == context::Exchange::all;
  if (a.sliding_window > 0 && a.sliding_window < plan.batch.sequence && !whole_sequence)
    problems.push_back(
        {"cp", fmt::format("the model attends to windows of {} tokens, which context {} (cp {}) "
                           "cannot; write context ulysses, cp 1, or sequence {}",
                           a.sliding_window, plan.mesh.context, plan.mesh.cp, a.sliding_window)});
  if (plan.batch.packed_document > 0 && plan.mesh.context != "ring")
    problems.push_back(
        {"context", fmt::format("context {} takes no packed samples; write context ring, or leave "
                                "packed_document out",
                                plan.mesh.context)});
  if (plan.stack.repeat_kv && context_method(plan).torch.empty())
    problems.push_back(
        {"repeat_kv",
         fmt::format("repeat_kv goes with PyTorch's context_parallel, not with context "
                     "{}; write context torch-allgather, or repeat_kv false",
                     plan.mesh.context)});
  if (plan.stack.attention == AttentionBackend::unfused)
    problems.push_back(
        {"cp", fmt::format("cp {} needs fused attention; write attention flash or cudnn, "
                           "or cp 1",
                           plan.mesh.cp)});
}

}  // namespace

void context_parallel(const Plan& plan, Diagnostics& problems) {
  const std::size_t before = problems.size();
  const context::Method* method = context::find(plan.mesh.context);
  if (method == nullptr)
    return problems.push_back({"context", context::unknown(plan.mesh.context)});
  if (plan.stack.repeat_kv && slice_count(plan) > 1)
    problems.push_back({"repeat_kv",
                        "repeat_kv goes with whole sequences, not with slices; write repeat_kv "
                        "false, or another schedule"});
  if (plan.mesh.cp == 1) return;
  if (plan.mesh.ulysses > 0 && method->exchange != context::Exchange::neighbours &&
      plan.mesh.ulysses != method->exchanging(context_shape(plan)))
    problems.push_back(
        {"ulysses", fmt::format("ulysses {} is of a context of two levels; write context usp or "
                                "hierarchical, or leave it out",
                                plan.mesh.ulysses)});
  context_combinations(plan, problems);
  const bool splits = plan.batch.sequence % (2 * std::int64_t{plan.mesh.cp}) == 0;
  const bool shares =
      plan.architecture.heads % plan.mesh.tp == 0 && plan.architecture.kv_heads % plan.mesh.tp == 0;
  if (problems.size() == before && splits && shares) shape_problem(plan, problems);
}

}  // namespace sim::program::rules
