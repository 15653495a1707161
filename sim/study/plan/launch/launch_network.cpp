#include "sim/study/plan/launch/launch_network.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/base/text.h"
#include "sim/input/text/locate.h"
#include "sim/input/text/textproto.h"

namespace sim::planner {

namespace {

// Megatron-LM's numbers of YaRN, which have no flags [core_v0.14.0 transformer_config.py:
// MLATransformerConfig].
bool is_usual_yarn(const nlohmann::json& scaling) {
  return scaling.value("original_max_position_embeddings", 4096.0) == 4096 &&
         scaling.value("beta_fast", 32.0) == 32 && scaling.value("beta_slow", 1.0) == 1;
}

// The scaling of rotary positions: Llama 3's has flags, and YaRN with latent attention.
void add_scaling(const nlohmann::json& scaling, bool is_latent, NetworkFlags& to) {
  const char* key = scaling.contains("rope_type") ? "rope_type" : "type";
  const auto kind = scaling.find(key);
  if (kind == scaling.end() || !kind->is_string()) return;
  const auto factor = scaling.find("factor");
  if (*kind == "llama3" && factor != scaling.end() && factor->is_number()) {
    to.flags.emplace_back("--use-rope-scaling");
    to.flags.push_back(fmt::format("--rope-scaling-factor {}", factor->get<double>()));
  } else if (*kind == "yarn" && is_latent && factor != scaling.end() && factor->is_number() &&
             is_usual_yarn(scaling)) {
    to.flags.emplace_back("--rope-type yarn");
    to.flags.push_back(fmt::format("--rotary-scaling-factor {}", factor->get<double>()));
    to.flags.push_back(fmt::format("--mscale {}", scaling.value("mscale", 1.0)));
    to.flags.push_back(fmt::format("--mscale-all-dim {}", scaling.value("mscale_all_dim", 0.0)));
  } else {
    to.left = fmt::format("rotary positions scaled by {}", kind->get<std::string>());
  }
}

// The model's file; no object: it has none.
nlohmann::json file_of(const std::string& model) {
  const Result<std::string> path = input::locate(input::Kind::model, model);
  const Result<std::string> text = path ? input::read_file(*path) : path;
  return nlohmann::json::parse(text ? *text : "", nullptr, false);
}

// Numbers of the model's file.
void add_numbers(const std::string& model, bool is_latent, NetworkFlags& to) {
  const nlohmann::json file = file_of(model);
  if (!file.is_object()) return;
  if (const auto base = file.find("rope_theta"); base != file.end() && base->is_number())
    to.flags.push_back(fmt::format("--rotary-base {:.0f}", base->get<double>()));
  if (const auto scaling = file.find("rope_scaling"); scaling != file.end() && scaling->is_object())
    add_scaling(*scaling, is_latent, to);
  else if (is_latent)
    to.flags.emplace_back("--rope-type rope");
  for (const char* key : {"rms_norm_eps", "layer_norm_epsilon"})
    if (const auto least = file.find(key); least != file.end() && least->is_number())
      to.flags.push_back(fmt::format("--norm-epsilon {}", least->get<double>()));
}

// Experts, latent attention, windows and norms of heads.
void add_parts(const model::Architecture& a, std::vector<std::string>& flags) {
  if (a.is_mixture()) {
    flags.push_back(fmt::format("--num-experts {}", a.experts.count));
    if (!a.experts.auxiliary_loss) flags.emplace_back("--moe-router-load-balancing-type none");
  }
  if (a.is_latent()) {
    flags.emplace_back("--multi-latent-attention");
    flags.push_back(fmt::format("--kv-lora-rank {}", a.latent.kv_rank));
  }
  if (a.query_key_norm || a.is_latent()) flags.emplace_back("--qk-layernorm");
  if (a.sliding_window > 0) {
    flags.push_back(fmt::format("--window-size {},0", a.sliding_window - 1));
    if (a.whole_attention > 0)
      flags.push_back(fmt::format("--window-attn-skip-freq {}", a.whole_attention));
  }
}

}  // namespace

NetworkFlags network_flags(const model::Architecture& network, const std::string& model) {
  const model::Architecture& a = network;
  NetworkFlags all;
  std::vector<std::string>& flags = all.flags;
  if (a.kv_heads != a.heads && !a.is_latent()) {
    flags.emplace_back("--group-query-attention");
    flags.push_back(fmt::format("--num-query-groups {}", a.kv_heads));
  }
  flags.push_back(
      fmt::format("--normalization {}", a.norm == model::Norm::rms ? "RMSNorm" : "LayerNorm"));
  flags.push_back(fmt::format("--position-embedding-type {}",
                              a.position == model::Position::rope      ? "rope"
                              : a.position == model::Position::learned ? "learned_absolute"
                                                                       : "none"));
  if (a.activation == model::Activation::swiglu) flags.emplace_back("--swiglu");
  if (!a.linear_bias) flags.emplace_back("--disable-bias-linear");
  add_parts(a, flags);
  // The null tokenizer adds an end-of-document token to them.
  flags.push_back(fmt::format("--vocab-size {}", a.vocab - 1));
  flags.emplace_back("--tokenizer-type NullTokenizer");
  add_numbers(model, a.is_latent(), all);
  return all;
}

std::string beyond_torchtitan_llama(const model::Architecture& a) {
  using model::InputNorms;
  const std::array<std::pair<bool, const char*>, 13> has = {
      std::pair{a.is_mixture(), "experts"},
      std::pair{a.is_latent(), "latent attention"},
      std::pair{a.norm != model::Norm::rms, "norms other than RMSNorm"},
      std::pair{a.qkv_bias, "biases of queries, keys and values"},
      std::pair{a.linear_bias, "biases of products"},
      std::pair{a.activation != model::Activation::swiglu, "an activation other than SwiGLU"},
      std::pair{a.position != model::Position::rope, "positions other than rotary ones"},
      std::pair{a.sliding_window != 0, "a sliding window"},
      std::pair{a.query_key_norm, "norms of queries and keys"},
      std::pair{a.tied_embeddings, "a head tied to the embedding"},
      std::pair{a.head_dim * a.heads != a.hidden, "heads wider or narrower than hidden / heads"},
      std::pair{a.predicted_tokens != 0, "multi-token prediction"},
      std::pair{a.input_norms != InputNorms::each || a.output_norms || a.embedding_norm,
                "norms in other places"}};
  std::vector<std::string> all;
  for (const auto& [there, what] : has)
    if (there) all.emplace_back(what);
  return listed(all, "and");
}

std::string torchtitan_flavor(const model::Architecture& a, const std::string& model) {
  const nlohmann::json file = file_of(model);
  const auto number = [&](const char* key) -> std::string {
    const auto found = file.is_object() ? file.find(key) : file.end();
    return file.is_object() && found != file.end() && found->is_number()
               ? fmt::format("{}", found->get<double>())
               : "";
  };
  double scaling = 1;  // no scaling of rotary positions
  if (file.is_object() && file.contains("rope_scaling") && file["rope_scaling"].is_object())
    scaling = file["rope_scaling"].value("factor", 1.0);
  std::string more =
      fmt::format("    rope_scaling_args=RoPEScalingArgs(scaling_factor={:.1f}),\n", scaling);
  if (const std::string theta = number("rope_theta"); !theta.empty())
    more += fmt::format("    rope_theta={},\n", theta);
  if (const std::string least = number("rms_norm_eps"); !least.empty())
    more += fmt::format("    norm_eps={},\n", least);
  // The width of SwiGLU is int(8/3 dim) x ffn_dim_multiplier, up to the next multiple_of.
  const double multiplier =
      std::floor(1e4 * 3 * static_cast<double>(a.ffn) / (8 * static_cast<double>(a.hidden))) / 1e4;
  return fmt::format(
      "# the flavor of train.toml for torchtitan 0.2: its folder must be in PYTHONPATH\n"
      "from torchtitan.models.llama3 import TransformerModelArgs, llama3_args\n"
      "from torchtitan.models.llama3.model.args import RoPEScalingArgs\n\n"
      "# SwiGLU is {} wide: multiple_of rounds up to it\n"
      "llama3_args[\"custom\"] = TransformerModelArgs(\n    dim={},\n    n_layers={},\n    "
      "n_heads={},\n    n_kv_heads={},\n    vocab_size={},\n    multiple_of={},\n    "
      "ffn_dim_multiplier={},\n    max_seq_len={},\n{})\n",
      a.ffn, a.hidden, a.layers, a.heads, a.kv_heads, a.vocab, a.ffn, multiplier, a.max_positions,
      more);
}

}  // namespace sim::planner
