// parameter.h — the parameters of a rank: sizes, and the traits that data parallelism needs.
//
// Each module (attention, MLP, embedding) registers its parameters in a list below. The module
// names a parameter when it reads it and when its gradient is ready (Writer::use, Writer::ready).
// Data parallelism (sharding.h) decides from the traits alone how a parameter is stored, gathered
// and reduced. A new parameter therefore needs one line in its module and no change elsewhere.
//
// A unit is one layer of a model chunk, or the chunk's ends: the modules before its first layer and
// after its last layer (embeddings, final norm, head).
//
// The order of registration never changes: it is the order of the module's constructor in
// Megatron-LM, and gradient buckets and shards follow it.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace sim::program {

struct Rank;

constexpr int ends = -1;  // layer number of the unit before the first and after the last layer

// `n` rounded up to a multiple of `unit`.
constexpr std::int64_t round_up(std::int64_t n, std::int64_t unit) {
  return (n + unit - 1) / unit * unit;
}

struct Unit {
  int chunk = 0;
  int layer = ends;
  // 1, 2, ...: number of a multi-token prediction module (prediction.h). These modules use the same
  // parameter names, so the number tells them apart. 0: not in such a module.
  int depth = 0;
};

struct Parameter {
  std::string_view name;
  std::int64_t elements = 0;  // number of elements on this tensor-parallel rank
  // Replicated on all tensor-parallel ranks, each of which sees a part of the sequence. Gradients
  // are summed over these ranks.
  bool sequence_parallel = false;
  // Weight of a matrix product of a layer. It may be stored in fp8, and its gradient belongs to the
  // weight pass if the schedule has one.
  bool matrix = false;
  bool of_two_stages = false;   // table of tied embeddings, on the first and on the last stage
  std::string_view owner = {};  // for an adapter's parameter: the product that it extends
  bool fp8 = false;             // stored in fp8
  bool frozen = false;          // not trained (LoRA): no gradient, no optimizer state
  bool expert = false;          // of a routed expert: reduced over expert data parallel ranks
  int depth = 0;                // Unit::depth
  // Of a matrix: its gradient comes in the backward pass, even if the schedule has weight passes.
  bool at_once = false;
};

// The parameters of each module, in the order of its constructor.
using ParameterList = std::vector<Parameter>;
ParameterList attention_parameters(const Rank& rank);
ParameterList latent_parameters(const Rank& rank);
ParameterList mlp_parameters(const Rank& rank);
ParameterList mixture_parameters(const Rank& rank);
ParameterList prediction_parameters(const Rank& rank);
ParameterList adapter_parameters(const Rank& rank);
ParameterList attention_adapter_parameters(const Rank& rank);
// `has_positions`: the first part of the model. `has_norm`: the last part, with the final norm.
// `has_table`: the output layer has its own weight, not the table of tied embeddings.
ParameterList embedding_parameters(const Rank& rank, bool has_positions);
ParameterList head_parameters(const Rank& rank, bool has_norm, bool has_table);

// All parameters of one model chunk of a rank.
class Parameters {
 public:
  Parameters(const Rank& rank, int chunk);

  const ParameterList& all() const { return all_; }  // in order of registration
  const Parameter& operator[](int index) const { return all_[static_cast<std::size_t>(index)]; }
  int layers() const { return static_cast<int>(units_.size()) - 1; }
  // Indices in all() of the parameters of a unit, in order. `layer` may be `ends`.
  const std::vector<int>& of(int layer) const {
    return units_[static_cast<std::size_t>(layer + 1)];
  }
  // Index in all(); -1 if the unit has no parameter of this name.
  int find(Unit unit, std::string_view name, std::string_view owner = {}) const;
  // All indices with this name: each local expert has its own weight.
  std::vector<int> find_all(Unit unit, std::string_view name, std::string_view owner = {}) const;
  std::int64_t elements() const;  // number of elements, without padding

 private:
  void add(int layer, const ParameterList& parameters);

  bool trains_adapters_, in_fp8_;
  ParameterList all_;
  std::vector<std::vector<int>> units_;  // index 0: the ends; layer + 1: the layers
};

}  // namespace sim::program
