// parameter.h — the parameters of a rank. The module that owns a parameter registers it and names
// it where it is used or its gradient is made; data parallelism (sharding.h) decides by its traits
// alone how it is held, gathered and reduced. So a new kind of parameter is a line of its module.
//
// A unit is a layer of a model chunk, or the chunk's ends: what stands before its first layer and
// behind its last one (embeddings, final norm, head).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace sim::program {

struct Rank;

constexpr int ends = -1;  // the unit of a chunk that is no layer

// Elements, padded to whole units.
constexpr std::int64_t round_up(std::int64_t n, std::int64_t unit) {
  return (n + unit - 1) / unit * unit;
}

struct Unit {
  int chunk = 0;
  int layer = ends;
  // Of the ends, a module that predicts the token so far ahead of the next one (prediction.h): its
  // parameters have names that come again in the others. 0: none of them.
  int depth = 0;
};

struct Parameter {
  std::string_view name;
  std::int64_t elements = 0;  // of this tensor-parallel rank
  // Whole on every tensor-parallel rank, of which each sees a part of the sequence: gradients are
  // summed over them.
  bool sequence_parallel = false;
  // A factor of one of a layer's products: may be held in fp8, and its gradient comes in the weight
  // pass where the schedule has one.
  bool matrix = false;
  bool of_two_stages = false;   // the table of tied embeddings on the first and on the last stage
  std::string_view owner = {};  // an adapter's: the product beside which it stands
  bool fp8 = false;             // held in fp8
  bool frozen = false;          // beside adapters: no gradient and no state
  bool expert = false;          // of a routed expert: shared by the ranks that hold the same ones
  int depth = 0;                // Unit::depth
};

// What each module registers, in the order of its constructor.
using ParameterList = std::vector<Parameter>;
ParameterList attention_parameters(const Rank& rank);
ParameterList latent_parameters(const Rank& rank);
ParameterList mlp_parameters(const Rank& rank);
ParameterList mixture_parameters(const Rank& rank);
ParameterList prediction_parameters(const Rank& rank);
ParameterList adapter_parameters(const Rank& rank);
ParameterList attention_adapter_parameters(const Rank& rank);
// Positions, and the final norm, stand at the ends of the model alone.
ParameterList embedding_parameters(const Rank& rank, bool has_positions);
ParameterList head_parameters(const Rank& rank, bool has_norm, bool has_table);

// Of one model chunk of a rank.
class Parameters {
 public:
  Parameters(const Rank& rank, int chunk);

  const ParameterList& all() const { return all_; }  // in order of registration
  const Parameter& operator[](int index) const { return all_[static_cast<std::size_t>(index)]; }
  int layers() const { return static_cast<int>(units_.size()) - 1; }
  // Places in all() of a unit's parameters, in order.
  const std::vector<int>& of(int layer) const {
    return units_[static_cast<std::size_t>(layer + 1)];
  }
  // The place in all(), -1: the unit has no such parameter.
  int find(Unit unit, std::string_view name, std::string_view owner = {}) const;
  // All of that name: of experts a weight each.
  std::vector<int> find_all(Unit unit, std::string_view name, std::string_view owner = {}) const;
  std::int64_t elements() const;  // without padding

 private:
  void add(int layer, const ParameterList& parameters);

  bool trains_adapters_, in_fp8_;
  ParameterList all_;
  std::vector<std::vector<int>> units_;  // the ends, then the layers
};

}  // namespace sim::program
