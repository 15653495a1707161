// architecture.h — the network to train: a decoder-only transformer with the fields of config.json.
//
// The room `input` fills an Architecture. `program` reads it to build the kernels of a layer, and
// `flops.h` to count. This file never depends on a plan or a cluster.
//
// Counts follow the published conventions: every trainable number counts once, tied embeddings
// once, and the vocabulary is not padded. A rank of a job pads the vocabulary to a multiple of
// 128 x tp (Megatron-LM, --make-vocab-size-divisible-by).
#pragma once

#include <cstdint>
#include <string>

#include "sim/model/mixture.h"

namespace sim::model {

// RMSNorm has weights; LayerNorm has weights and a bias. The two variants without them compute the
// same statistics as LayerNorm.
enum class Norm : std::uint8_t { rms, layer, layer_without_bias, layer_without_weights };
// Norms before attention and before the MLP of a layer.
//   each:   attention and the MLP have a norm each
//   shared: both read the output of one norm (parallel attention and MLP)
//   none:   neither has one
enum class InputNorms : std::uint8_t { each, shared, none };
// Position encoding. learned: a table of max_positions rows. none: also for networks whose
// attention adds a position bias (ALiBi).
enum class Position : std::uint8_t { rope, learned, none };
enum class Activation : std::uint8_t { swiglu, gelu };  // swiglu: two input projections (gated)

struct Architecture {
  std::string name;
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t ffn = 0;  // width of the MLP (of one of the two halves if gated)
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t vocab = 0;  // entries, as published (not padded)
  std::int64_t max_positions = 0;
  Norm norm = Norm::rms;
  Position position = Position::rope;
  Activation activation = Activation::swiglu;
  bool tied_embeddings = false;
  bool qkv_bias = false;
  bool linear_bias = false;     // biases of the attention output and of both MLP projections
  bool projection_bias = true;  // false: no bias of the attention output, even with linear_bias
  bool mlp_bias = true;         // false: no biases of the MLP, even with linear_bias
  bool head_bias = false;       // bias of the output layer (LM head)
  double attention_dropout = 0.0;
  double hidden_dropout = 0.0;
  std::int64_t sliding_window = 0;   // tokens that a query attends to; 0: all tokens before it
  std::int64_t whole_attention = 0;  // every n-th layer ignores the window; 0: none does
  bool query_key_norm = false;       // a norm over each head of the queries and of the keys
  bool norms_by_head = false;        // query_key_norm has separate weights for each head
  bool sinks = false;                // attention sinks: one learned score per head
  bool output_norms = false;         // norms after attention and after the MLP, too
  InputNorms input_norms = InputNorms::each;
  bool embedding_norm = false;  // a norm after the embedding
  Experts experts;
  Latent latent;
  std::int64_t predicted_tokens = 0;  // multi-token prediction: modules after the last layer

  bool is_mixture() const { return experts.count > 0; }
  bool is_latent() const { return latent.kv_rank > 0; }
  bool norm_centres() const { return norm != Norm::rms; }
  bool norm_has_weights() const { return norm != Norm::layer_without_weights; }
  bool norm_has_bias() const { return norm == Norm::layer; }
  std::int64_t query_width() const { return heads * head_dim; }
  std::int64_t kv_width() const { return kv_heads * head_dim; }
};

// By layer: 1 if the layer has experts, else 0. Empty: a dense network.
// REQUIRES: Experts::layers is a valid pattern for this number of layers.
std::vector<std::uint8_t> mixture_layers(const Architecture& a);
std::int64_t mixture_count(const Architecture& a);  // number of layers with experts

// Trainable parameters of one layer, of the embedding, and of the whole network. Multi-token
// prediction modules are not included. `experts`: number of experts to count; -1 counts all, 0 is
// a dense layer.
std::int64_t layer_parameters(const Architecture& a, std::int64_t experts = 0);
std::int64_t embedding_parameters(const Architecture& a, std::int64_t vocab);  // + position, norm
std::int64_t parameters(const Architecture& a);
// Parameters that one token uses: of the experts, only the top_k that the router chooses.
std::int64_t active_parameters(const Architecture& a);
// Trainable parameters of one multi-token prediction module. It has two input norms, the projection
// of hidden state and embedding (2h x h), a layer of the last layer's kind, and a final norm. The
// module shares embedding and head with the network. [DeepSeek-V3, 2.2]
std::int64_t prediction_parameters(const Architecture& a);

// The smallest multiple of divisor x tp that is at least `vocab`.
std::int64_t padded_vocab(std::int64_t vocab, std::int64_t tp, std::int64_t divisor = 128);

}  // namespace sim::model
