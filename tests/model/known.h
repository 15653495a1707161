// known.h — architectures whose sizes everyone knows, for the tests of this room.
#pragma once

#include "sim/model/architecture.h"

namespace sim::model {

inline Architecture llama(std::int64_t layers, std::int64_t hidden, std::int64_t ffn,
                          std::int64_t heads, std::int64_t kv_heads, std::int64_t vocab) {
  Architecture a;
  a.layers = layers;
  a.hidden = hidden;
  a.ffn = ffn;
  a.heads = heads;
  a.kv_heads = kv_heads;
  a.head_dim = hidden / heads;
  a.vocab = vocab;
  a.max_positions = 8192;
  return a;
}

// As Megatron-LM trains GPT: learned positions, LayerNorm, GELU, biases, tied embeddings.
inline Architecture gpt(std::int64_t layers, std::int64_t hidden, std::int64_t heads) {
  Architecture a = llama(layers, hidden, 4 * hidden, heads, heads, 51200);
  a.max_positions = 2048;
  a.norm = Norm::layer;
  a.position = Position::learned;
  a.activation = Activation::gelu;
  a.tied_embeddings = a.qkv_bias = a.linear_bias = true;
  a.attention_dropout = a.hidden_dropout = 0.1;
  return a;
}

inline Architecture llama_8b() {
  return llama(32, 4096, 14336, 32, 8, 128256);
}
inline Architecture llama_70b() {
  return llama(80, 8192, 28672, 64, 8, 128256);
}

}  // namespace sim::model
