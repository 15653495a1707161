// megatron_model.cpp — translates the flags that describe the network.
//
// Defaults of Megatron-LM: a GPT with LayerNorm, learned positions, GELU, biases, tied embeddings
// and dropout 0.1.
#include <fmt/format.h>

#include <algorithm>

#include "sim/input/launch/megatron_translator.h"
#include "sim/input/tables/tokenizer.h"

namespace sim::input {
namespace {

bool is_rms(std::string_view name) {
  return name == "RMSNorm" || name == "rmsnorm" || name == "rms" || name == "RMS";
}

// Positions: rotary, learned or none. Accepts Megatron-DeepSpeed's names too.
void position(Translator& t, const Given& first) {
  const Given* type = t.find("position-embedding-type");
  std::string name = type ? type->value() : "learned_absolute";
  for (const char* rotary :
       {"use-rotary-position-embeddings", "use-llama2-rotary-position-embeddings",
        "use-mistral-rotary-position-embeddings"})
    if (t.has(rotary)) name = "rope";
  if (t.has("use-alibi-mask") || name == "ALiBi") name = "alibi";
  if (!type && name == "learned_absolute" && t.has("no-position-embedding")) name = "none";
  if (name == "rope" || name == "rotary" || name == "yarn" || name == "mrope") {
    t.set(first, "architecture.position=rope");
  } else if (name == "learned_absolute" || name == "absolute" || name == "learned") {
    t.set(first, "architecture.position=learned");
  } else if (name == "alibi" || name == "none") {
    t.set(first, "architecture.position=none");
    if (name == "alibi") t.say("ALiBi is not simulated: attention has no bias");
  } else {
    t.refuse(type->flag, fmt::format("--position-embedding-type {} is not simulated; write rope, "
                                     "learned_absolute, alibi or none",
                                     name.substr(0, 40)));
  }
}

// SwiGLU and other gated activations have two halves. All others cost as much as GELU.
void activation(Translator& t, const Given& first) {
  const Given* glu = t.find({"glu-activation", "quick-geglu"});
  if (t.has("swiglu")) return;
  t.set(first, fmt::format("architecture.activation={}", glu ? "swiglu" : "gelu"));
  if (glu && glu->value() != "swiglu") t.note(*glu, "its halves are multiplied as by SwiGLU");
  if (const Given* squared = t.find("squared-relu")) t.note(*squared, "it is simulated as GELU");
}

void feed_forward(Translator& t, const Given& first) {
  if (t.has("ffn-hidden-size") || !t.has("swiglu")) return;
  // The default MLP width is 2/3 of 4 x hidden, in multiples of 64.
  const std::int64_t hidden = t.number(t.find("hidden-size")).value_or(0);
  if (hidden > 0) t.set(first, fmt::format("architecture.ffn={}", 4 * hidden * 2 / 3 / 64 * 64));
}

void groups(Translator& t) {
  // [bigcode-project/Megatron-LM megatron/arguments.py: multihead or multiquery]
  if (const Given* kind = t.find("attention-head-type"); kind && kind->value() == "multiquery")
    return t.set(*kind, "architecture.kv_heads=1");
  const Given* count = t.find("num-query-groups");
  const bool asked = t.has("group-query-attention");
  if (!count) count = t.find({"num-key-value-heads", "num-attention-heads-kv", "n-head-kv"});
  // Megatron-LM reads the number of groups only with --group-query-attention.
  if (!count || (count == t.find("num-query-groups") && !asked)) return;
  t.set_value(*count, "architecture.kv_heads");
}

// Sets the vocabulary. Pads it here only for a divisor above Megatron-LM's default of 128.
void padding(Translator& t, const Given& first, std::int64_t tokens) {
  const auto divisor = t.number(t.find("make-vocab-size-divisible-by"));
  const auto tp = t.number(t.find("tensor-model-parallel-size")).value_or(1);
  if (divisor && *divisor > 128 && *divisor < 1 << 20) {
    const std::int64_t multiple = *divisor * tp;
    tokens = (tokens + multiple - 1) / multiple * multiple;
  } else if (divisor && *divisor < 128) {
    t.note(*t.find("make-vocab-size-divisible-by"),
           "the vocabulary is padded to a multiple of 128 x tp");
  }
  t.set(first, fmt::format("architecture.vocab={}", tokens));
}

void vocabulary(Translator& t, const Given& first) {
  if (const Given* padded = t.find({"padded-vocab-size", "pad-vocab-size-to"}))
    return t.set_value(*padded, "architecture.vocab");
  const std::string type = t.value("tokenizer-type");
  const std::int64_t extra = t.number(t.find({"extra-vocab-size", "vocab-extra-ids"})).value_or(0);
  if (const Given* size = t.find("vocab-size")) {
    const auto tokens = t.number(size);
    if (!tokens) return t.set_value(*size, "architecture.vocab");
    // The null tokenizer adds an end-of-document token.
    return padding(t, *size, *tokens + extra + (type == "NullTokenizer" ? 1 : 0));
  }
  std::string name = type;
  for (const char* flag : {"tokenizer-model", "tokenizer-name-or-path", "hf-tokenizer-path"})
    name += " " + t.value(flag);
  // Without a tokenizer type, a vocabulary file is GPT-2's.
  if (type.empty() && t.has("vocab-file")) name += " gpt2bpe";
  if (const auto tokens = vocabulary_of(name)) return padding(t, first, *tokens + extra);
  // LLaMA programs read their tokenizer from a folder of any name.
  if (t.launch().program.find("llama") != std::string::npos) {
    t.say(
        "the tokenizer is not named: LLaMA's 32,000 tokens are taken; vocab= says another number");
    return padding(t, first, *vocabulary_of("llama-2") + extra);
  }
  t.miss("architecture.vocab", first.flag,
         "the script does not say how many tokens its tokenizer knows; write vocab=, the number "
         "before padding");
}

}  // namespace

void describe_model(Translator& t) {
  const Given* first =
      t.find({"num-layers", "encoder-num-layers", "hidden-size", "num-attention-heads"});
  if (!first) return;
  const auto otherwise = [&](std::string_view flag, std::string text) {
    if (!t.has(flag)) t.set(*first, std::move(text));
  };
  if (const Given* untied = t.find("no-tie-embed-logits"))
    t.set(*untied, "architecture.tied_embeddings=false");
  else
    otherwise("untie-embeddings-and-output-weights", "architecture.tied_embeddings=true");
  otherwise("attention-dropout", "architecture.attention_dropout=0.1");
  otherwise("hidden-dropout", "architecture.hidden_dropout=0.1");
  const bool biases = !t.has("disable-bias-linear");
  t.set(*first, fmt::format("architecture.linear_bias={}", biases));
  if (biases) t.set(*first, "architecture.qkv_bias=true");
  const bool rms = is_rms(t.value("normalization")) || t.has("RMSNorm") || t.has("use-rms-norm");
  t.set(*first, fmt::format("architecture.norm={}", rms ? "rms" : "layer"));
  position(t, *first);
  activation(t, *first);
  feed_forward(t, *first);
  groups(t);
  vocabulary(t, *first);
}

}  // namespace sim::input
