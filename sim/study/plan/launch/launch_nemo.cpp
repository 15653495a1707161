#include "sim/study/plan/launch/launch_nemo.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "sim/study/plan/launch/launch_megatron.h"
#include "sim/study/plan/launch/launch_network.h"

namespace sim::planner {

namespace {

using program::Plan;

// The objects of a script.
enum class Place : std::uint8_t { strategy, ddp, network, optimizer, precision, data, overlap };

// The object and the keyword that take the value of a flag of Megatron-LM.
struct Argument {
  std::string_view flag;
  Place place;
  std::string_view name;   // "": as the flag, with '_'
  std::string_view value;  // "": the flag's own; True for a flag without one
};
constexpr std::array arguments{
    Argument{"tensor-model-parallel-size", Place::strategy, "", ""},
    Argument{"pipeline-model-parallel-size", Place::strategy, "", ""},
    Argument{"context-parallel-size", Place::strategy, "", ""},
    Argument{"expert-model-parallel-size", Place::strategy, "", ""},
    Argument{"expert-tensor-parallel-size", Place::strategy, "", ""},
    Argument{"sequence-parallel", Place::strategy, "", ""},
    Argument{"num-virtual-stages-per-pipeline-rank", Place::strategy,
             "virtual_pipeline_model_parallel_size", ""},
    Argument{"microbatch-group-size-per-virtual-pipeline-stage", Place::strategy,
             "microbatch_group_size_per_vp_stage", ""},
    Argument{"decoder-first-pipeline-num-layers", Place::strategy,
             "num_layers_in_first_pipeline_stage", ""},
    Argument{"decoder-last-pipeline-num-layers", Place::strategy,
             "num_layers_in_last_pipeline_stage", ""},
    Argument{"account-for-embedding-in-pipeline-split", Place::strategy, "", ""},
    Argument{"account-for-loss-in-pipeline-split", Place::strategy, "", ""},
    Argument{"pipeline-model-parallel-layout", Place::strategy, "", ""},
    Argument{"use-tp-pp-dp-mapping", Place::strategy, "", ""},
    Argument{"num-distributed-optimizer-instances", Place::strategy, "", ""},
    Argument{"overlap-grad-reduce", Place::ddp, "", ""},
    Argument{"overlap-param-gather", Place::ddp, "", ""},
    Argument{"use-distributed-optimizer", Place::optimizer, "", ""},
    Argument{"use-precision-aware-optimizer", Place::optimizer, "", ""},
    Argument{"main-params-dtype", Place::optimizer, "", ""},
    Argument{"exp-avg-dtype", Place::optimizer, "", ""},
    Argument{"exp-avg-sq-dtype", Place::optimizer, "", ""},
    Argument{"optimizer-cpu-offload", Place::optimizer, "", ""},
    Argument{"optimizer-offload-fraction", Place::optimizer, "", ""},
    Argument{"overlap-cpu-optimizer-d2h-h2d", Place::optimizer, "", ""},
    Argument{"clip-grad", Place::optimizer, "", ""},
    Argument{"accumulate-allreduce-grads-in-fp32", Place::precision, "grad_reduce_in_fp32", ""},
    Argument{"grad-reduce-in-bf16", Place::precision, "grad_reduce_in_fp32", "False"},
    Argument{"fp8-format", Place::precision, "fp8", ""},
    Argument{"fp8-recipe", Place::precision, "", ""},
    Argument{"fp8-param-gather", Place::precision, "", ""},
    Argument{"micro-batch-size", Place::data, "", ""},
    Argument{"global-batch-size", Place::data, "", ""},
    Argument{"seq-length", Place::data, "", ""},
    Argument{"num-workers", Place::data, "", ""},
    Argument{"tp-comm-overlap", Place::overlap, "", ""},
    Argument{"num-layers", Place::network, "", ""},
    Argument{"hidden-size", Place::network, "", ""},
    Argument{"ffn-hidden-size", Place::network, "", ""},
    Argument{"num-attention-heads", Place::network, "", ""},
    Argument{"num-query-groups", Place::network, "", ""},
    Argument{"kv-channels", Place::network, "", ""},
    Argument{"attention-dropout", Place::network, "", ""},
    Argument{"hidden-dropout", Place::network, "", ""},
    Argument{"normalization", Place::network, "", ""},
    Argument{"norm-epsilon", Place::network, "layernorm_epsilon", ""},
    Argument{"position-embedding-type", Place::network, "", ""},
    Argument{"rotary-base", Place::network, "", ""},
    Argument{"rope-scaling-factor", Place::network, "scale_factor", ""},
    Argument{"rope-type", Place::network, "", ""},
    Argument{"rotary-scaling-factor", Place::network, "", ""},
    Argument{"mscale", Place::network, "", ""},
    Argument{"mscale-all-dim", Place::network, "", ""},
    Argument{"swiglu", Place::network, "gated_linear_unit", ""},
    Argument{"disable-bias-linear", Place::network, "add_bias_linear", "False"},
    Argument{"add-qkv-bias", Place::network, "", ""},
    Argument{"untie-embeddings-and-output-weights", Place::network,
             "share_embeddings_and_output_weights", "False"},
    Argument{"qk-layernorm", Place::network, "", ""},
    Argument{"window-size", Place::network, "", ""},
    Argument{"num-experts", Place::network, "num_moe_experts", ""},
    Argument{"moe-router-topk", Place::network, "", ""},
    Argument{"moe-ffn-hidden-size", Place::network, "", ""},
    Argument{"moe-shared-expert-intermediate-size", Place::network, "", ""},
    Argument{"moe-layer-freq", Place::network, "", ""},
    Argument{"moe-router-score-function", Place::network, "", ""},
    Argument{"moe-router-pre-softmax", Place::network, "", ""},
    Argument{"moe-router-num-groups", Place::network, "", ""},
    Argument{"moe-router-group-topk", Place::network, "", ""},
    Argument{"moe-router-enable-expert-bias", Place::network, "", ""},
    Argument{"moe-router-dtype", Place::network, "", ""},
    Argument{"moe-router-load-balancing-type", Place::network, "", ""},
    Argument{"moe-router-force-load-balancing", Place::network, "", ""},
    Argument{"moe-token-dispatcher-type", Place::network, "", ""},
    Argument{"moe-expert-capacity-factor", Place::network, "", ""},
    Argument{"moe-pad-expert-input-to-capacity", Place::network, "", ""},
    Argument{"moe-grouped-gemm", Place::network, "", ""},
    Argument{"moe-use-legacy-grouped-gemm", Place::network, "", ""},
    Argument{"moe-permute-fusion", Place::network, "", ""},
    Argument{"moe-shared-expert-overlap", Place::network, "", ""},
    Argument{"mtp-num-layers", Place::network, "", ""},
    Argument{"q-lora-rank", Place::network, "", ""},
    Argument{"kv-lora-rank", Place::network, "", ""},
    Argument{"qk-head-dim", Place::network, "", ""},
    Argument{"qk-pos-emb-head-dim", Place::network, "", ""},
    Argument{"v-head-dim", Place::network, "", ""},
    Argument{"attention-backend", Place::network, "", ""},
    Argument{"cp-comm-type", Place::network, "", ""},
    Argument{"recompute-granularity", Place::network, "", ""},
    Argument{"recompute-method", Place::network, "", ""},
    Argument{"recompute-num-layers", Place::network, "", ""},
    Argument{"recompute-modules", Place::network, "", ""},
    Argument{"cpu-offloading-num-layers", Place::network, "", ""},
    Argument{"deterministic-mode", Place::network, "", ""},
    Argument{"cross-entropy-fusion-impl", Place::network, "", ""},
    Argument{"no-async-tensor-model-parallel-allreduce", Place::network,
             "async_tensor_model_parallel_allreduce", "False"},
    Argument{"no-gradient-accumulation-fusion", Place::network, "gradient_accumulation_fusion",
             "False"},
};

// Flags that `fixed` writes in another way, and flags of Megatron-LM's command line alone.
constexpr std::array<std::string_view, 14> elsewhere = {"bf16",
                                                        "fp16",
                                                        "transformer-impl",
                                                        "group-query-attention",
                                                        "max-position-embeddings",
                                                        "vocab-size",
                                                        "tokenizer-type",
                                                        "use-rope-scaling",
                                                        "multi-latent-attention",
                                                        "no-rope-fusion",
                                                        "no-bias-swiglu-fusion",
                                                        "cross-entropy-loss-fusion",
                                                        "no-check-for-nan-in-loss-and-grad",
                                                        "no-create-attention-mask-in-dataloader"};

// Keywords of each object, in the order of the flags.
using Keywords = std::map<Place, std::vector<std::pair<std::string, std::string>>>;

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789.e-") == std::string::npos &&
         text.find_first_of("0123456789") != std::string::npos;
}

// Values of a flag as Python: numbers, types, lists and strings.
std::string literal(std::string_view flag, std::vector<std::string> words) {
  if (words.empty()) return "True";
  const std::string& first = words.front();
  if (flag == "recompute-modules") return fmt::format("[\"{}\"]", fmt::join(words, "\", \""));
  if (flag == "window-size") return fmt::format("({})", first);
  if (flag == "moe-layer-freq" && !is_number(first)) return first;
  if (flag == "attention-backend") return "AttnBackend." + first;
  if (flag.ends_with("-dtype") && flag != "moe-router-dtype")
    return first == "bf16"   ? "torch.bfloat16"
           : first == "fp16" ? "torch.float16"
           : first == "fp8"  ? "torch.uint8"
                             : "torch.float32";
  return is_number(first) ? first : fmt::format("\"{}\"", first);
}

struct Flag {
  std::string name;
  std::vector<std::string> words;
};

// One "--name value ..." of a text with several, the quotes of the shell taken off.
std::vector<Flag> split(const std::vector<std::string>& flags) {
  std::vector<Flag> all;
  for (const std::string& text : flags) {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find(' ', at), text.size());
      std::string word = text.substr(at, end - at);
      at = end + 1;
      if (word.starts_with("--")) {
        all.push_back({word.substr(2), {}});
        continue;
      }
      std::erase(word, '\'');
      if (!all.empty() && !word.empty()) all.back().words.push_back(std::move(word));
    }
  }
  return all;
}

