// row_settings.cpp — precision, sharding, recomputation and launch settings of a row, in the words
// of its columns.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <regex>

#include "sim/calibrate/rows/row_reading.h"
#include "sim/input/fields/cluster_fields.h"
#include "sim/input/fields/fields.h"
#include "sim/input/resolve/dependent_settings.h"
#include "sim/input/text/csv_rows.h"

namespace sim::calibrate {

namespace {

bool starts(const std::string& text, std::initializer_list<const char*> words) {
  return std::ranges::any_of(words, [&](const char* word) { return starts_with(text, word); });
}

// The scales of fp8 products, as tables name them.
struct Scales {
  const char* word;
  const char* recipe;  // of `fp8_recipe`; "": the kind that `as` stands for is simulated
};
constexpr std::array scales{Scales{"tensorwise", "tensorwise"}, Scales{"fp8-cs", "tensorwise"},
                            Scales{"current", "tensorwise"},    Scales{"delayed", "delayed"},
                            Scales{"mxfp8", "mxfp8"},           Scales{"nvfp4", "nvfp4"}};

void read_fp8(Reading& reading, const std::string& text) {
  reading.say("fp8", true);
  for (const auto& [word, recipe] : scales)
    if (contains(text, word)) return reading.say("fp8_recipe", recipe);
  if (!contains(text, "(") && !contains(text, "block")) return;
  reading.assume("precision", text + " as fp8 with the framework's scaling");
}

// Modules of selective recomputation, by Megatron-LM's names and the words of tables.
struct Recomputed {
  const char* word;
  const char* module;  // of `recompute_modules`
  bool of_experts;     // dense layers have none
};
constexpr std::array modules{Recomputed{"core_attn", "core_attn", false},
                             Recomputed{"core attn", "core_attn", false},
                             Recomputed{"attention", "core_attn", false},
                             Recomputed{"op-level", "operators", false},
                             Recomputed{"layernorm", "layernorm", true},
                             Recomputed{"mla_up_proj", "mla_up_proj", true},
                             Recomputed{"moe_act", "moe_act", true},
                             Recomputed{"shared_experts", "shared_experts", true},
                             Recomputed{"mlp", "mlp", false},
                             Recomputed{"moe", "moe", true}};

bool word_in(const std::string& text, std::string_view word) {
  const auto part = [](char c) { return c == '_' || (lower(c) >= 'a' && lower(c) <= 'z'); };
  for (std::size_t at = 0; at + word.size() <= text.size(); ++at) {
    const std::size_t end = at + word.size();
    if (starts_with(std::string_view(text).substr(at), word) && (at == 0 || !part(text[at - 1])) &&
        (end == text.size() || !part(text[end])))
      return true;
  }
  return false;
}

void read_modules(Reading& reading, const std::string& text) {
  if (layer_interval(text) > 1) return;  // read_schedule: by layer
  std::vector<std::string> named;
  bool any = false;
  for (const auto& [word, module, of_experts] : modules) {
    if (!word_in(text, word)) continue;
    any = true;
    if (of_experts && !reading.is_mixture()) {
      reading.assume("recompute", fmt::format("{} is not recomputed", word));
    } else if (std::ranges::count(named, module) == 0) {
      named.emplace_back(module);
    }
  }
  if (any && named.empty()) return;
  reading.say("recompute", "selective");
  if (any) reading.say("recompute_modules", fmt::format("{}", fmt::join(named, ",")));
}

// "full, 1 layer": the first layers of each chunk are recomputed.
void read_full(Reading& reading, const std::string& text) {
  static const std::regex some(R"(^full,? \(?(\d{1,3}) layers?)", std::regex::icase);
  std::smatch found;
  reading.say("recompute", "full");
  if (!std::regex_search(text, found, some)) return;
  reading.say("recompute_method", "block");
  reading.say("recompute_layers", found[1].str());
}

// Settings of Megatron-LM's flags that the table of fields does not have as single flags.
struct Flag {
  const char* flag;
  const char* value;  // "": any
  const char* setting;
};
constexpr std::array other_flags{
    Flag{"disable-bias-linear", "true", "architecture.linear_bias=false"},
    Flag{"disable-bias-linear", "true", "architecture.qkv_bias=false"},
    Flag{"position-embedding-type", "rope", "architecture.position=rope"},
    Flag{"qk-layernorm", "true", "architecture.query_key_norm=true"},
    Flag{"moe-router-dtype", "fp32", "fp32_router=true"},
    Flag{"main-grads-dtype", "bf16", "fp32_gradients=false"},
    Flag{"main-grads-dtype", "fp32", "fp32_gradients=true"},
    Flag{"grad-sync-dtype", "bf16", "fp32_gradients=false"},
    Flag{"cross-entropy-loss-fusion", "true", "cross_entropy=native"},
    Flag{"cross-entropy-fusion-impl", "te", "cross_entropy=te"},
    Flag{"expandable-segments", "true", "allocator_options=expandable_segments:True"},
    Flag{"vocab-size", "", "architecture.vocab="},
    Flag{"compile", "true", "layer_kernels=compiled"}};

// Words of torchtitan's tables for what a run switched on: "FSDP2 + compile + AsyncTP".
struct Technique {
  const char* word;
  const char* setting;
};
constexpr std::array techniques{
    Technique{"compile", "layer_kernels=compiled"}, Technique{"async tp", "tp_comm_overlap=true"},
    Technique{"asynctp", "tp_comm_overlap=true"}, Technique{"vanilla tp", "tp_comm_overlap=false"}};

bool is_on(const std::string& text) {
  return text == "1" || text == "true";
}

bool is_off(const std::string& text) {
  return text == "0" || text == "false";
}

// An environment variable, by its name: "TP_COMM_OVERLAP".
bool is_variable(std::string_view key) {
  return std::ranges::none_of(key, [](char c) { return c >= 'a' && c <= 'z'; });
}

// Adds a setting unless a column states the field, or the field refuses the value.
void add_flag(Reading& reading, const std::string& setting) {
  const std::string field = setting.substr(0, setting.find('='));
  if (reading.says(field) && field != "architecture.vocab") return;
  if (!input::setting_problem(field).empty()) return;
  // Megatron-LM ignores flags of experts and of latent attention in other models.
  if (input::feature_of(field) == input::Feature::experts && !reading.is_mixture()) return;
  rehearse::v1::Plan scratch;
  input::Source source("");
  const input::Setting one{setting, ""};
  if (input::apply(std::span(&one, 1), scratch, source).empty())
    reading.settings.push_back(setting);
}

bool has_latent_attention(const nlohmann::json& extra) {
  const auto found = extra.find("multi-latent-attention");
  return found != extra.end() && is_on(value_text(*found));
}

void latent(Reading& reading, const nlohmann::json& extra) {
  const auto number = [&](const char* key, std::int64_t otherwise) {
    const auto found = extra.find(key);
    return found != extra.end() && found->is_number_integer() ? found->get<std::int64_t>()
                                                              : otherwise;
  };
  if (!has_latent_attention(extra)) return;
  // [NVIDIA/Megatron-LM megatron/core/transformer/transformer_config.py:MLATransformerConfig;
  // training/arguments.py: --kv-lora-rank 32]
  add_flag(reading, fmt::format("architecture.kv_lora_rank={}", number("kv-lora-rank", 32)));
  for (const auto& [key, field] :
       {std::pair{"q-lora-rank", "q_lora_rank"}, std::pair{"qk-head-dim", "qk_head_dim"},
        std::pair{"qk-pos-emb-head-dim", "qk_pos_emb_head_dim"},
        std::pair{"v-head-dim", "v_head_dim"}})
    if (const std::int64_t value = number(key, 0); value > 0)
      add_flag(reading, fmt::format("architecture.{}={}", field, value));
}

}  // namespace

std::string Reading::said(std::string_view field) const {
  std::string value;
  for (const std::string& setting : settings)
    if (setting.size() > field.size() && setting[field.size()] == '=' && setting.starts_with(field))
      value = setting.substr(field.size() + 1);
  return value;
}

void read_precision(Reading& reading) {
  const std::string& text = cell(reading.row, "precision");
  const bool fp8 = contains(text, "fp8") || contains(text, "nvfp4");
  for (const char* other : {"rowwise", "mxfp4", "int8"})
    if (contains(text, other))
      return reading.refuse(fmt::format("precision '{}' is not represented", text));
  if (!fp8 && starts(text, {"fp32", "tf32"})) {
    reading.say("precision", "fp32");
    reading.say("tf32", contains(text, "tf32"));
    return;
  }
  reading.say("precision", !fp8 && starts_with(text, "fp16") ? "fp16" : "bf16");
  if (fp8) read_fp8(reading, text);
  if (!fp8 && !starts_with(text, "fp16") && !contains(text, "bf16"))
    reading.assume("precision", "bf16");
  if (contains(text, "fp32 grad")) reading.say("fp32_gradients", true);
  if (contains(text, "pure")) reading.say("fp32_gradients", false);
}

void read_sharding(Reading& reading) {
  const std::string& text = cell(reading.row, "zero");
  constexpr std::string_view size = "zero1 size=";
  if (text.empty()) return;
  if (starts(text, {"0", "ZeRO-0", "none", "no_shard"})) {
    reading.say("distributed_optimizer", false);
  } else if (starts(text, {"3", "zero3", "ZeRO-3"})) {
    reading.say("zero", 3);
  } else if (starts(text, {"2", "zero2", "ZeRO-2"})) {
    reading.say("zero", 2);
  } else if (starts(text, {"1", "zero1", "ZeRO-1", "DistributedOptimizer"})) {
    reading.say("distributed_optimizer", true);
  } else if (starts(text, {"FULL_SHARD", "SHARD_GRAD_OP"})) {
    reading.say("data_parallel", "fsdp1");
    reading.say("fsdp.reshard_after_forward", starts_with(text, "FULL_SHARD"));
  } else if (starts(text, {"FSDP2", "Megatron-FSDP"})) {
    reading.say("data_parallel", "fsdp2");
  } else if (starts(text, {"HYBRID_SHARD", "hsdp"})) {
    reading.say("data_parallel", starts_with(text, "hsdp") ? "fsdp2" : "fsdp1");
    reading.say("fsdp.reshard_after_forward", true);
    const int per_node = std::max(degree(reading.row, "gpus_per_node"), 1);
    reading.say("fsdp.replicas", std::max(degree(reading.row, "n_gpus") / per_node, 1));
  } else if (starts(text, {"fsdp"})) {
    reading.say("data_parallel", "fsdp1");
  } else {
    reading.refuse(fmt::format("sharding '{}' is not represented", text));
  }
  // "bf16 (pure, ...)": the model itself is of that type. Composer's PURE names the types of
  // communication alone.
  if (reading.said("data_parallel").starts_with("fsdp") &&
      contains(cell(reading.row, "precision"), "(pure"))
    reading.say("fsdp.low_precision_parameters", true);
  // InternEvo's "zero1 size=8": groups of 8 ranks shard the optimizer state; -1: all ranks.
  if (!text.starts_with(size)) return;
  const std::int64_t ranks = leading_number(text.substr(size.size())).value_or(0);
  const std::int64_t all = std::int64_t{degree(reading.row, "n_gpus")} /
                           (std::int64_t{std::max(degree(reading.row, "tp"), 1)} *
                            std::max(degree(reading.row, "pp"), 1));
  if (ranks > 0 && all % ranks == 0) reading.say("optimizer_replicas", all / ranks);
}

void read_recomputation(Reading& reading) {
  const std::string& text = cell(reading.row, "recompute");
  if (starts_with(text, "full")) {
    read_full(reading, text);
  } else if (starts_with(text, "selective")) {
    read_modules(reading, text);
  } else if (!starts_with(text, "none") || contains(text, "?") || contains(text, "unstated")) {
    reading.assume("recompute", "no recomputation");
  } else {
    reading.say("recompute", "none");
  }
  const std::string& attention = cell(reading.row, "attention");
  if (starts_with(attention, "unfused")) reading.say("attention", "unfused");
  if (const std::string& sp = cell(reading.row, "sp"); !sp.empty())
    reading.say("sequence_parallel", sp == "1");
  const std::string& kind = cell(reading.row, "kind");
  if (starts_with(kind, "lora")) reading.say("adapters", true);
  if (starts_with(kind, "sft")) reading.say("finetuning", true);
}

void read_flags(Reading& reading) {
  const nlohmann::json all = extra(reading.row);
  const bool mla = has_latent_attention(all);
  for (const auto& [given, value] : all.items()) {
    std::string key = given;
    for (char& c : key) c = c == '_' ? '-' : lower(c);
    // The norms of latent attention are those of its latents, which every such model has.
    if (value.is_null() || value.is_object() || (mla && key == "qk-layernorm")) continue;
    const std::string text = value_text(value);
    for (const auto& [flag, on, setting] : other_flags) {
      if (key != flag) continue;
      if (*on == '\0') add_flag(reading, setting + text);
      if (text == on || (is_on(text) && is_on(on))) add_flag(reading, setting);
    }
    if (key == "technique")
      for (const auto& [word, means] : techniques)
        if (contains(text, word)) add_flag(reading, means);
    const std::string setting = input::megatron_setting(key);
    if (setting.ends_with('=')) {
      add_flag(reading, setting + text);
    } else if (!setting.empty()) {
      constexpr std::string_view on = "=true";
      if (is_on(text)) add_flag(reading, setting);
      // A variable of a launch is what it ran with. A launch script may override the keys of a
      // recipe's file.
      if (is_variable(given) && is_off(text) && setting.ends_with(on))
        add_flag(reading, setting.substr(0, setting.size() - on.size()) + "=false");
    } else if (const input::FieldName field = input::plan_field(given); field.problem.empty()) {
      add_flag(reading, fmt::format("{}={}", field.field, text));
    }
  }
  latent(reading, all);
}

void read_settings(Reading& reading) {
  std::string_view rest = cell(reading.row, "settings");
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(';'), rest.size());
    const std::string one = input::trimmed(std::string(rest.substr(0, end)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (one.empty()) continue;
    if (one.starts_with("pipeline_layout="))
      std::erase_if(reading.settings, [](const std::string& other) {
        return starts(
            other, {"first_stage_layers=", "last_stage_layers=", "account_for_", "layer_split="});
      });
    reading.settings.push_back(one);
  }
  // [NVIDIA/NeMo megatron_base_model.py: ub_tp_comm_overlap goes with sequence parallelism]
  const bool whole = reading.said("sequence_parallel") == "false" || reading.said("tp") == "1";
  if (!whole || reading.said("tp_comm_overlap") != "true") return;
  reading.say("tp_comm_overlap", false);
  reading.assume("tp_comm_overlap", "no overlap without sequence parallelism");
}

}  // namespace sim::calibrate
