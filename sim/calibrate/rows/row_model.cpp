// row_model.cpp — the network of a row, from its architecture columns. A gated MLP means a decoder
// like Llama. Otherwise Megatron-LM's flags in `extra` and the framework decide.
#include <nlohmann/json.hpp>

#include "sim/calibrate/rows/row_reading.h"

namespace sim::calibrate {

namespace {

constexpr std::int64_t dimension_max = 1 << 20;

// Names the kind of a network that is not a plain decoder; "" for a decoder.
std::string other_kind(const Row& row) {
  const std::string& model = cell(row, "model");
  if (starts_with(model, "t5")) return "encoder and decoder (T5)";
  if (starts_with(model, "mimo") || contains(model, "vlm")) return "vision-language model";
  for (const char* hybrid : {"nemotron-h", "nemotron_h", "nemotron3", "mamba"}) {
    if (contains(model, hybrid)) return "hybrid with state-space layers";
  }
  return "";
}

void gated(Reading& reading) {
  reading.say("architecture.norm", "rms");
  reading.say("architecture.position", "rope");
  reading.say("architecture.activation", "swiglu");
  reading.say("architecture.qkv_bias", contains(cell(reading.row, "model"), "qwen"));
}

void plain(Reading& reading) {
  const auto position = reading.extra.find("position-embedding-type");
  if (position != reading.extra.end() && *position == "rope")
    reading.say("architecture.position", "rope");
  if (!flag(reading.extra, "disable-bias-linear")) return;
  reading.say("architecture.linear_bias", false);
  reading.say("architecture.qkv_bias", false);
}

}  // namespace

std::string read_architecture(Reading& reading) {
  const Row& row = reading.row;
  if (const std::string kind = other_kind(row); !kind.empty()) return kind + " is not represented";
  const bool glu = cell(row, "glu") == "1";
  std::string missing;
  const auto dimension = [&](const char* field, const char* column) {
    const std::int64_t value = leading_number(cell(row, column)).value_or(0);
    if (value < 1 || value > dimension_max)
      missing += (missing.empty() ? "" : ", ") + std::string(column);
    reading.say(field, value);
    return value;
  };
  dimension("architecture.layers", "layers");
  const std::int64_t hidden = dimension("architecture.hidden", "hidden");
  const std::int64_t heads = dimension("architecture.heads", "heads");
  dimension("sequence", "seq");
  if (cell(row, "ffn").empty() && !glu) {
    reading.assume("architecture.ffn", "ffn 4 x hidden");
  } else {
    dimension("architecture.ffn", "ffn");
  }
  if (!missing.empty()) return "not published: " + missing;
  if (const auto kv_heads = leading_number(cell(row, "kv_heads")))
    reading.say("architecture.kv_heads", *kv_heads);
  const auto stated = reading.extra.find("vocab-size");
  if (const auto vocab = leading_number(cell(row, "vocab")); vocab && *vocab > 0) {
    reading.say("architecture.vocab", *vocab);
  } else if (stated != reading.extra.end() && stated->is_number_integer()) {
    reading.say("architecture.vocab", stated->get<std::int64_t>());
    reading.assume("architecture.vocab", fmt::format("vocabulary {}", stated->get<std::int64_t>()));
  }
  const auto channels = reading.extra.find("kv-channels");
  if (channels != reading.extra.end() && channels->is_number_integer()) {
    reading.say("architecture.head_dim", channels->get<std::int64_t>());
  } else if (hidden % heads != 0) {
    return fmt::format("hidden {} is not a multiple of {} heads", hidden, heads);
  }
  if (glu) {
    gated(reading);
  } else {
    plain(reading);
  }
  return "";
}

}  // namespace sim::calibrate