// Degrees of 1, which NeMo has unless told.
bool is_default(const Flag& flag) {
  return flag.words == std::vector<std::string>{"1"} &&
         (flag.name == "tensor-model-parallel-size" || flag.name == "context-parallel-size" ||
          flag.name == "pipeline-model-parallel-size" || flag.name == "expert-model-parallel-size");
}

bool is_latent(const Plan& plan) {
  return plan.architecture.is_latent();
}

// Layers with and without experts: NeMo's default specification makes all alike.
bool mixes_layers(const Plan& plan, const std::vector<Flag>& flags) {
  return plan.architecture.is_mixture() && std::ranges::any_of(flags, [](const Flag& one) {
           return one.name == "moe-layer-freq" && one.words != std::vector<std::string>{"1"};
         });
}

// The reason why NeMo 2 cannot run the network; "" if it can. Source: [NVIDIA/NeMo v2.4.0
// nemo/lightning/_strategy_lib.py].
std::string reason_against(const Plan& plan) {
  if (plan.architecture.position == model::Position::none)
    return "NeMo 2 has rotary and learned positions alone";
  if (plan.architecture.position == model::Position::learned &&
      plan.architecture.max_positions != plan.batch.sequence)
    return fmt::format(
        "learned positions of NeMo 2 are as many as the tokens of a sequence, {} here",
        plan.batch.sequence);
  return "";
}

