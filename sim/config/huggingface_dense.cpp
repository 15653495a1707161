// huggingface_dense.cpp — dense models by their model_type: a row each, with the defaults of the
// type's configuration class in the transformers library and what the type has beside the shapes
// that all share. Where the layers of a type differ in what costs nothing here (scales of
// embeddings and residuals, soft caps of scores, positions left out of some layers), that is not
// read. Parallel halves of a layer (gpt_neox) are replayed one after the other.
//
//     llama mistral qwen2 phi3 granite smollm3 minicpm baichuan internlm2    RMSNorm, SwiGLU
//     gemma gemma2 gemma3_text      a gated GELU, tied; 2 and 3 have norms behind both halves
//     starcoder2 nemotron stablelm gpt_neox opt    LayerNorm
#include <algorithm>
#include <array>

#include "sim/config/huggingface_keys.h"

namespace sim::config {
namespace {

using model::Activation;
using model::Architecture;

// Between the products of the MLP. Squared or not, what stands there costs the same.
enum class Act : std::uint8_t { silu, gated_gelu, gelu };

// What a type of this file is where its file says nothing, and what it has of its own.
struct Dense {
  std::string_view type;
  std::int64_t positions = 2048;
  bool tied = false;
  model::Norm norm = model::Norm::rms;
  Act act = Act::silu;
  void (*rest)(Keys& keys, Architecture& a) = nullptr;
  // Keys that the type's files may leave out; 0: a file must say it.
  std::int64_t vocab = 0, heads = 0, kv_heads = 0, head_dim = 0;
  std::string_view width = "intermediate_size";
};

void only(Keys& keys, std::string_view key, bool value, const char* why) {
  const JsonValue* given = keys.given(key);
  if (given && keys.boolean(key, value) != value)
    keys.problem(given, fmt::format("{} is {}; {}", key, keys.spelled(*given), why));
}

void llama(Keys& keys, Architecture& a) {
  a.qkv_bias = keys.boolean("attention_bias", false);
  a.linear_bias = keys.boolean("mlp_bias", false);
  if (a.qkv_bias != a.linear_bias)
    keys.problem(keys.given(a.qkv_bias ? "attention_bias" : "mlp_bias"),
                 "attention_bias and mlp_bias differ; only both true or both false is modelled");
}

void windowed(Keys& keys, Architecture& a) {
  a.sliding_window = keys.optional("sliding_window", 0, max_positions);
}

void qwen2(Keys& keys, Architecture& a) {
  a.qkv_bias = true;
  if (keys.boolean("use_sliding_window", false)) windowed(keys, a);
}

void no_bias(Keys& keys, Architecture&) {
  only(keys, "attention_bias", false, "a bias there is not modelled");
  only(keys, "bias", false, "biases are not modelled");
}

void without_positions(Keys& keys, Architecture& a) {
  // The 13B model names no max_position_embeddings: attention adds a bias by distance (ALiBi).
  if (!keys.given("max_position_embeddings") && keys.given("model_max_length")) {
    a.position = model::Position::none;
    a.max_positions = keys.optional("model_max_length", 4096, max_positions);
  }
}

void gemma2(Keys& keys, Architecture& a) {
  no_bias(keys, a);
  a.output_norms = true;
  a.sliding_window = keys.optional("sliding_window", 4096, max_positions);
  a.whole_attention = 2;
}

void gemma3(Keys& keys, Architecture& a) {
  no_bias(keys, a);
  a.output_norms = a.query_key_norm = true;
  a.sliding_window = keys.optional("sliding_window", 4096, max_positions);
  a.whole_attention = keys.optional("sliding_window_pattern", 6, max_layers);
}

void starcoder2(Keys& keys, Architecture& a) {
  const std::array<std::string, 1> norm{"layer_norm"};
  keys.choice("norm_type", norm);
  a.qkv_bias = a.linear_bias = keys.boolean("use_bias", true);
  a.hidden_dropout = keys.probability("residual_dropout", 0.0);
  windowed(keys, a);
}

void stablelm(Keys& keys, Architecture& a) {
  a.qkv_bias = keys.boolean("use_qkv_bias", false);
  only(keys, "use_parallel_residual", false, "one norm for both halves is not modelled");
  only(keys, "qk_layernorm", false, "a norm for each head's own weights is not modelled");
}

void nemotron(Keys& keys, Architecture&) {
  only(keys, "attention_bias", false, "a bias there is not modelled");
  only(keys, "mlp_bias", false, "a bias there is not modelled");
}

void gpt_neox(Keys& keys, Architecture& a) {
  only(keys, "attention_bias", true, "a layer without them is not modelled");
  a.qkv_bias = a.linear_bias = true;
  a.hidden_dropout = keys.probability("hidden_dropout", 0.0);
}

// Two rows of the table of positions are for padding [OPTLearnedPositionalEmbedding].
void opt(Keys& keys, Architecture& a) {
  a.position = model::Position::learned;
  a.max_positions += 2;
  only(keys, "do_layer_norm_before", true, "a norm behind each half alone is not modelled");
  only(keys, "enable_bias", true, "a layer without biases is not modelled");
  const std::int64_t width = keys.optional("word_embed_proj_dim", a.hidden, max_hidden);
  if (width != a.hidden)
    keys.problem(keys.given("word_embed_proj_dim"),
                 "word_embed_proj_dim differs from hidden_size; a projection between them is not "
                 "modelled");
  a.qkv_bias = a.linear_bias = true;
  a.hidden_dropout = keys.probability("dropout", 0.1);
}

constexpr auto layer = model::Norm::layer;
constexpr auto gelu = Act::gelu, gated_gelu = Act::gated_gelu;
constexpr Dense rows[] = {
    {.type = "llama", .rest = llama},
    {.type = "mistral", .positions = 131072, .rest = windowed},
    {.type = "qwen2", .positions = 32768, .rest = qwen2},
    {.type = "phi3", .positions = 4096, .rest = windowed},
    {.type = "granite", .rest = llama},
    {.type = "smollm3", .positions = 32768, .tied = true, .rest = no_bias},
    {.type = "minicpm", .tied = true, .rest = no_bias},
    {.type = "baichuan", .positions = 4096, .rest = without_positions},
    {.type = "internlm2", .rest = no_bias},
    {.type = "gemma",
     .positions = 8192,
     .tied = true,
     .act = gated_gelu,
     .rest = no_bias,
     .head_dim = 256},
    {.type = "gemma2",
     .positions = 8192,
     .tied = true,
     .act = gated_gelu,
     .rest = gemma2,
     .head_dim = 256},
    {.type = "gemma3_text",
     .positions = 131072,
     .tied = true,
     .act = gated_gelu,
     .rest = gemma3,
     .vocab = 262208,
     .heads = 8,
     .kv_heads = 4,
     .head_dim = 256},
    {.type = "starcoder2",
     .positions = 4096,
     .tied = true,
     .norm = layer,
     .act = gelu,
     .rest = starcoder2},
    {.type = "nemotron", .positions = 4096, .norm = layer, .act = gelu, .rest = nemotron},
    {.type = "stablelm", .positions = 4096, .norm = layer, .rest = stablelm},
    {.type = "gpt_neox", .norm = layer, .act = gelu, .rest = gpt_neox},
    {.type = "opt", .tied = true, .norm = layer, .act = gelu, .rest = opt, .width = "ffn_dim"},
};
// Mixtures begin as this.
constexpr Dense mixture{.type = "", .positions = 32768};

constexpr std::array base_keys{"num_hidden_layers",
                               "hidden_size",
                               "intermediate_size",
                               "num_attention_heads",
                               "vocab_size",
                               "head_dim",
                               "num_key_value_heads",
                               "max_position_embeddings",
                               "hidden_act",
                               "attention_bias",
                               "mlp_bias",
                               "attention_dropout",
                               "sliding_window",
                               "use_sliding_window",
                               "tie_word_embeddings",
                               "model_type"};

void check_activation(Keys& keys, Act act) {
  static const std::vector<std::string> words[] = {
      {"silu", "swish"},
      {"gelu", "gelu_pytorch_tanh"},
      {"gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "relu", "relu2"}};
  for (const char* key : {"hidden_act", "activation_function", "hidden_activation"})
    keys.choice(key, words[static_cast<std::size_t>(act)]);
}

std::int64_t or_required(Keys& keys, std::string_view key, std::int64_t otherwise,
                         std::int64_t most, std::string_view example) {
  return otherwise > 0 ? keys.optional(key, otherwise, most) : keys.required(key, most, example);
}

Architecture base(Keys& keys, const Dense& row) {
  Architecture a;
  keys.misspelt(base_keys);
  a.layers = keys.required("num_hidden_layers", max_layers, "32");
  a.hidden = keys.required("hidden_size", max_hidden, "4096");
  a.ffn = keys.required(row.width, max_width, "14336");
  a.heads = or_required(keys, "num_attention_heads", row.heads, max_heads, "32");
  a.vocab = or_required(keys, "vocab_size", row.vocab, max_width, "128256");
  a.kv_heads =
      keys.optional("num_key_value_heads", row.kv_heads > 0 ? row.kv_heads : a.heads, max_heads);
  a.head_dim = keys.optional("head_dim", row.head_dim, max_heads);
  a.max_positions = keys.optional("max_position_embeddings", row.positions, max_positions);
  a.norm = row.norm;
  a.position = model::Position::rope;
  a.activation = row.act == Act::gelu ? Activation::gelu : Activation::swiglu;
  check_activation(keys, row.act);
  a.tied_embeddings = keys.boolean("tie_word_embeddings", row.tied);
  a.attention_dropout = keys.probability("attention_dropout", 0.0);
  return a;
}

const Dense* row_of(std::string_view type) {
  const auto* row = std::ranges::find(rows, type, &Dense::type);
  return row == std::end(rows) ? nullptr : row;
}

}  // namespace

std::vector<std::string_view> dense_types() {
  std::vector<std::string_view> types;
  for (const Dense& row : rows) types.push_back(row.type);
  return types;
}

Architecture read_layers(Keys& keys, std::string_view type) {
  const Dense* row = row_of(type);
  Architecture a = base(keys, row ? *row : mixture);
  if (row && row->rest) row->rest(keys, a);
  if (!row && type == "mixtral") windowed(keys, a);
  if (!row && keys.boolean("use_sliding_window", false)) windowed(keys, a);
  return a;
}

}  // namespace sim::config
