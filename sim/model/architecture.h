// architecture.h — the network to train: a decoder-only transformer as its config.json states it.
//
// Counts follow the published conventions: `parameters` counts every trainable number once (tied
// embeddings once), with the vocabulary unpadded; a rank of a job pads the vocabulary to a multiple
// of 128 x tp (Megatron-LM, --make-vocab-size-divisible-by).
#pragma once

#include <cstdint>
#include <string>

#include "sim/model/mixture.h"

namespace sim::model {

// RMSNorm has weights, LayerNorm weights and a bias; of those without, the statistics are the same.
enum class Norm : std::uint8_t { rms, layer, layer_without_bias, layer_without_weights };
// What stands in front of the halves of a layer: a norm each; one that both read, which then run
// side by side on the same stream; nothing.
enum class InputNorms : std::uint8_t { each, shared, none };
// learned: a table of max_positions rows; none: also where attention adds a bias (ALiBi).
enum class Position : std::uint8_t { rope, learned, none };
enum class Activation : std::uint8_t { swiglu, gelu };  // swiglu has two input projections

struct Architecture {
  std::string name;
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t ffn = 0;  // width of one MLP half
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t vocab = 0;  // as published, not padded
  std::int64_t max_positions = 0;
  Norm norm = Norm::rms;
  Position position = Position::rope;
  Activation activation = Activation::swiglu;
  bool tied_embeddings = false;
  bool qkv_bias = false;
  bool linear_bias = false;     // biases of the attention output and of both MLP projections
  bool projection_bias = true;  // false: linear_bias leaves out the attention output
  bool mlp_bias = true;         // false: linear_bias leaves out the MLP
  bool head_bias = false;       // of the output layer
  double attention_dropout = 0.0;
  double hidden_dropout = 0.0;
  std::int64_t sliding_window = 0;   // tokens a query attends to, 0 = all before it
  std::int64_t whole_attention = 0;  // so many-th layers attend to all tokens; 0: none
  bool query_key_norm = false;       // a norm over each head of the queries, and of the keys
  bool norms_by_head = false;        // ... with weights of its own for each head
  bool sinks = false;                // one more score per head, which is learned
  bool output_norms = false;         // a norm behind attention and behind the MLP too
  InputNorms input_norms = InputNorms::each;
  bool embedding_norm = false;  // a norm behind the embedding
  Experts experts;
  Latent latent;
  std::int64_t predicted_tokens = 0;  // multi-token prediction: modules behind the last layer

  bool is_mixture() const { return experts.count > 0; }
  bool is_latent() const { return latent.kv_rank > 0; }
  bool norm_centres() const { return norm != Norm::rms; }
  bool norm_has_weights() const { return norm != Norm::layer_without_weights; }
  bool norm_has_bias() const { return norm == Norm::layer; }
  std::int64_t query_width() const { return heads * head_dim; }
  std::int64_t kv_width() const { return kv_heads * head_dim; }
};

// Whether each layer has experts; empty: none has. REQUIRES: the pattern of the layers is one.
std::vector<std::uint8_t> mixture_layers(const Architecture& a);
std::int64_t mixture_count(const Architecture& a);  // how many have

// Trainable parameters of one layer, of both ends, and of the whole network without the modules
// that predict more tokens. `experts`: so many are counted, -1: all; 0 is a dense layer.
std::int64_t layer_parameters(const Architecture& a, std::int64_t experts = 0);
std::int64_t embedding_parameters(const Architecture& a, std::int64_t vocab);  // + position, norm
std::int64_t parameters(const Architecture& a);
// Those that work on a token: all but the experts that it does not go to.
std::int64_t active_parameters(const Architecture& a);
// Of one module that predicts one more token: two norms, the product of stream and embedding, a
// layer of the last kind, a norm. Embedding and head are the model's. [DeepSeek-V3, 2.2]
std::int64_t prediction_parameters(const Architecture& a);

// The smallest multiple of divisor x tp that holds the vocabulary.
std::int64_t padded_vocab(std::int64_t vocab, std::int64_t tp, std::int64_t divisor = 128);

// What one stage of a pipeline asks of a tensor-parallel rank: `layers` of the network, and the
// ends it holds. Weights are split over tp ranks; norms, the biases added after a row-parallel
// product and learned positions are whole on every rank (Megatron-LM). Tied embeddings stand once
// where a stage is first and last, else on both stages.
struct StageShape {
  std::int64_t layers = 0;
  std::int64_t tp = 1;
  bool first = false;  // word and position embedding
  bool last = false;   // final norm and head
};
// REQUIRES: no layer has experts, attention is not latent; tp divides heads, kv_heads and ffn;
// `vocab` is padded for tp.
std::int64_t rank_parameters(const Architecture& a, const StageShape& stage, std::int64_t vocab);

}  // namespace sim::model
