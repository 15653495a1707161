#include "sim/input/models/huggingface.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/text.h"
#include "sim/input/models/family.h"
#include "sim/input/models/huggingface_keys.h"
#include "sim/input/text/parse_cache.h"
#include "sim/input/text/textproto.h"

namespace sim::input {
namespace {

using model::Architecture;

constexpr std::array gpt2_keys{"n_layer",
                               "n_embd",
                               "n_head",
                               "n_inner",
                               "n_positions",
                               "vocab_size",
                               "attn_pdrop",
                               "resid_pdrop",
                               "embd_pdrop",
                               "activation_function",
                               "tie_word_embeddings",
                               "model_type"};
constexpr std::array expert_keys{"num_local_experts", "num_experts", "n_routed_experts",
                                 "moe_num_experts"};

Architecture gpt2(Keys& keys) {
  Architecture a;
  keys.misspelt(gpt2_keys);
  a.layers = keys.required("n_layer", max_layers, "96");
  a.hidden = keys.required("n_embd", max_hidden, "12288");
  a.heads = keys.required("n_head", max_heads, "96");
  a.vocab = keys.required("vocab_size", max_width, "50257");
  a.max_positions = keys.required("n_positions", max_width, "2048");
  a.ffn = keys.optional("n_inner", 4 * a.hidden, max_width);
  a.kv_heads = a.heads;
  a.norm = model::Norm::layer;
  a.position = model::Position::learned;
  a.activation = model::Activation::gelu;
  keys.choice("activation_function",
              std::array<std::string, 4>{"gelu_new", "gelu", "gelu_fast", "gelu_pytorch_tanh"});
  a.tied_embeddings = keys.boolean("tie_word_embeddings", true);
  a.qkv_bias = true;
  a.linear_bias = true;
  a.attention_dropout = keys.probability("attn_pdrop", 0.1);
  a.hidden_dropout = keys.probability("resid_pdrop", 0.1);
  if (keys.probability("embd_pdrop", 0.1) != a.hidden_dropout)
    keys.problem(keys.given("embd_pdrop"),
                 "embd_pdrop differs from resid_pdrop; one dropout for both is modelled");
  return a;
}

// Rules between numbers that are valid by themselves.
void check_products(Keys& keys, Architecture& a, std::string_view type) {
  const bool is_data = std::ranges::count(family_types(true), type) > 0;
  const auto [heads, hidden] =
      is_data ? family_heads_and_hidden(keys, type) : heads_and_hidden(keys, type);
  const bool is_gpt2 = type == "gpt2";
  const bool has_head_dim = a.head_dim > 0 || (!is_gpt2 && keys.given("head_dim"));
  if (!has_head_dim && a.hidden > 0 && a.heads > 0) {
    if (a.hidden % a.heads != 0)
      keys.problem(
          keys.given(heads),
          fmt::format("{} ({}) does not divide {} ({}){}", heads, a.heads, hidden, a.hidden,
                      is_gpt2 ? "" : "; choose one that does, or give head_dim"));
    else
      a.head_dim = a.hidden / a.heads;
  }
  if (a.heads > 0 && a.kv_heads > 0 && a.heads % a.kv_heads != 0)
    keys.problem(keys.given("num_key_value_heads"),
                 fmt::format("num_key_value_heads ({}) does not divide num_attention_heads ({})",
                             a.kv_heads, a.heads));
  if (a.query_width() > max_width)
    keys.problem(keys.given("head_dim"), fmt::format("{} x head_dim is {}; it must be at most {}",
                                                     heads, a.query_width(), max_width));
}

std::vector<std::string> known_types() {
  std::vector<std::string> known{"gpt2"};
  for (const std::string_view type : dense_types()) known.emplace_back(type);
  for (const std::string_view type : mixture_types()) known.emplace_back(type);
  for (const std::string& type : family_types()) known.push_back(type);
  return known;
}

// The suggestion for a misspelt type. Types that differ in a whole word are other families:
// "seed_oss" is no misspelt "gpt_oss".
std::string like_type(std::string_view given, const std::vector<std::string>& known) {
  std::vector<std::string> near;
  for (const std::string& type : known) {
    const bool is_close = edit_distance(given, type) <= (given.size() < 8 ? 1 : 2);
    const bool same_start = !given.empty() && given.front() == type.front();
    if (is_close && same_start) near.push_back(type);
  }
  return near.empty() ? "" : fmt::format("; did you mean '{}'?", nearest(given, near));
}

// True if the model_type is supported; adds a problem otherwise.
bool check_type(Keys& keys, const JsonValue* type) {
  const std::vector<std::string> known = known_types();
  const std::string list = fmt::format("{}", fmt::join(known, ", "));
  if (!type) {
    keys.problem(nullptr, fmt::format("key \"model_type\" is missing; write one of {}", list));
    return false;
  }
  const std::string given = type->kind == JsonValue::Kind::text ? type->text.substr(0, 40) : "";
  const bool is_family = std::ranges::count(family_types(true), given) > 0;
  if (!is_family && std::ranges::count(known, given) == 0) {
    keys.problem(type, fmt::format("model_type {} is not supported{} ({})", keys.spelled(*type),
                                   like_type(given, known), list));
    return false;
  }
  // A type that is written for dense networks must not hide the experts of a file.
  if (is_family || std::ranges::count(mixture_types(), given) > 0) return true;
  for (const char* key : expert_keys)
    if (const JsonValue* value = keys.given(key);
        value && !(value->kind == JsonValue::Kind::integer && value->integer <= 1)) {
      keys.problem(value, fmt::format("{} says that this model is a mixture of experts, but {} is "
                                      "read as a dense network",
                                      key, given));
      return false;
    }
  return true;
}

// Checks the number of parameters, in a type that holds any product of the keys' limits.
double many_parameters(const Architecture& a) {
  const double experts = static_cast<double>(std::max<std::int64_t>(a.experts.count, 1));
  const double widest = static_cast<double>(std::max(a.ffn, a.experts.ffn));
  return static_cast<double>(a.layers) * experts * 3 * static_cast<double>(a.hidden) * widest;
}

std::string name_of(const std::string& path) {
  const std::filesystem::path file(path);
  if (file.filename() == "config.json" && file.has_parent_path())
    return file.parent_path().filename().string();
  return file.stem().string();
}

}  // namespace

Result<Architecture> parse_huggingface(const std::string& text, const std::string& name) {
  Diagnostics problems;
  std::optional<JsonObject> object = JsonObject::read(text, name, problems);
  if (!object) return problems;
  // Multimodal models: read the configuration of the text part.
  const JsonValue* inner = object->find("text_config");
  if (inner && inner->kind == JsonValue::Kind::object && !object->find("num_hidden_layers"))
    object = object->part(*inner);

  Keys keys(*object, problems);
  const JsonValue* type = keys.given("model_type");
  if (!check_type(keys, type)) return problems;

  const bool is_gpt2 = type->text == "gpt2";
  const bool is_data = std::ranges::count(family_types(true), type->text) > 0;
  Architecture a = is_gpt2   ? gpt2(keys)
                   : is_data ? read_family(keys, type->text)
                             : read_layers(keys, type->text);
  if (!is_gpt2 && !is_data) read_mixture(keys, type->text, a);
  a.name = name_of(name);
  if (!a.is_latent()) check_products(keys, a, type->text);
  if (problems.empty() && a.is_mixture() &&
      many_parameters(a) > static_cast<double>(max_parameters))
    keys.problem(nullptr, fmt::format("the model has {:.3g} parameters in its MLPs; at most {} are "
                                      "modelled",
                                      many_parameters(a), max_parameters));
  if (problems.empty() && model::parameters(a) > max_parameters)
    keys.problem(nullptr, fmt::format("the model has {} parameters; at most {} are modelled",
                                      model::parameters(a), max_parameters));
  if (!problems.empty()) return problems;
  return a;
}

Result<Architecture> load_huggingface(const std::string& path) {
  const Result<std::string> text = read_file(path, max_json_bytes);
  if (!text) return text.errors();
  static ParseCache<Architecture> kept;
  const std::string key = path + '\0' + *text;
  if (const auto model = kept.find(key)) return *model;
  const Result<Architecture> model = parse_huggingface(*text, path);
  if (model) kept.add(key, *model);
  return model;
}

}  // namespace sim::input
