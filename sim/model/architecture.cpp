#include "sim/model/architecture.h"

#include <cassert>

namespace sim::model {
namespace {

// Parameters of one layer: those that tensor parallelism splits, and those replicated on each rank.
struct LayerCounts {
  std::int64_t split = 0;
  std::int64_t whole = 0;
};

std::int64_t norm_parameters(const Architecture& a) {
  return (a.norm_has_weights() + a.norm_has_bias()) * a.hidden;
}

// Latent attention projects the hidden state down, normalizes, and projects up again. Queries skip
// the down projection if q_rank is 0. All heads share the rotated part of the keys.
// [DeepSeek-V2, arXiv:2405.04434, 2.1]
void count_latent_attention(const Architecture& a, LayerCounts& n) {
  const Latent& l = a.latent;
  const std::int64_t query = a.heads * (l.content + l.rotated);
  if (l.q_rank > 0) n.whole += a.hidden * l.q_rank + l.q_rank;
  n.split += (l.q_rank > 0 ? l.q_rank : a.hidden) * query;
  n.whole += a.hidden * (l.kv_rank + l.rotated) + l.kv_rank;
  n.split += l.kv_rank * a.heads * (l.content + l.value) + a.heads * l.value * a.hidden;
}

void count_attention(const Architecture& a, LayerCounts& n) {
  if (a.is_latent()) return count_latent_attention(a, n);
  const std::int64_t qkv = a.query_width() + 2 * a.kv_width();
  n.split += a.hidden * qkv + a.query_width() * a.hidden;  // qkv, attention output
  if (a.qkv_bias) n.split += qkv;
  if (a.query_key_norm && a.norms_by_head) n.split += a.query_width() + a.kv_width();
  if (a.query_key_norm && !a.norms_by_head) n.whole += 2 * a.head_dim;
  if (a.sinks) n.split += a.heads;
  if (a.linear_bias && a.projection_bias) n.whole += a.hidden;  // added after the all-reduce
}

// Adds an MLP of this width: its matrices are split over ranks, its output bias is replicated.
void count_mlp(const Architecture& a, std::int64_t width, LayerCounts& n) {
  const std::int64_t inputs = a.activation == Activation::swiglu ? 2 : 1;
  n.split += (inputs + 1) * a.hidden * width;
  if (!a.linear_bias || !a.mlp_bias) return;
  n.split += inputs * width;
  n.whole += a.hidden;
}

LayerCounts count_layer(const Architecture& a, std::int64_t experts) {
  LayerCounts n;
  count_attention(a, n);
  const int in_front = a.input_norms == InputNorms::each ? 2 : a.input_norms == InputNorms::shared;
  n.whole += (in_front + (a.output_norms ? 2 : 0)) * norm_parameters(a);
  if (experts == 0) {
    count_mlp(a, a.ffn, n);
    return n;
  }
  const Experts& e = a.experts;
  n.whole += a.hidden * (e.count + e.gates) + (e.router_bias ? e.count : 0);
  if (e.shared_ffn > 0) count_mlp(a, e.shared_ffn, n);
  LayerCounts one;
  count_mlp(a, e.ffn, one);
  n.split += (experts < 0 ? e.count : experts) * (one.split + one.whole);
  return n;
}

std::int64_t position_parameters(const Architecture& a) {
  return a.position == Position::learned ? a.max_positions * a.hidden : 0;
}

std::int64_t embedding_norm_parameters(const Architecture& a) {
  return a.embedding_norm ? norm_parameters(a) : 0;
}

// Parameters of the network if each layer with experts counts `experts` of them (-1: all).
std::int64_t counted(const Architecture& a, std::int64_t experts) {
  const std::int64_t mixtures = mixture_count(a);
  std::int64_t n = (a.layers - mixtures) * layer_parameters(a);
  if (mixtures > 0) n += mixtures * layer_parameters(a, experts);
  n += embedding_parameters(a, a.vocab) + norm_parameters(a);
  if (!a.tied_embeddings) n += a.vocab * a.hidden;
  if (a.head_bias) n += a.vocab;
  return n;
}

}  // namespace

std::vector<std::uint8_t> mixture_layers(const Architecture& a) {
  if (!a.is_mixture()) return {};
  return read_layer_pattern(a.experts.layers, a.layers).mixture;
}

std::int64_t mixture_count(const Architecture& a) {
  std::int64_t count = 0;
  for (const std::uint8_t mixture : mixture_layers(a)) count += mixture;
  return count;
}

std::int64_t layer_parameters(const Architecture& a, std::int64_t experts) {
  const LayerCounts n = count_layer(a, experts);
  return n.split + n.whole;
}

std::int64_t embedding_parameters(const Architecture& a, std::int64_t vocab) {
  return vocab * a.hidden + position_parameters(a) + embedding_norm_parameters(a);
}

std::int64_t parameters(const Architecture& a) {
  return counted(a, -1);
}

std::int64_t active_parameters(const Architecture& a) {
  return counted(a, a.experts.top_k);
}

std::int64_t prediction_parameters(const Architecture& a) {
  const std::vector<std::uint8_t> mixture = mixture_layers(a);
  const bool last = !mixture.empty() && mixture.back() != 0;
  return 2 * a.hidden * a.hidden + 3 * norm_parameters(a) + layer_parameters(a, last ? -1 : 0);
}

std::int64_t padded_vocab(std::int64_t vocab, std::int64_t tp, std::int64_t divisor) {
  assert(vocab > 0);
  assert(tp > 0);
  assert(divisor > 0);
  const std::int64_t multiple = divisor * tp;
  return (vocab + multiple - 1) / multiple * multiple;
}

}  // namespace sim::model
