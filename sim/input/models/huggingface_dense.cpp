// huggingface_dense.cpp — dense models by model_type: one row each.
//
// A row has the defaults of the type's configuration class in the transformers library, and its
// differences from the common network. Differences without cost are not read: scales of embeddings
// and residuals, soft caps of scores, layers without positions. The type gpt_neox computes
// attention and MLP in parallel, with a norm each. The replay runs them one after the other.
//
//     llama mistral qwen2 phi3 granite smollm3 minicpm baichuan internlm internlm2  RMSNorm, SwiGLU
//     gemma gemma2 gemma3_text      gated GELU, tied embeddings; 2 and 3: norms after both halves
//     olmo olmo2                    norms without weights; norms after both halves only
//     starcoder2 nemotron stablelm gpt_neox opt bloom    LayerNorm
//     gptj phi cohere cohere2 falcon    one norm for both halves
//     mpt cohere cohere2            LayerNorm without a bias
#include <algorithm>
#include <array>

#include "sim/input/models/huggingface_keys.h"

namespace sim::input {
namespace {

using model::Activation;
using model::Architecture;

// Activation of the MLP. Squared or not, it costs the same.
enum class Act : std::uint8_t { silu, gated_gelu, gelu };

// Names of the required keys of a type. Several names in one text: the first given one is used.
struct Names {
  std::string_view layers = "num_hidden_layers", hidden = "hidden_size",
                   heads = "num_attention_heads", positions = "max_position_embeddings";
};
constexpr Names gpt2_names{"n_layer", "n_embd", "n_head", "n_positions"};

// Defaults of a type, and its differences from the common network.
struct Dense {
  std::string_view type;
  std::int64_t positions = 2048;
  bool tied = false;
  model::Norm norm = model::Norm::rms;
  Act act = Act::silu;
  void (*rest)(Keys& keys, Architecture& a) = nullptr;
  // Defaults of optional keys; 0: the key is required.
  std::int64_t vocab = 0, heads = 0, kv_heads = 0, head_dim = 0;
  std::string_view width = "intermediate_size";
  std::int64_t wider = 0;  // default of MLP width / hidden
  Names names = {};
};

void only(Keys& keys, std::string_view key, bool value, const char* why) {
  const JsonValue* given = keys.given(key);
  if (given && keys.boolean(key, value) != value)
    keys.problem(given, fmt::format("{} is {}; {}", key, keys.spelled(*given), why));
}

// Sets the biases of attention's four products and of the MLP.
void biases(Architecture& a, bool attention, bool mlp) {
  a.qkv_bias = attention;
  a.linear_bias = attention || mlp;
  a.projection_bias = attention || !mlp;
  a.mlp_bias = mlp || !attention;
}

void llama(Keys& keys, Architecture& a) {
  biases(a, keys.boolean("attention_bias", false), keys.boolean("mlp_bias", false));
}

void windowed(Keys& keys, Architecture& a) {
  a.sliding_window = keys.optional("sliding_window", 0, max_positions);
}

void qwen2(Keys& keys, Architecture& a) {
  a.qkv_bias = true;
  if (keys.boolean("use_sliding_window", false)) windowed(keys, a);
}

void attention_bias(Keys& keys, Architecture& a) {
  biases(a, keys.boolean("attention_bias", false), false);
}

void internlm(Keys& keys, Architecture& a) {
  biases(a, keys.boolean("bias", true), false);
}

void without_positions(Keys& keys, Architecture& a) {
  // The 13B model has no max_position_embeddings: it uses ALiBi.
  if (!keys.given("max_position_embeddings") && keys.given("model_max_length")) {
    a.position = model::Position::none;
    a.max_positions = keys.optional("model_max_length", 4096, max_positions);
  }
}

void gemma2(Keys& keys, Architecture& a) {
  attention_bias(keys, a);
  a.output_norms = true;
  a.sliding_window = keys.optional("sliding_window", 4096, max_positions);
  a.whole_attention = 2;
}

void gemma3(Keys& keys, Architecture& a) {
  attention_bias(keys, a);
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
  if (keys.boolean("use_parallel_residual", false)) a.input_norms = model::InputNorms::shared;
  a.query_key_norm = a.norms_by_head = keys.boolean("qk_layernorm", false);
}

void gpt_neox(Keys& keys, Architecture& a) {
  only(keys, "attention_bias", true, "a layer without them is not modelled");
  a.qkv_bias = a.linear_bias = true;
  a.hidden_dropout = keys.probability("hidden_dropout", 0.0);
}

void olmo2(Keys& keys, Architecture& a) {
  attention_bias(keys, a);
  a.input_norms = model::InputNorms::none;
  a.output_norms = a.query_key_norm = a.norms_by_head = true;  // over all heads at once
}

void gptj(Keys& keys, Architecture& a) {
  biases(a, false, true);
  a.input_norms = model::InputNorms::shared;
  a.head_bias = true;
  a.attention_dropout = keys.probability("attn_pdrop", 0.0);
  a.hidden_dropout = keys.probability("resid_pdrop", 0.0);
}

void phi(Keys& keys, Architecture& a) {
  only(keys, "qk_layernorm", false, "norms of heads are not modelled for this type");
  biases(a, true, true);
  a.input_norms = model::InputNorms::shared;
  a.head_bias = true;
  a.hidden_dropout = keys.probability("resid_pdrop", 0.0);
}

void cohere(Keys& keys, Architecture& a) {
  attention_bias(keys, a);
  a.input_norms = model::InputNorms::shared;
  a.query_key_norm = a.norms_by_head = keys.boolean("use_qk_norm", false);
}

void cohere2(Keys& keys, Architecture& a) {
  cohere(keys, a);
  a.sliding_window = keys.optional("sliding_window", 4096, max_positions);
  a.whole_attention = keys.optional("sliding_window_pattern", 4, max_layers);
}

// The decoder of larger models has one norm for each half, unless the file says one norm
// [transformers models/falcon/modeling_falcon.py:FalconDecoderLayer].
void falcon(Keys& keys, Architecture& a) {
  const bool has_biases = keys.boolean("bias", false);
  biases(a, has_biases, has_biases);
  const bool larger = keys.boolean("new_decoder_architecture", false);
  if (!larger) a.kv_heads = keys.boolean("multi_query", true) ? 1 : a.heads;
  const bool parallel = larger || keys.boolean("parallel_attn", true);
  const std::int64_t norms = keys.optional("num_ln_in_parallel_attn", larger ? 2 : 1, 2);
  if (parallel && norms == 1) a.input_norms = model::InputNorms::shared;
  if (keys.boolean("alibi", false)) a.position = model::Position::none;
  a.hidden_dropout = keys.probability("hidden_dropout", 0.0);
}

void bloom(Keys& keys, Architecture& a) {
  biases(a, true, true);
  a.position = model::Position::none;
  a.embedding_norm = true;
  a.hidden_dropout = keys.probability("hidden_dropout", 0.0);
}

void mpt(Keys& keys, Architecture& a) {
  only(keys, "no_bias", true, "biases are not modelled for this type");
  a.hidden_dropout = keys.probability("resid_pdrop", 0.0);
  a.position = model::Position::learned;
  const std::optional<JsonObject> inner = keys.inside("attn_config");
  if (!inner) return;
  Keys attention(*inner, keys);
  if (attention.boolean("alibi", false)) a.position = model::Position::none;
  if (attention.boolean("rope", false)) a.position = model::Position::rope;
  a.kv_heads = attention.optional("kv_n_heads", a.heads, max_heads);
  a.query_key_norm = a.norms_by_head = attention.boolean("qk_ln", false);
  a.attention_dropout = attention.probability("attn_pdrop", 0.0);
}

// Two rows of the position table are for padding [OPTLearnedPositionalEmbedding].
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

constexpr auto layer = model::Norm::layer, no_bias = model::Norm::layer_without_bias;
constexpr auto gelu = Act::gelu, gated_gelu = Act::gated_gelu;
constexpr Dense rows[] = {
    {.type = "llama", .rest = llama},
    {.type = "mistral", .positions = 131072, .rest = windowed},
    {.type = "qwen2", .positions = 32768, .rest = qwen2},
    {.type = "phi3", .positions = 4096, .rest = windowed},
    {.type = "granite", .rest = llama},
    {.type = "smollm3", .positions = 32768, .tied = true, .rest = llama},
    {.type = "minicpm", .tied = true, .rest = attention_bias},
    {.type = "baichuan", .positions = 4096, .rest = without_positions},
    {.type = "internlm", .rest = internlm},
    {.type = "internlm2", .rest = internlm},
    {.type = "gemma",
     .positions = 8192,
     .tied = true,
     .act = gated_gelu,
     .rest = attention_bias,
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
    {.type = "nemotron", .positions = 4096, .norm = layer, .act = gelu, .rest = llama},
    {.type = "stablelm", .positions = 4096, .norm = layer, .rest = stablelm},
    {.type = "gpt_neox", .norm = layer, .act = gelu, .rest = gpt_neox},
    {.type = "opt", .tied = true, .norm = layer, .act = gelu, .rest = opt, .width = "ffn_dim"},
    {.type = "gptj",
     .norm = layer,
     .act = gelu,
     .rest = gptj,
     .width = "n_inner",
     .wider = 4,
     .names = gpt2_names},
    {.type = "phi", .norm = layer, .act = gelu, .rest = phi},
    {.type = "cohere", .positions = 8192, .tied = true, .norm = no_bias, .rest = cohere},
    {.type = "cohere2", .positions = 8192, .tied = true, .norm = no_bias, .rest = cohere2},
    {.type = "falcon",
     .tied = true,
     .norm = layer,
     .act = gelu,
     .rest = falcon,
     .width = "ffn_hidden_size",
     .wider = 4,
     .names = {"num_hidden_layers n_layer", "hidden_size", "num_attention_heads n_head"}},
    {.type = "bloom",
     .tied = true,
     .norm = layer,
     .act = gelu,
     .rest = bloom,
     .wider = 4,
     .names = {"n_layer num_hidden_layers", "hidden_size n_embed", "n_head num_attention_heads",
               "seq_length"}},
    {.type = "mpt",
     .tied = true,
     .norm = no_bias,
     .act = gelu,
     .rest = mpt,
     .width = "",
     .wider = 4,
     .names = {"n_layers", "d_model", "n_heads", "max_seq_len"}},
    {.type = "olmo", .norm = model::Norm::layer_without_weights, .rest = attention_bias},
    {.type = "olmo2", .rest = olmo2},
};
// Mixtures of experts start with this network.
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

void check_activation(Keys& keys, Act act, const std::vector<std::string>& accepted) {
  static const std::vector<std::string> words[] = {
      {"silu", "swish"},
      {"gelu", "gelu_pytorch_tanh"},
      {"gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "relu", "relu2"}};
  for (const char* key : {"hidden_act", "activation_function", "hidden_activation"})
    keys.choice(key, accepted.empty() ? words[static_cast<std::size_t>(act)] : accepted);
}

std::int64_t or_required(Keys& keys, std::string_view key, std::int64_t otherwise,
                         std::int64_t most, std::string_view example) {
  return otherwise > 0 ? keys.optional(key, otherwise, most) : keys.required(key, most, example);
}

// `activations`: accepted names of the activation; none: those of the kind of MLP.
Architecture base(Keys& keys, const Dense& row, const std::vector<std::string>& activations = {}) {
  Architecture a;
  keys.misspelt(base_keys);
  a.layers = keys.required(keys.first_of(row.names.layers), max_layers, "32");
  a.hidden = keys.required(keys.first_of(row.names.hidden), max_hidden, "4096");
  a.ffn = row.wider == 0 ? keys.required(keys.first_of(row.width), max_width, "14336")
          : row.width.empty()
              ? a.hidden * keys.optional("expansion_ratio", row.wider, max_heads)
              : keys.optional(keys.first_of(row.width), row.wider * a.hidden, max_width);
  a.heads = or_required(keys, keys.first_of(row.names.heads), row.heads, max_heads, "32");
  a.vocab = or_required(keys, "vocab_size", row.vocab, max_width, "128256");
  a.kv_heads = keys.optional(keys.first_of("num_key_value_heads num_kv_heads"),
                             row.kv_heads > 0 ? row.kv_heads : a.heads, max_heads);
  a.head_dim = keys.optional("head_dim", row.head_dim, max_heads);
  a.max_positions = keys.optional(keys.first_of(row.names.positions), row.positions, max_positions);
  a.norm = row.norm;
  a.position = model::Position::rope;
  a.activation = row.act == Act::gelu ? Activation::gelu : Activation::swiglu;
  check_activation(keys, row.act, activations);
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

std::pair<std::string_view, std::string_view> heads_and_hidden(Keys& keys, std::string_view type) {
  const Dense* row = row_of(type);
  const Names names = type == "gpt2" ? gpt2_names : row ? row->names : Names{};
  return {keys.first_of(names.heads), keys.first_of(names.hidden)};
}

Architecture read_common_layers(Keys& keys, const LayerKeys& names) {
  Dense row = mixture;
  row.names = {names.layers, names.hidden, names.heads, names.positions};
  row.width = names.width;
  row.wider = names.wider;
  row.act = names.two_products ? Act::gelu : Act::silu;
  return base(keys, row, names.activations);
}

Architecture read_layers(Keys& keys, std::string_view type) {
  const Dense* row = row_of(type);
  Architecture a = base(keys, row ? *row : mixture);
  if (row && row->rest) row->rest(keys, a);
  if (!row && type == "mixtral") windowed(keys, a);
  if (!row && keys.boolean("use_sliding_window", false)) windowed(keys, a);
  return a;
}

}  // namespace sim::input
