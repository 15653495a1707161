#include "sim/input/launch/megatron.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>

#include "sim/input/launch/megatron_flags.h"
#include "sim/input/launch/megatron_translator.h"
#include "sim/input/text/textproto.h"
#include "sim/job/context/context.h"

namespace sim::input {
namespace {

bool is_off(const std::string& value) {
  return value == "0" || value == "none" || value == "None" || value == "False" ||
         value == "false" || value == "null";
}

// The whole numbers in all values: "[2 2]", "128,0" and "128 0".
std::vector<std::int64_t> numbers_of(const Given& given) {
  std::vector<std::int64_t> numbers;
  for (const shell::Word& word : given.values) {
    std::string text = word.text;
    for (char& c : text)
      if ((c < '0' || c > '9') && c != '-') c = ' ';
    std::istringstream parts(text);
    for (std::int64_t n = 0; parts >> n;) numbers.push_back(n);
  }
  return numbers;
}

}  // namespace

const Given* Translator::find(const Flags& flags, std::string_view name) {
  const auto found = flags.find(name);
  return found == flags.end() ? nullptr : &found->second;
}

const Given* Translator::find(std::initializer_list<std::string_view> names) const {
  for (const std::string_view name : names)
    if (const Given* given = find(name)) return given;
  return nullptr;
}

std::string Translator::value(std::string_view name) const {
  const Given* given = find(name);
  return given ? given->value() : "";
}

std::optional<std::int64_t> Translator::number(const Given* given) const {
  if (!given || given->values.empty() || !given->values.front().unknowns.empty()) return {};
  std::string text = given->value();
  text.erase(std::remove(text.begin(), text.end(), '_'), text.end());  // Python's 2_000
  std::int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  const bool whole = error == std::errc{} && end == text.data() + text.size();
  return whole && n > 0 && n <= 1 << 28 ? std::optional(n) : std::nullopt;
}

std::string Translator::where(const shell::Word& word) const {
  const shell::TextPosition place = shell::place(text_, word.at);
  return fmt::format("{}:{}:{}", path_, place.line, place.column);
}

void Translator::set(const Given& given, std::string setting) {
  out_.settings.push_back({std::move(setting), where(given.flag)});
}

void Translator::miss(std::string_view field, const shell::Word& word, std::string message) {
  out_.missing.push_back({std::string(field), {where(word), std::move(message)}});
}

void Translator::refuse(const shell::Word& word, std::string message) {
  out_.problems.push_back({where(word), std::move(message)});
}

void Translator::set_value(const Given& given, std::string_view field) {
  const std::string name = given.flag.text.substr(0, given.flag.text.find('='));
  if (given.values.empty())
    return refuse(given.flag, fmt::format("{} has no value; write {} and a number", name, name));
  if (!given.values.front().unknowns.empty()) {
    const std::string key(
        field.substr(field.find('.') == std::string_view::npos ? 0 : field.find('.') + 1));
    const bool of_network = field.starts_with("architecture.");
    return miss(field, given.flag,
                fmt::format("the value of {} is {}, which the script does not define; write "
                            "{}{}=",
                            name, given.values.front().unknowns.front(),
                            of_network && key != "vocab" ? "architecture." : "", key));
  }
  set(given, fmt::format("{}={}", field, given.value()));
}

void Translator::note(const Given& given, std::string_view instead) {
  const std::string name = given.flag.text.substr(0, given.flag.text.find('='));
  for (auto& [reason, flags] : reasons_) {
    if (reason != instead) continue;
    if (std::find(flags.begin(), flags.end(), name) == flags.end()) flags.push_back(name);
    return;
  }
  reasons_.push_back({std::string(instead), {name}});
}

// One line for flags that share a reason.
void Translator::gather_notes() {
  for (const auto& [reason, flags] : reasons_) {
    std::string list;
    for (const std::string& flag : flags) list += (list.empty() ? "" : ", ") + flag;
    say(fmt::format("{} {} not simulated: {}", list, flags.size() > 1 ? "are" : "is", reason));
  }
}

void Translator::flag(const std::string& name, const Given& given) {
  const FlagMeaning meaning = flag_meaning(name);
  switch (meaning.effect) {
    case FlagEffect::mapped:
      if (const std::string other = needed(name, meaning.text); !other.empty())
        note(given, other);
      else if (meaning.text.ends_with('='))
        set_value(given, meaning.text.substr(0, meaning.text.size() - 1));
      else if (!is_off(given.value()))
        set(given, std::string(meaning.text));
      return;
    case FlagEffect::noted:
      if (!is_off(given.value())) note(given, meaning.text);
      return;
    case FlagEffect::refused:
      if (!is_off(given.value())) refuse(given.flag, fmt::format("--{}: {}", name, meaning.text));
      return;
    case FlagEffect::unknown:
      refuse(given.flag,
             fmt::format("Megatron-LM has no flag --{}{}", name, did_you_mean_flag(name)));
      return;
    case FlagEffect::together:
    case FlagEffect::harmless:
      return;
  }
}

bool Translator::legacy() const {
  if (has("transformer-impl") || has("use-mcore-models")) return false;
  return has("deepspeed") || has("checkpoint-activations") || has("data-impl") || has("DDP-impl") ||
         has("activations-checkpoint-method") || has("no-pipeline-parallel");
}

MegatronArguments Translator::run() {
  program();
  if (!launch_.by.empty()) {
    rows();
    return std::move(out_);
  }
  if (is_unknown_program()) return std::move(out_);
  for (const auto& [name, given] : launch_.flags) flag(name, given);
  describe_model(*this);
  world();
  tensor_grid();
  recomputation();
  offloaded_modules();
  cuda_graphs();
  schedule_of_fork();
  replicas();
  cross_entropy();
  attention();
  numerics();
  sharding();
  deepspeed();
  loading();
  environment();
  gather_notes();
  return std::move(out_);
}

// Flags with pairs of numbers: a number of data-parallel ranks, and a value for each of them
// [SynerFuse/SynerFuse README.md, a fork of Megatron-LM].
void Translator::replicas() {
  const auto words = [this](const Given& given) {
    std::vector<std::string> pairs;
    for (std::size_t i = 0; i + 1 < given.values.size(); i += 2)
      pairs.push_back(given.values[i].text + "x" + given.values[i + 1].text);
    if (pairs.empty() || given.values.size() % 2 != 0)
      refuse(given.flag, "takes pairs: a number of replicas and what each of them does");
    return pairs;
  };
  if (const Given* counts = find("num-micro-batches-per-dp"))
    if (const std::vector<std::string> pairs = words(*counts); !pairs.empty())
      set(*counts, fmt::format("replica_microbatches={}", fmt::join(pairs, ",")));
  const Given* sizes = find("micro-batch-size-per-dp");
  if (!sizes || words(*sizes).empty()) return;
  const std::string& first = sizes->values[1].text;
  bool alike = !has("micro-batch-size") || value("micro-batch-size") == first;
  for (std::size_t i = 1; i < sizes->values.size(); i += 2)
    alike = alike && sizes->values[i].text == first;
  if (!alike)
    return refuse(sizes->flag,
                  "replicas with microbatches of unlike sizes are not simulated; write one size "
                  "and --num-micro-batches-per-dp");
  if (!has("micro-batch-size")) set(*sizes, "micro_batch=" + first);
}

// --cross-entropy-fusion-impl has no effect without --cross-entropy-loss-fusion.
void Translator::cross_entropy() {
  const Given* fused = find("cross-entropy-loss-fusion");
  if (!fused) return;
  const Given* by = find("cross-entropy-fusion-impl");
  const bool te = by && !by->values.empty() && by->values.front().text == "te";
  set(te ? *by : *fused, te ? "cross_entropy=te" : "cross_entropy=native");
}

void Translator::attention() {
  if (!has("use-flash-attn-v1") && !has("use-flash-attn-triton")) attention_kernel();
  windows();
  context();
}

void Translator::attention_kernel() {
  const bool flash = find({"use-flash-attn", "use-flash-attn-v2", "use-flash-attn-builder"});
  const Given* implementation = find("transformer-impl");
  const bool local = (implementation && implementation->value() == "local") ||
                     value("spec") == "local" || legacy();
  bool unfused = false;
  if (const Given* backend = find("attention-backend"); backend && backend->value() != "auto") {
    const std::string name = backend->value().substr(backend->value().find('.') + 1);
    if ((name == "unfused" || name == "local") && has("multi-latent-attention"))
      return note(*backend, "latent attention is one fused kernel");
    unfused = name == "unfused" || name == "local";
    set(*backend, fmt::format("attention={}", name == "fused" ? "cudnn"
                                              : unfused       ? "unfused"
                                                              : name));
  } else if (local) {
    unfused = !flash;
    const Given* place =
        find({"transformer-impl", "spec", "deepspeed", "checkpoint-activations", "data-impl",
              "DDP-impl", "activations-checkpoint-method", "no-pipeline-parallel"});
    set(*place, fmt::format("attention={}", flash ? "flash" : "unfused"));
  }
  if (const Given* masked = find("no-masked-softmax-fusion"); masked && unfused)
    note(*masked, "the scores' softmax is one kernel");
}

// --window-size: tokens before and after a query. --window-attn-skip-freq n: every n-th layer
// attends to all tokens [core 0.15 transformer_config.py:window_size, window_attn_skip_freq].
void Translator::windows() {
  const Given* size = find("window-size");
  if (!size) return;
  const std::vector<std::int64_t> sides = numbers_of(*size);
  if (sides.empty() || sides.front() < 1) return note(*size, "attention sees all tokens");
  set(*size, fmt::format("architecture.sliding_window={}", sides.front() + 1));
  const Given* skip = find("window-attn-skip-freq");
  if (!skip) return;
  if (const auto n = number(skip))
    set(*skip, fmt::format("architecture.whole_attention={}", *n));
  else
    note(*skip, "every layer has windows");
}

// --cp-comm-type is one type, or one for each layer. The first of the hierarchical sizes is that of
// the all-to-all [Megatron-LM core 0.14 arguments.py;
// parallel_state.py:create_hierarchical_groups].
void Translator::context() {
  if (const Given* kind = find("cp-comm-type"); kind && !kind->values.empty()) {
    if (const context::Method* method = context::of_megatron(kind->value()))
      set(*kind, fmt::format("context={}", method->name));
    else
      miss("cp-comm-type", kind->values.front(),
           fmt::format("'{}' is none of p2p, all_gather, a2a and a2a+p2p", kind->value()));
    for (const shell::Word& word : kind->values)
      if (word.text != kind->value()) note(*kind, "all layers share sequences as the first one");
  }
  if (const Given* sizes = find("hierarchical-context-parallel-sizes")) {
    if (const std::vector<std::int64_t> both = numbers_of(*sizes); both.size() > 1)
      set(*sizes, fmt::format("ulysses={}", both.front()));  // a list in quotes
    else
      set_value(*sizes, "ulysses");
  }
  if (const Given* ranks = find("ds-sequence-parallel-size");
      ranks && !ranks->values.empty() && ranks->value() != "1") {
    set_value(*ranks, "cp");
    set(*ranks, "context=ulysses");
  }
}

void Translator::numerics() {
  // Megatron-LM enables fp32 accumulation with bf16, unless main gradients have another type
  // [core 0.12 training/arguments.py:validate_args].
  const Given* grads = find("main-grads-dtype");
  const bool narrow = has("grad-reduce-in-bf16") ||
                      (grads && !grads->values.empty() && grads->value() != "fp32" &&
                       !has("accumulate-allreduce-grads-in-fp32"));
  if (has("bf16"))
    set(narrow && grads ? *grads : *find("bf16"), fmt::format("fp32_gradients={}", !narrow));
  if (const Given* clip = find("clip-grad");
      clip && !clip->values.empty() && clip->value().find_first_not_of("0.") == std::string::npos)
    set(*clip, "gradient_clipping=false");
  if (const Given* format = find("fp8-format"); format && !is_off(format->value()))
    set(*format, "fp8=true");
  if (const Given* format = find("fp4-format"); format && !is_off(format->value())) {
    set(*format, "fp8=true");
    set(*format, "fp8_recipe=nvfp4");
  }
  if (const Given* recipe = find("fp8-recipe");
      recipe && find({"fp8-format", "fp8-hybrid", "fp8-e4m3"})) {
    if (recipe->value() == "tensorwise" || recipe->value() == "mxfp8")
      set(*recipe, "fp8_recipe=" + recipe->value());
    else if (recipe->value() != "delayed")
      note(*recipe, "scales of blocks are simulated as delayed scaling");
  }
  if (const Given* kind = find("optimizer"); kind && !kind->values.empty())
    if (const std::string name = kind->value(); name != "adam" && name != "adamw")
      note(*kind, "the optimizer is Adam");
  if (const Given* steps = find("step-batch-size-schedule"); steps && !has("global-batch-size"))
    if (const std::vector<std::int64_t> sizes = numbers_of(*steps); !sizes.empty())
      set(*steps, fmt::format("global_batch={}", sizes.back()));
  experts();
  if (const Given* hybrid = find("is-hybrid-model"))
    refuse(hybrid->flag, "--is-hybrid-model: layers with a state space are not simulated");
  if (const Given* spec = find("spec")) {
    std::string all;
    for (const shell::Word& word : spec->values) all += word.text + " ";
    if (all.find("mamba") != std::string::npos || all.find("hybrid") != std::string::npos)
      refuse(spec->flag, "--spec: layers with a state space are not simulated");
    else if (all != "local ")
      note(*spec, "the layers are GPT's");
  }
}

// Defaults of a model with experts: Megatron-LM gathers all tokens, runs experts one by one and
// sorts with PyTorch kernels [core 0.14 training/arguments.py:_add_moe_args].
bool Translator::has_experts() const {
  const Given* count = find({"num-experts", "moe"});
  return count && std::any_of(count->values.begin(), count->values.end(), [](const auto& word) {
           return word.text != "1" && !is_off(word.text);
         });
}

void Translator::experts() {
  if (has_experts()) {
    const Given* count = find({"num-experts", "moe"});
    if (has("deepspeed") || has("expert-interval") || has("moe-expert-parallel-size"))
      return deepspeed_experts();
    if (count->values.size() > 1 || count->flag.text == "--moe")
      refuse(count->flag, "experts are written --num-experts N, as many in every layer");
    else
      set_value(*count, "architecture.num_experts");
    if (!has("moe-token-dispatcher-type")) set(*count, "dispatcher=allgather");
    if (!has("moe-grouped-gemm")) set(*count, "grouped_gemm=false");
    if (!has("moe-permute-fusion")) set(*count, "permute_fusion=false");
    if (value("moe-router-dtype") == "fp32" || value("moe-router-dtype") == "fp64")
      set(*find("moe-router-dtype"), "fp32_router=true");
    if (value("moe-router-load-balancing-type") == "none")
      set(*find("moe-router-load-balancing-type"), "architecture.auxiliary_loss=false");
  }
  if (const Given* latent = find("multi-latent-attention")) {
    if (const Given* rank = find("kv-lora-rank"))
      set_value(*rank, "architecture.kv_lora_rank");
    else
      set(*latent, "architecture.kv_lora_rank=32");
  } else if (const Given* norm = find("qk-layernorm")) {
    set(*norm, "architecture.query_key_norm=true");
  }
}

void Translator::sharding() {
  if (const Given* all = find("overlapped-distributed-optimizer"))
    for (const char* setting :
         {"distributed_optimizer=true", "overlap_grad_reduce=true", "overlap_param_gather=true"})
      set(*all, setting);
  if (const Given* offload = find("cpu-optimizer"); offload && !has("deepspeed"))
    set(*offload, "precision_aware_optimizer=true");
  const Given* fsdp = find({"use-megatron-fsdp", "use-custom-fsdp"});
  if (!fsdp) return;
  const std::string strategy = value("data-parallel-sharding-strategy");
  if (strategy == "optim") {
    set(*fsdp, "distributed_optimizer=true");
  } else if (strategy == "optim_grads" || strategy == "optim_grads_params") {
    set(*fsdp, strategy == "optim_grads" ? "zero=2" : "zero=3");
    note(*fsdp, "Megatron-FSDP is simulated as PyTorch's fully_shard");
  }
}

// Data loader workers create masks only if each sample has its own mask.
void Translator::loading() {
  // DeepSpeed can count the embedding and the head as one layer each.
  if (const Given* parts = find("pp-partition-method"); parts && !parts->values.empty()) {
    if (parts->value().find("embedding") != std::string::npos) {
      set(*parts, "account_for_embedding=true");
      set(*parts, "account_for_loss=true");
    }
  }
  const Given* workers = find("num-workers");
  if (!workers || !has("reset-attention-mask")) return;
  if (workers->value() != "0") return set_value(*workers, "data_workers");
  note(*workers, "one worker loads");
  set(*workers, "data_workers=1");
}

}  // namespace sim::input
