#include "sim/input/models/family_fields.h"

#include <algorithm>
#include <array>

#include "sim/input/models/huggingface_keys.h"
#include "sim/model/words.h"

namespace sim::input {
namespace {

using model::Architecture;
using Kind = FamilyValue::Kind;
using Value = FamilyValue;

// A bias of attention's output or of the MLP alone (model/architecture.h: linear_bias).
void set_biases(Architecture& a, bool output, bool mlp) {
  a.linear_bias = output || mlp;
  a.projection_bias = output || !a.linear_bias;
  a.mlp_bias = mlp || !a.linear_bias;
}
bool has_output_bias(const Architecture& a) {
  return a.linear_bias && a.projection_bias;
}
bool has_mlp_bias(const Architecture& a) {
  return a.linear_bias && a.mlp_bias;
}

bool set_norm(Architecture& a, const Value& v) {
  return model::read_word(v.word, a.norm);
}

bool set_input_norms(Architecture& a, const Value& v) {
  return model::read_word(v.word, a.input_norms);
}

bool set_position(Architecture& a, const Value& v) {
  return model::read_word(v.word, a.position);
}

bool set_score(Architecture& a, const Value& v) {
  return model::read_word(v.word, a.experts.score);
}

// "gelu": two products. "silu", "swiglu": gated, three.
bool set_activation(Architecture& a, const Value& v) {
  const bool gated = v.word == "silu" || v.word == "swish" || v.word == "swiglu";
  a.activation = gated ? model::Activation::swiglu : model::Activation::gelu;
  return gated || v.word == "gelu" || v.word == "gelu_new" || v.word == "relu2";
}

#define COUNT(name, most, member)                                  \
  FamilySetter {                                                   \
    name, Kind::count, most, [](Architecture& a, const Value& v) { \
      a.member = v.count;                                          \
      return true;                                                 \
    }                                                              \
  }
#define SWITCH(name, member)                                      \
  FamilySetter {                                                  \
    name, Kind::boolean, 0, [](Architecture& a, const Value& v) { \
      a.member = v.boolean;                                       \
      return true;                                                \
    }                                                             \
  }
#define SHARE(name, member)                                     \
  FamilySetter {                                                \
    name, Kind::share, 0, [](Architecture& a, const Value& v) { \
      a.member = v.share;                                       \
      return true;                                              \
    }                                                           \
  }

// clang-format off
constexpr FamilySetter setters[] = {
    COUNT("layers", max_layers, layers),
    COUNT("hidden", max_hidden, hidden),
    COUNT("ffn", max_width, ffn),
    COUNT("heads", max_heads, heads),
    COUNT("kv_heads", max_heads, kv_heads),
    COUNT("head_dim", max_heads, head_dim),
    COUNT("vocab", max_width, vocab),
    COUNT("max_positions", max_positions, max_positions),
    COUNT("sliding_window", max_positions, sliding_window),
    COUNT("whole_attention", max_layers, whole_attention),
    COUNT("predicted_tokens", max_layers, predicted_tokens),
    COUNT("experts.count", max_experts, experts.count),
    COUNT("experts.top_k", max_experts, experts.top_k),
    COUNT("experts.ffn", max_width, experts.ffn),
    COUNT("experts.shared_ffn", max_width, experts.shared_ffn),
    COUNT("experts.groups", max_experts, experts.groups),
    COUNT("experts.top_groups", max_experts, experts.top_groups),
    COUNT("experts.gates", max_experts, experts.gates),
    COUNT("latent.kv_rank", max_hidden, latent.kv_rank),
    COUNT("latent.q_rank", max_hidden, latent.q_rank),
    COUNT("latent.content", max_heads, latent.content),
    COUNT("latent.rotated", max_heads, latent.rotated),
    COUNT("latent.value", max_heads, latent.value),
    SWITCH("tied_embeddings", tied_embeddings),
    SWITCH("qkv_bias", qkv_bias),
    SWITCH("head_bias", head_bias),
    SWITCH("query_key_norm", query_key_norm),
    SWITCH("norms_by_head", norms_by_head),
    SWITCH("sinks", sinks),
    SWITCH("output_norms", output_norms),
    SWITCH("embedding_norm", embedding_norm),
    SWITCH("experts.pre_softmax", experts.pre_softmax),
    SWITCH("experts.expert_bias", experts.expert_bias),
    SWITCH("experts.auxiliary_loss", experts.auxiliary_loss),
    SWITCH("experts.router_bias", experts.router_bias),
    FamilySetter{"output_bias", Kind::boolean, 0, [](Architecture& a, const Value& v) {
      set_biases(a, v.boolean, has_mlp_bias(a));
      return true;
    }},
    FamilySetter{"mlp_bias", Kind::boolean, 0, [](Architecture& a, const Value& v) {
      set_biases(a, has_output_bias(a), v.boolean);
      return true;
    }},
    SHARE("attention_dropout", attention_dropout),
    SHARE("hidden_dropout", hidden_dropout),
    FamilySetter{"norm", Kind::word, 0, set_norm},
    FamilySetter{"position", Kind::word, 0, set_position},
    FamilySetter{"input_norms", Kind::word, 0, set_input_norms},
    FamilySetter{"activation", Kind::word, 0, set_activation},
    FamilySetter{"experts.score", Kind::word, 0, set_score},
};
// clang-format on

#undef COUNT
#undef SWITCH
#undef SHARE

}  // namespace

std::span<const FamilySetter> family_setters() {
  return setters;
}

const FamilySetter* family_setter(std::string_view name) {
  const auto* found = std::ranges::find(setters, name, &FamilySetter::name);
  return found == std::end(setters) ? nullptr : found;
}

}  // namespace sim::input