// Keywords that are no flag, or whose default is another one than Megatron-LM's.
void add_fixed(const Plan& plan, const std::vector<Flag>& flags, Keywords& all) {
  const auto has = [&](std::string_view name) {
    return std::ranges::any_of(flags, [&](const Flag& one) { return one.name == name; });
  };
  const auto set = [&](Place place, std::string name, std::string value) {
    auto& keywords = all[place];
    const auto found =
        std::ranges::find(keywords, name, &std::pair<std::string, std::string>::first);
    if (found == keywords.end()) keywords.emplace_back(std::move(name), std::move(value));
  };
  const auto word = [](bool is_true) { return is_true ? "True" : "False"; };
  // A layout says the chunks, but NeMo makes as many as this.
  if (plan.pipeline.virtual_stages > 1)
    set(Place::strategy, "virtual_pipeline_model_parallel_size",
        std::to_string(plan.pipeline.virtual_stages));
  if (has("swiglu")) set(Place::network, "activation_func", "F.silu");
  if (has("cpu-offloading-num-layers")) set(Place::network, "cpu_offloading", "True");
  // With latent attention only YaRN has a fused kernel.
  const bool fuses = !has("no-rope-fusion") && (!is_latent(plan) || has("rotary-scaling-factor"));
  set(Place::network, "apply_rope_fusion", word(fuses));
  // GELU without biases has no fused kernel.
  set(Place::network, "bias_activation_fusion",
      word(has("swiglu") ? !has("no-bias-swiglu-fusion") : plan.architecture.linear_bias));
  set(Place::network, "bias_dropout_fusion", "True");
  set(Place::network, "cross_entropy_loss_fusion", word(has("cross-entropy-loss-fusion")));
  set(Place::network, "seq_length", "seq_length");
  if (has("use-rope-scaling")) {  // Llama 3's defaults
    set(Place::network, "num_query_groups", std::to_string(plan.architecture.kv_heads));
    set(Place::network, "share_embeddings_and_output_weights",
        word(plan.architecture.tied_embeddings));
  }
  if (is_latent(plan)) {  // DeepSeek's
    for (const char* off : {"moe_grouped_gemm", "moe_permute_fusion", "moe_router_pre_softmax",
                            "moe_shared_expert_overlap", "share_embeddings_and_output_weights"})
      set(Place::network, off, "False");
    set(Place::network, "q_lora_rank", "None");
    set(Place::network, "moe_router_dtype", "None");
    set(Place::network, "moe_router_load_balancing_type", "\"aux_loss\"");
    set(Place::network, "cross_entropy_fusion_impl", "\"native\"");
  }
  if (mixes_layers(plan, flags) && !is_latent(plan))
    set(Place::network, "transformer_layer_spec",
        "partial(get_gpt_decoder_block_spec, use_transformer_engine=True)");
  if (!has("no-check-for-nan-in-loss-and-grad")) set(Place::ddp, "check_for_nan_in_grad", "True");
  if (!has("no-create-attention-mask-in-dataloader"))
    set(Place::data, "create_attention_mask", "True");
  set(Place::data, "tokenizer", "tokenizer");
  set(Place::precision, "grad_reduce_in_fp32", "False");
  // The callback turns both on unless told.
  set(Place::overlap, "tp_comm_overlap", "False");
  set(Place::overlap, "overlap_grad_reduce", word(has("overlap-grad-reduce")));
  set(Place::overlap, "overlap_param_gather", word(has("overlap-param-gather")));
}

