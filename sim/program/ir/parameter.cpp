#include "sim/program/ir/parameter.h"

#include <array>

#include "sim/program/ir/rank.h"

namespace sim::program {
namespace {

// The modules of a layer, in the order of its constructor.
constexpr std::array dense_modules = {attention_parameters, mlp_parameters, adapter_parameters};
constexpr std::array mixture_modules = {attention_parameters, mixture_parameters,
                                        attention_adapter_parameters};

}  // namespace

Parameters::Parameters(const Rank& rank, int chunk)
    : trains_adapters_(rank.plan.trains_adapters()),
      in_fp8_(rank.plan.numerics.fp8_parameters),
      units_(static_cast<std::size_t>(rank.layers(chunk)) + 1) {
  const bool first = rank.is_first_part(chunk);
  const bool everywhere = rank.cuts_vocabulary();
  if (first || everywhere) add(ends, embedding_parameters(rank, first));
  for (int layer = 0; layer < layers(); ++layer)
    for (const auto parameters :
         rank.kind(chunk, {layer, 0, false}).mixture ? mixture_modules : dense_modules)
      add(layer, parameters(rank));
  // A tied output layer shares the table with the embedding if both are on the same rank.
  const bool has_table =
      !rank.plan.architecture.tied_embeddings || !(rank.has_first_part() || everywhere);
  const bool last = rank.has_loss(chunk);
  if (last || everywhere) add(ends, head_parameters(rank, last, has_table));
  if (rank.is_last_part(chunk) && rank.plan.architecture.predicted_tokens > 0)
    add(ends, prediction_parameters(rank));
}

void Parameters::add(int layer, const ParameterList& parameters) {
  for (Parameter p : parameters) {
    p.frozen = trains_adapters_ && p.owner.empty();
    p.sequence_parallel = p.sequence_parallel && !p.frozen;
    p.fp8 = in_fp8_ && p.matrix;
    units_[static_cast<std::size_t>(layer + 1)].push_back(static_cast<int>(all_.size()));
    all_.push_back(p);
  }
}

int Parameters::find(Unit unit, std::string_view name, std::string_view owner) const {
  const std::vector<int> found = find_all(unit, name, owner);
  return found.empty() ? -1 : found.front();
}

std::vector<int> Parameters::find_all(Unit unit, std::string_view name,
                                      std::string_view owner) const {
  std::vector<int> found;
  for (const int index : of(unit.layer)) {
    const Parameter& p = (*this)[index];
    if (p.name == name && p.owner == owner && p.depth == unit.depth) found.push_back(index);
  }
  return found;
}

std::int64_t Parameters::elements() const {
  std::int64_t sum = 0;
  for (const Parameter& p : all_) sum += p.elements;
  return sum;
}

}  // namespace sim::program
