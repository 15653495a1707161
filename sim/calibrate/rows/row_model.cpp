// row_model.cpp — the network of a row, from its architecture columns. Parts that no column states:
// of a row with experts, from the model file of the same name; else those of the `model_type` that
// the model's name says (models/names.textproto); else a gated MLP (glu = 1) means a decoder like
// Llama, and another MLP a decoder like GPT. A row without any of these columns is the model that
// it names.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "sim/base/ascii.h"
#include "sim/calibrate/rows/row_reading.h"
#include "sim/input/models/family.h"
#include "sim/input/models/huggingface.h"
#include "sim/input/models/names.h"
#include "sim/input/text/locate.h"
#include "sim/model/words.h"

namespace sim::calibrate {

namespace {

constexpr std::int64_t dimension_max = 1 << 20;

// Letters and digits in lower case: "Qwen3_235B_a22B" and "qwen3-235b-a22b" become equal.
std::string letters_of(std::string_view name) {
  std::string text;
  for (const char c : name) {
    const char small = lower(c);
    if ((small >= '0' && small <= '9') || (small >= 'a' && small <= 'z')) text += small;
  }
  return text;
}

// The model file with experts that a name contains; the longest one. "" if there is none.
std::string model_in(std::string_view name) {
  static const std::map<std::string, std::string> all = [] {
    std::map<std::string, std::string> found;
    for (const std::string& file : input::names(input::Kind::model)) {
      const Result<std::string> path = input::locate(input::Kind::model, file, "");
      const auto network = path ? input::load_huggingface(*path) : path.errors();
      if (network && network->is_mixture()) found.emplace(letters_of(file), file);
    }
    return found;
  }();
  const std::string text = letters_of(name);
  std::string best;
  std::size_t length = 0;
  for (const auto& [letters, file] : all) {
    if (letters.size() <= length || text.find(letters) == std::string::npos) continue;
    best = file;
    length = letters.size();
  }
  return best;
}

// The pattern of a network cut to fewer layers: it keeps the dense layers at the start.
std::string shortened(const model::Architecture& whole, std::int64_t layers) {
  const std::vector<std::uint8_t> all = model::mixture_layers(whole);
  std::string text = "(";
  for (std::int64_t i = 0; i < layers; ++i)
    text += fmt::format("{}[{}]", i == 0 ? "" : "+", all[static_cast<std::size_t>(i) % all.size()]);
  return text + ")";
}

// A decoder like GPT [NVIDIA/Megatron-LM megatron/training/arguments.py: the defaults].
void gpt(Reading& reading) {
  reading.defaults = {"architecture.norm=layer",
                      "architecture.position=learned",
                      "architecture.activation=gelu",
                      "architecture.tied_embeddings=true",
                      "architecture.linear_bias=true",
                      "architecture.qkv_bias=true",
                      "architecture.attention_dropout=0.1",
                      "architecture.hidden_dropout=0.1"};
}

// The parts of a network that no column of a table states, as weak settings of the plan.
void parts_of(Reading& reading, const model::Architecture& a) {
  const auto part = [&](std::string_view field, const auto& value) {
    reading.defaults.push_back(fmt::format("architecture.{}={}", field, value));
  };
  const auto word = [&](std::string_view field, auto value) { part(field, model::word(value)); };
  word("norm", a.norm);
  word("position", a.position);
  word("activation", a.activation);
  part("tied_embeddings", a.tied_embeddings);
  part("qkv_bias", a.qkv_bias);
  part("linear_bias", a.linear_bias);
  part("projection_bias", a.projection_bias);
  part("mlp_bias", a.mlp_bias);
  part("attention_dropout", a.attention_dropout);
  part("hidden_dropout", a.hidden_dropout);
  part("query_key_norm", a.query_key_norm);
  part("norms_by_head", a.norms_by_head);
  part("output_norms", a.output_norms);
  word("input_norms", a.input_norms);
  part("embedding_norm", a.embedding_norm);
  part("head_bias", a.head_bias);
  if (a.sliding_window > 0) part("sliding_window", a.sliding_window);
  if (a.whole_attention > 0) part("whole_attention", a.whole_attention);
}

// The network that the model's name says. False if the name says none, or one with another MLP than
// the row's column.
bool named_network(Reading& reading, bool gated) {
  const std::string type = input::model_type_called(cell(reading.row, "model"));
  if (type.empty()) return false;
  if (const std::string why = input::family_refusal(type); !why.empty()) {
    reading.refuse(why);
    return false;
  }
  const auto size = [&](const char* column) {
    return leading_number(cell(reading.row, column)).value_or(0);
  };
  const auto network = input::network_like(type, {.layers = size("layers"),
                                                  .hidden = size("hidden"),
                                                  .ffn = size("ffn"),
                                                  .heads = size("heads"),
                                                  .kv_heads = size("kv_heads"),
                                                  .vocab = size("vocab")});
  if (!network) return false;
  if ((network->activation == model::Activation::swiglu) != gated) return false;
  parts_of(reading, *network);
  return true;
}

// Experts without a model file: all layers have them, as wide as the MLP.
void experts(Reading& reading) {
  const auto count = leading_number(cell(reading.row, "experts"));
  const auto top_k = leading_number(cell(reading.row, "topk"));
  if (!count || !top_k || *count < 1 || *count > 16384 || *top_k < 1 || *top_k > *count)
    return reading.refuse("not published: experts, topk");
  reading.say("architecture.num_experts", *count);
  reading.say("architecture.experts_per_token", *top_k);
}

// The network of a model file, and the values of the columns that differ from it.
void known_mixture(Reading& reading, const std::string& file) {
  const Row& row = reading.row;
  reading.say("model", file);
  const auto whole = input::load_huggingface(*input::locate(input::Kind::model, file, ""));
  const auto differs = [&](const char* field, const char* column, std::int64_t there) {
    const auto stated = leading_number(cell(row, column));
    if (stated && *stated > 0 && *stated != there)
      reading.say(fmt::format("architecture.{}", field), *stated);
  };
  differs("num_experts", "experts", whole->experts.count);
  differs("experts_per_token", "topk", whole->experts.top_k);
  const std::int64_t layers = leading_number(cell(row, "layers")).value_or(whole->layers);
  if (layers != whole->layers && layers > 0 && layers < 4096 && whole->experts.layers != "1")
    reading.say("architecture.expert_layers", shortened(*whole, layers));
  // Layers of Megatron-LM have two norms. Its head is separate from the embedding.
  if (whole->output_norms) reading.say("architecture.output_norms", false);
  if (whole->tied_embeddings) reading.say("architecture.tied_embeddings", false);
  if (whole->predicted_tokens > 0) reading.defaults.emplace_back("mtp_layers=0");
}

// Whether the row leaves its network to the model file that it names: a name of models/, or the
// path of a config.json.
bool is_named_model(const Row& row, const std::string& name) {
  for (const char* column : {"layers", "hidden", "heads", "ffn", "kv_heads", "experts", "vocab"})
    if (!cell(row, column).empty()) return false;
  return !name.empty() && input::locate(input::Kind::model, name, "");
}

}  // namespace

bool Reading::is_mixture() const {
  const std::string& stated = cell(row, "experts");
  return !stated.empty() && stated != "0" && stated != "1";
}

void read_network(Reading& reading) {
  const Row& row = reading.row;
  if (const std::string& network = cell(row, "network"); !network.empty() && network != "decoder")
    return reading.refuse(fmt::format("{} is not represented", network));
  const bool gated = cell(row, "glu") == "1";
  std::string missing;
  const auto dimension = [&](const char* field, const char* column) {
    const std::int64_t value = leading_number(cell(row, column)).value_or(0);
    if (value < 1 || value > dimension_max)
      missing += (missing.empty() ? "" : ", ") + std::string(column);
    reading.say(field, value);
    return value;
  };
  if (const std::string& name = cell(row, "model"); is_named_model(row, name)) {
    reading.say("model", name);
    dimension("sequence", "seq");
    if (!missing.empty()) reading.refuse("not published: " + missing);
    return;
  }
  const std::string file = reading.is_mixture() ? model_in(cell(row, "model")) : "";
  if (!file.empty()) known_mixture(reading, file);
  if (!cell(row, "model").empty()) reading.say("architecture.name", cell(row, "model"));
  dimension("architecture.layers", "layers");
  dimension("sequence", "seq");
  if (file.empty()) {
    dimension("architecture.hidden", "hidden");
    dimension("architecture.heads", "heads");
    if (!cell(row, "ffn").empty() || gated) {
      dimension("architecture.ffn", "ffn");
    } else {
      reading.assume("architecture.ffn", "ffn 4 x hidden");
    }
    if (const auto kv_heads = leading_number(cell(row, "kv_heads")); kv_heads && *kv_heads > 0)
      reading.say("architecture.kv_heads", *kv_heads);
    if (!named_network(reading, gated) && !gated) gpt(reading);
    if (reading.is_mixture()) experts(reading);
  }
  if (!missing.empty()) return reading.refuse("not published: " + missing);
  const auto vocab = leading_number(cell(row, "vocab"));
  if (vocab && *vocab > 0) reading.say("architecture.vocab", *vocab);
}

}  // namespace sim::calibrate