std::string call(const std::string& name, std::string_view callee, const Keywords& all, Place place,
                 const std::vector<std::string>& before = {}) {
  std::string text = fmt::format("{} = {}(\n", name, callee);
  for (const std::string& line : before) text += fmt::format("    {},\n", line);
  if (const auto keywords = all.find(place); keywords != all.end())
    for (const auto& [key, value] : keywords->second)
      if (key != "seq_length" || place == Place::network || place == Place::data)
        text += fmt::format("    {}={},\n", key, key == "seq_length" ? "seq_length" : value);
  return text + ")\n";
}

std::string imports(const Plan& plan, const std::vector<Flag>& flags, const std::string& config) {
  std::string text;
  const auto environment = environment_of(plan);
  if (!environment.empty()) text += "import os\n";
  const bool blocks = mixes_layers(plan, flags) && !is_latent(plan);
  if (blocks) text += "from functools import partial\n";
  if (!text.empty()) text += "\n";
  for (const auto& [name, value] : environment)
    text += fmt::format("os.environ[\"{}\"] = \"{}\"\n", name, value);
  text += environment.empty() ? "import torch\n" : "\nimport torch\n";
  if (plan.architecture.activation == model::Activation::swiglu)
    text += "import torch.nn.functional as F\n";
  text +=
      "from megatron.core.distributed import DistributedDataParallelConfig\n"
      "from megatron.core.optimizer import OptimizerConfig\n";
  if (blocks)
    text += "from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec\n";
  if (!backend_of(plan).empty())
    text += "from megatron.core.transformer.enums import AttnBackend\n";
  text +=
      "from nemo import lightning as nl\nfrom nemo.collections import llm\n"
      "from nemo.collections.nlp.modules.common.tokenizer_utils import get_nmt_tokenizer\n"
      "from nemo.lightning.pytorch.callbacks import MegatronCommOverlapCallback\n";
  if (config == "Llama31Config")
    text += "from nemo.collections.llm.gpt.model.llama import Llama31Config\n";
  if (config == "DeepSeekConfig")
    text += "from nemo.collections.llm.gpt.model.deepseek import DeepSeekConfig\n";
  return text;
}

