// row_model.cpp — the network of a row, from its architecture columns: a Llama-like decoder where
// the MLP is gated, a GPT-like decoder where it is not, as Megatron-LM's flags in `extra` amend it.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/calibrate/row_text.h"

namespace sim::calibrate {

namespace {

constexpr std::int64_t gpt2_vocabulary = 50257;
constexpr std::int64_t dimension_max = 1 << 24;

double fraction(const nlohmann::json& extra, const char* key, double otherwise) {
  const auto found = extra.find(key);
  return found != extra.end() && found->is_number() ? found->get<double>() : otherwise;
}

// Networks that are no plain decoder.
std::string other_kind(const Row& row) {
  const std::string& model = cell(row, "model");
  if (starts_with(model, "t5")) return "encoder and decoder (T5)";
  if (starts_with(model, "mimo") || contains(model, "vlm")) return "vision-language model";
  for (const char* hybrid : {"nemotron-h", "nemotron_h", "nemotron3", "mamba"}) {
    if (contains(model, hybrid)) return "hybrid with state-space layers";
  }
  return "";
}

std::int64_t dimension(const Row& row, const char* column, std::string& missing) {
  const std::int64_t value = leading_number(cell(row, column)).value_or(0);
  if (value < 1 || value > dimension_max) {
    missing += fmt::format("{}{}", missing.empty() ? "" : ", ", column);
  }
  return value;
}

void gated(const Row& row, model::Architecture& a) {
  a.norm = model::Norm::rms;
  a.position = model::Position::rope;
  a.activation = model::Activation::swiglu;
  a.qkv_bias = contains(cell(row, "model"), "qwen");
}

void plain(const Row& row, const nlohmann::json& extra, RowPlan& out) {
  model::Architecture& a = out.plan.architecture;
  const std::string& group = cell(row, "source_group");
  // Nemotron-4: rotary positions, squared ReLU, untied, no biases, no dropout (arXiv 2402.16819).
  const bool nemotron = contains(cell(row, "model"), "nemotron");
  // MPT: tied, no biases, no dropout [llm-foundry train/benchmarking].
  const bool mpt = starts_with(cell(row, "model"), "mpt");
  const auto position = extra.find("position-embedding-type");
  const bool rope = nemotron || (position != extra.end() && *position == "rope");
  a.norm = model::Norm::layer;
  a.position = rope ? model::Position::rope : model::Position::learned;
  a.activation = model::Activation::gelu;
  a.tied_embeddings = !nemotron && !flag(extra, "untie-embeddings-and-output-weights");
  a.linear_bias = !nemotron && !mpt && !flag(extra, "disable-bias-linear");
  a.qkv_bias = a.linear_bias;
  // Megatron-LM drops out 0.1 unless told otherwise; BLOOM, NVIDIA's benchmark recipes and MLPerf
  // tell it otherwise.
  const bool drops = !nemotron && !mpt && !starts_with(group, "bloom") &&
                     !starts_with(group, "dgxc") && !starts_with(group, "mlperf");
  a.attention_dropout = drops ? 0.1 : 0.0;
  a.hidden_dropout = a.attention_dropout;
  if (flag(extra, "alibi")) out.assumptions.emplace_back("ALiBi as learned positions");
  if (flag(extra, "squared-relu") || nemotron) {
    out.assumptions.emplace_back("squared ReLU as GELU");
  }
}

}  // namespace

std::string read_architecture(const Row& row, const nlohmann::json& extra, RowPlan& out) {
  if (const std::string kind = other_kind(row); !kind.empty()) return kind + " is not represented";
  model::Architecture& a = out.plan.architecture;
  const bool glu = cell(row, "glu") == "1";
  std::string missing;
  a.name = cell(row, "model");
  a.layers = dimension(row, "layers", missing);
  a.hidden = dimension(row, "hidden", missing);
  a.heads = dimension(row, "heads", missing);
  out.plan.batch.sequence = dimension(row, "seq", missing);
  if (cell(row, "ffn").empty() && !glu) {
    a.ffn = 4 * a.hidden;
    out.assumptions.emplace_back("ffn 4 x hidden");
  } else {
    a.ffn = dimension(row, "ffn", missing);
  }
  if (!missing.empty()) return "not published: " + missing;
  a.kv_heads = leading_number(cell(row, "kv_heads")).value_or(a.heads);
  a.vocab = leading_number(cell(row, "vocab")).value_or(0);
  if (a.vocab < 1) {
    const auto stated = extra.find("vocab-size");
    a.vocab = stated != extra.end() && stated->is_number_integer() ? stated->get<std::int64_t>()
                                                                   : gpt2_vocabulary;
    out.assumptions.push_back(fmt::format("vocabulary {}", a.vocab));
  }
  const auto channels = extra.find("kv-channels");
  const bool stated = channels != extra.end() && channels->is_number_integer();
  if (!stated && a.hidden % a.heads != 0) {
    return fmt::format("hidden {} is not a multiple of {} heads", a.hidden, a.heads);
  }
  a.head_dim = stated ? channels->get<std::int64_t>() : a.hidden / a.heads;
  a.max_positions = out.plan.batch.sequence;
  if (glu) {
    gated(row, a);
  } else {
    plain(row, extra, out);
  }
  a.attention_dropout = fraction(extra, "attention-dropout", a.attention_dropout);
  a.hidden_dropout = fraction(extra, "hidden-dropout", a.hidden_dropout);
  return read_experts(row, extra, out);
}

}  // namespace sim::calibrate
