#include "sim/model/architecture.h"

#include <cassert>

namespace sim::model {
namespace {

// Numbers of one layer that tensor parallelism splits, and those that every rank keeps whole.
struct LayerCounts {
  std::int64_t split = 0;
  std::int64_t whole = 0;
};

std::int64_t norm_parameters(const Architecture& a) {
  return a.norm == Norm::layer ? 2 * a.hidden : a.hidden;
}

LayerCounts count_layer(const Architecture& a) {
  const std::int64_t inputs = a.activation == Activation::swiglu ? 2 : 1;
  const std::int64_t qkv = a.query_width() + 2 * a.kv_width();
  LayerCounts n;
  n.split = a.hidden * qkv + a.query_width() * a.hidden;  // qkv, attention output
  n.split += (inputs + 1) * a.hidden * a.ffn;             // MLP in and out
  if (a.qkv_bias) n.split += qkv;
  if (a.linear_bias) {
    n.split += inputs * a.ffn;
    n.whole += 2 * a.hidden;  // added after the sum over ranks
  }
  n.whole += 2 * norm_parameters(a);
  return n;
}

std::int64_t position_parameters(const Architecture& a) {
  return a.position == Position::learned ? a.max_positions * a.hidden : 0;
}

}  // namespace

std::int64_t layer_parameters(const Architecture& a) {
  const LayerCounts n = count_layer(a);
  return n.split + n.whole;
}

std::int64_t embedding_parameters(const Architecture& a, std::int64_t vocab) {
  return vocab * a.hidden + position_parameters(a);
}

std::int64_t parameters(const Architecture& a) {
  std::int64_t n = a.layers * layer_parameters(a) + embedding_parameters(a, a.vocab);
  n += norm_parameters(a);
  if (!a.tied_embeddings) n += a.vocab * a.hidden;
  return n;
}

std::int64_t padded_vocab(std::int64_t vocab, std::int64_t tp, std::int64_t divisor) {
  assert(vocab > 0);
  assert(tp > 0);
  assert(divisor > 0);
  const std::int64_t multiple = divisor * tp;
  return (vocab + multiple - 1) / multiple * multiple;
}

std::int64_t rank_parameters(const Architecture& a, const StageShape& stage, std::int64_t vocab) {
  assert(stage.tp > 0);
  assert(a.heads % stage.tp == 0);
  assert(a.kv_heads % stage.tp == 0);
  assert(a.ffn % stage.tp == 0);
  assert(vocab % stage.tp == 0);
  const LayerCounts layer = count_layer(a);
  std::int64_t n = stage.layers * (layer.split / stage.tp + layer.whole);
  if (stage.first) n += vocab / stage.tp * a.hidden + position_parameters(a);
  if (stage.last) n += norm_parameters(a);
  if (stage.last && !(a.tied_embeddings && stage.first)) n += vocab / stage.tp * a.hidden;
  return n;
}

}  // namespace sim::model