// NeMo's class of the network: with Llama 3's scaling of positions, with latent attention, or any.
std::string class_of(const Plan& plan, const std::vector<Flag>& flags) {
  if (is_latent(plan)) return "DeepSeekConfig";
  const bool scales =
      std::ranges::any_of(flags, [](const Flag& one) { return one.name == "use-rope-scaling"; });
  return scales ? "Llama31Config" : "llm.GPTConfig";
}

}  // namespace

LaunchText nemo_script(const Plan& plan, const std::string& model, const LaunchNodes& nodes) {
  LaunchText out{"NeMo 2", "pretrain.py", "", megatron_left(plan, Program::nemo_2)};
  if (out.left.empty()) out.left = reason_against(plan);
  if (!out.left.empty()) return out;
  const MegatronFlags of_plan = megatron_flags(plan, model);
  const std::vector<Flag> flags = split(of_plan.flags);
  Keywords all;
  for (const Flag& flag : flags) {
    if (is_default(flag)) continue;
    const auto found = std::ranges::find(arguments, flag.name, &Argument::flag);
    if (found == arguments.end()) {
      if (std::ranges::count(elsewhere, flag.name) > 0) continue;
      out.left = fmt::format("NeMo 2 has no argument for Megatron-LM's --{}", flag.name);
      return out;
    }
    std::string name(found->name.empty() ? found->flag : found->name);
    std::ranges::replace(name, '-', '_');
    all[found->place].emplace_back(std::move(name), found->value.empty()
                                                        ? literal(flag.name, flag.words)
                                                        : std::string(found->value));
  }
  add_fixed(plan, flags, all);
  out.left = of_plan.left;
  const std::string config = class_of(plan, flags);
  const bool half = plan.numerics.precision == model::Precision::fp16;
  const bool full = plan.numerics.precision == model::Precision::fp32;
  const std::string type = full ? "torch.float32" : half ? "torch.half" : "torch.bfloat16";
  out.text = "# ten steps on made-up tokens: put your data and learning rate in their place\n" +
             command_comment(nodes, "pretrain.py") + imports(plan, flags, config);
  // The null tokenizer adds an end-of-document token.
  out.text += fmt::format(
      "\nseq_length = {}\ntokenizer = get_nmt_tokenizer(\n    library=\"null\", "
      "model_name=\"NullTokenizer\", vocab_size={}\n)\n",
      plan.batch.sequence, plan.architecture.vocab - 1);
  out.text += call("data", "llm.MockDataModule", all, Place::data);
  out.text += call("config", config, all, Place::network);
  out.text += call("ddp", "DistributedDataParallelConfig", all, Place::ddp);
  out.text += call("strategy", "nl.MegatronStrategy", all, Place::strategy, {"ddp=ddp"});
  out.text += call("precision", "nl.MegatronMixedPrecision", all, Place::precision,
                   {fmt::format("precision=\"{}\"", full   ? "32"
                                                    : half ? "16-mixed"
                                                           : "bf16-mixed"),
                    "params_dtype=" + type, "pipeline_dtype=" + type});
  out.text += call("overlap", "MegatronCommOverlapCallback", all, Place::overlap);
  out.text += call("optimizer", "OptimizerConfig", all, Place::optimizer,
                   {"optimizer=\"adam\"", "lr=0.0001"});
  out.text += fmt::format(
      "trainer = nl.Trainer(\n    accelerator=\"gpu\",\n    devices={},\n    num_nodes={},\n"
      "    max_steps=10,\n    limit_val_batches=0,\n    num_sanity_val_steps=0,\n"
      "    log_every_n_steps=1,\n    enable_checkpointing=False,\n    logger=False,\n"
      "    use_distributed_sampler=False,\n    callbacks=[overlap],\n    plugins=precision,\n"
      "    strategy=strategy,\n)\n",
      nodes.per_node, nodes.nodes);
  out.text += fmt::format(
      "llm.pretrain(\n    model=llm.GPTModel(config, tokenizer=tokenizer),\n    data=data,\n"
      "    trainer=trainer,\n    optim=nl.MegatronOptimizerModule(config=optimizer),\n)\n");
  return out;
}

}  // namespace sim::planner
