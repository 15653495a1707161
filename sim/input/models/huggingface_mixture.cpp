// huggingface_mixture.cpp — mixtures of experts by model_type, with the defaults of the
// transformers library.
//
// Some types compute router scores in another order than Megatron-LM. The shapes are the same.
//
//     mixtral, qwen3_moe            softmax; qwen3 has a norm over each head
//     deepseek_v2, deepseek_v3      latent attention, shared experts, first layers dense
//     gpt_oss                       biases everywhere, sinks, a window in every second layer
//     grok-1                        norms before and after both halves of a layer
//     llama4_text                   experts and a shared expert in every second layer
#include <algorithm>
#include <array>

#include "sim/input/models/huggingface_keys.h"

namespace sim::input {
namespace {

using model::Architecture;

constexpr std::array<std::string_view, 8> types{"mixtral",     "qwen3",       "qwen3_moe",
                                                "deepseek_v2", "deepseek_v3", "gpt_oss",
                                                "grok-1",      "llama4_text"};
constexpr std::array mixture_keys{
    "num_local_experts",     "num_experts",      "n_routed_experts", "num_experts_per_tok",
    "moe_intermediate_size", "n_shared_experts", "kv_lora_rank",     "q_lora_rank"};

// The layer pattern in Megatron-LM's notation: "([0]*3+[1]*58)".
std::string pattern_of(const std::vector<std::uint8_t>& mixture) {
  std::string text = "(";
  for (std::size_t i = 0; i < mixture.size();) {
    std::size_t end = i;
    while (end < mixture.size() && mixture[end] == mixture[i]) ++end;
    text += fmt::format("{}[{}]*{}", i == 0 ? "" : "+", mixture[i], end - i);
    i = end;
  }
  return text + ")";
}

std::vector<std::uint8_t> every(std::int64_t layers, std::int64_t step) {
  std::vector<std::uint8_t> mixture;
  for (std::int64_t i = 0; i < layers; ++i) mixture.push_back(step > 0 && (i + 1) % step == 0);
  return mixture;
}

void common(Keys& keys, const char* count, Architecture& a) {
  a.experts.count = keys.required(count, max_experts, "8");
  a.experts.top_k = keys.required("num_experts_per_tok", max_experts, "2");
  if (a.experts.top_k > a.experts.count && a.experts.count > 0)
    keys.problem(keys.given("num_experts_per_tok"),
                 fmt::format("num_experts_per_tok ({}) is more than {} ({})", a.experts.top_k,
                             count, a.experts.count));
  a.experts.ffn = a.ffn;
}

void qwen3(Keys& keys, bool mixture, Architecture& a) {
  a.query_key_norm = true;
  a.qkv_bias = keys.boolean("attention_bias", false);
  if (!mixture) return;
  common(keys, "num_experts", a);
  a.experts.ffn = keys.required("moe_intermediate_size", max_width, "768");
  a.experts.pre_softmax = !keys.boolean("norm_topk_prob", false);
  std::vector<std::uint8_t> layers =
      every(a.layers, keys.optional("decoder_sparse_step", 1, max_layers));
  if (const JsonValue* dense = keys.given("mlp_only_layers"))
    for (const JsonValue& layer : dense->items)
      if (layer.kind == JsonValue::Kind::integer && layer.integer >= 0 && layer.integer < a.layers)
        layers[static_cast<std::size_t>(layer.integer)] = 0;
  if (std::ranges::count(layers, 0) > 0) a.experts.layers = pattern_of(layers);
}

void deepseek(Keys& keys, bool third, Architecture& a) {
  model::Latent& l = a.latent;
  l.kv_rank = keys.required("kv_lora_rank", max_hidden, "512");
  l.q_rank = keys.optional("q_lora_rank", 0, max_hidden);
  l.content = keys.required("qk_nope_head_dim", max_heads, "128");
  l.rotated = keys.required("qk_rope_head_dim", max_heads, "64");
  l.value = keys.required("v_head_dim", max_heads, "128");
  a.head_dim = l.content + l.rotated;
  a.kv_heads = a.heads;
  a.qkv_bias = keys.boolean("attention_bias", false);
  common(keys, "n_routed_experts", a);
  a.experts.ffn = keys.required("moe_intermediate_size", max_width, "2048");
  a.experts.shared_ffn = keys.counted("n_shared_experts", 0, max_experts) * a.experts.ffn;
  a.experts.groups = keys.counted("n_group", 0, max_experts);
  a.experts.top_groups = keys.counted("topk_group", 0, max_experts);
  a.experts.pre_softmax = true;
  if (third) {
    a.experts.score = model::RouterScore::sigmoid;
    a.experts.expert_bias = true;
    a.predicted_tokens = keys.counted("num_nextn_predict_layers", 0, max_layers);
  }
  const std::int64_t dense = keys.counted("first_k_dense_replace", 0, max_layers);
  const std::int64_t step = keys.optional("moe_layer_freq", 1, max_layers);
  std::vector<std::uint8_t> layers;
  for (std::int64_t i = 0; i < a.layers; ++i)
    layers.push_back(i >= dense && step > 0 && i % step == 0);
  if (std::ranges::count(layers, 0) > 0) a.experts.layers = pattern_of(layers);
}

void gpt_oss(Keys& keys, Architecture& a) {
  common(keys, "num_local_experts", a);
  a.qkv_bias = a.linear_bias = keys.boolean("attention_bias", true);
  a.experts.router_bias = a.sinks = true;
  a.sliding_window = keys.optional("sliding_window", 128, max_positions);
  a.whole_attention = 2;
  const JsonValue* types_of = keys.given("layer_types");
  for (std::size_t i = 0; types_of && i < types_of->items.size(); ++i)
    if (types_of->items[i].text != (i % 2 == 1 ? "full_attention" : "sliding_attention")) {
      keys.problem(&types_of->items[i],
                   "layer_types: only sliding_attention and full_attention in "
                   "turn are modelled");
      break;
    }
}

void grok(Keys& keys, Architecture& a) {
  common(keys, "num_experts", a);
  a.output_norms = true;
}

void llama4(Keys& keys, Architecture& a) {
  common(keys, "num_local_experts", a);
  a.ffn = keys.required("intermediate_size_mlp", max_width, "16384");
  a.experts.shared_ffn = a.experts.ffn;
  a.experts.score = model::RouterScore::sigmoid;
  a.qkv_bias = keys.boolean("attention_bias", false);
  const std::int64_t step = keys.optional("interleave_moe_layer_step", 1, max_layers);
  if (step > 1) a.experts.layers = pattern_of(every(a.layers, step));
}

}  // namespace

std::span<const std::string_view> mixture_types() {
  return types;
}

void read_mixture(Keys& keys, std::string_view type, Architecture& a) {
  keys.misspelt(mixture_keys);
  if (type == "mixtral") common(keys, "num_local_experts", a);
  if (type == "qwen3" || type == "qwen3_moe") qwen3(keys, type == "qwen3_moe", a);
  if (type.starts_with("deepseek")) deepseek(keys, type == "deepseek_v3", a);
  if (type == "gpt_oss") gpt_oss(keys, a);
  if (type == "grok-1") grok(keys, a);
  if (type == "llama4_text") llama4(keys, a);
}

}  // namespace sim::input
