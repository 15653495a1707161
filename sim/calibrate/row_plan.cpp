#include "sim/calibrate/row_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>

#include "sim/calibrate/row_text.h"

namespace sim::calibrate {

namespace {

// What a framework does where a row is silent.
struct Framework {
  const char* name;            // start of the column `framework`
  const char* refused;         // why it cannot be represented; "": it can
  bool overlaps;               // gradients and parameters travel beside compute
  bool fp32_gradients;         // at 16-bit training in bf16
  bool fused_weight_gradient;  // accumulates into main_grad inside the product
  bool checks_nan;
  bool attention_mask;  // the data loader builds it
  workload::DataParallelism shards = workload::DataParallelism::ddp;
};
constexpr std::array<Framework, 13> frameworks = {{
    {"Megatron-LM (authors' fork", "", true, true, true, true, true},
    {"Megatron-DeepSpeed", "", false, true, false, false, true},
    {"Megatron-Bridge", "", true, false, true, true, false},
    {"Megatron-Core", "", true, true, true, true, true},
    {"Megatron-LM", "", false, true, true, false, true},
    {"NeMo", "", true, false, true, false, false},
    {"InternEvo", "", true, false, false, false, false},
    {"MegaScale", "changes the algorithm (parallel blocks, sliding window, LAMB)", true, true, true,
     false, false},
    {"composer", "", false, true, false, false, false, workload::DataParallelism::fsdp1},
    {"torchtitan", "", false, true, false, false, false, workload::DataParallelism::fsdp2},
    {"DeepSpeed", "", false, true, false, false, true},
    {"Paxml", "JAX programs are not represented", true, true, true, false, false},
    {"MaxText", "JAX programs are not represented", true, true, true, false, false},
}};

const Framework* framework_of(const Row& row) {
  const auto found =
      std::find_if(frameworks.begin(), frameworks.end(), [&](const Framework& candidate) {
        return starts_with(cell(row, "framework"), candidate.name);
      });
  return found == frameworks.end() ? nullptr : &*found;
}

// Where the batch of a rank is no multiple of the microbatch, the last one is smaller (composer);
// here they are as many, and of one size.
void even_microbatches(RowPlan& out) {
  workload::Plan& plan = out.plan;
  if (plan.batch.global_batch % plan.mesh.dp != 0) return;
  const int batch = plan.batch.global_batch / plan.mesh.dp;
  if (batch % plan.batch.micro_batch == 0) return;
  int count = (batch + plan.batch.micro_batch - 1) / plan.batch.micro_batch;
  while (batch % count != 0) ++count;
  out.assumptions.push_back(fmt::format("{} microbatches of {} for ones of {} and a rest", count,
                                        batch / count, plan.batch.micro_batch));
  plan.batch.micro_batch = batch / count;
}

// With a pipeline torchtitan cuts a rank's batch into as many microbatches as there are stages,
// unless it is told [torchtitan of December 2024, parallelisms/pipelining_utils.py:
// build_pipeline_schedule]. 0: not known.
int microbatch_of_torchtitan(const Row& row, const nlohmann::json& extra, int pp) {
  const auto batch = extra.find("local_batch_size");
  if (!starts_with(cell(row, "framework"), "torchtitan") || pp < 2) return 0;
  if (batch == extra.end() || !batch->is_number_integer()) return 0;
  const std::int64_t sequences = batch->get<std::int64_t>();
  return sequences > 0 && sequences <= count_max && sequences % pp == 0
             ? static_cast<int>(sequences / pp)
             : 0;
}

// tp, cp, pp, dp and the batch; "" or what is missing or contradictory.
std::string read_degrees(const Row& row, const nlohmann::json& extra, RowPlan& out) {
  workload::Plan& plan = out.plan;
  std::string missing;
  const auto need = [&](const char* column, int otherwise) {
    const int value = cell(row, column).empty() ? otherwise : degree(row, column);
    if (value == 0) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", column);
    return value;
  };
  plan.mesh.tp = need("tp", 0);
  plan.mesh.pp = need("pp", 0);
  plan.mesh.cp = need("cp", 1);
  // NVIDIA's recipes train with microbatches of one unless they say otherwise.
  const bool recipe = starts_with(cell(row, "framework"), "NeMo");
  plan.batch.micro_batch =
      need("mbs", recipe ? 1 : microbatch_of_torchtitan(row, extra, plan.mesh.pp));
  if (recipe && cell(row, "mbs").empty()) out.assumptions.emplace_back("microbatches of one");
  int gpus = degree(row, "n_gpus");
  const std::int64_t model_parallel =
      std::int64_t{plan.mesh.tp} * plan.mesh.pp * std::max(plan.mesh.cp, 1);
  plan.mesh.dp = degree(row, "dp");
  if (plan.mesh.dp == 0 && gpus == 0 && missing.empty()) gpus = gpus_of_experts(row, plan, out);
  if (plan.mesh.dp == 0 && gpus == 0) missing += missing.empty() ? "n_gpus" : ", n_gpus";
  if (!missing.empty()) return "not published: " + missing;
  if (plan.mesh.dp == 0) {
    if (gpus % model_parallel != 0) {
      return fmt::format("{} GPUs are not a multiple of tp x cp x pp = {}", gpus, model_parallel);
    }
    plan.mesh.dp = static_cast<int>(gpus / model_parallel);
  }
  const std::int64_t world = model_parallel * plan.mesh.dp;
  if (world > count_max) return "more GPUs than can be";
  if (gpus != 0 && world != gpus) {
    return fmt::format("tp x cp x pp x dp = {} is not the row's {} GPUs", world, gpus);
  }
  plan.batch.global_batch = degree(row, "gbs");
  const std::int64_t microbatches = leading_number(cell(row, "n_microbatch")).value_or(0);
  if (plan.batch.global_batch == 0 && microbatches > 0) {
    const std::int64_t batch =
        std::min(microbatches, count_max) * plan.mesh.dp * plan.batch.micro_batch;
    if (batch <= count_max) plan.batch.global_batch = static_cast<int>(batch);
  }
  if (plan.batch.global_batch == 0) return "not published: gbs";
  even_microbatches(out);
  return "";
}

std::string read_precision(const Row& row, RowPlan& out) {
  const std::string& text = cell(row, "precision");
  if (contains(text, "rowwise")) return "fp8 with a scale a row is not represented";
  if (contains(text, "fp8")) {
    out.plan.numerics.fp8 = true;
    if (text != "fp8") out.assumptions.push_back(text + " as fp8 with delayed scaling");
  } else if (starts_with(text, "fp32") || starts_with(text, "tf32")) {
    return "training in fp32 is not represented";
  } else if (starts_with(text, "fp16")) {
    out.plan.numerics.precision = model::Precision::fp16;
  } else {
    out.plan.numerics.precision = model::Precision::bf16;
    if (!contains(text, "bf16")) out.assumptions.emplace_back("bf16");
  }
  return "";
}

// Composer's mp_mode: PURE gathers and reduces in bf16; DEFAULT reduced bf16 gradients of fp32
// parameters under autocast until composer 0.13, and since then gathers bf16 and reduces fp32
// [mosaicml/composer trainer/mosaic_fsdp_utils.py:get_mixed_precision].
void composer_precision(const Row& row, workload::Plan& plan) {
  const bool pure = contains(cell(row, "precision"), "PURE");
  const bool early = contains(cell(row, "version"), "May 2023");
  plan.numerics.fp32_gradients = !pure && !early;
  plan.sharding.fsdp.fp32_parameters = !pure && early;
}

std::string read_shards(const Row& row, workload::DataParallelism kind, RowPlan& out) {
  const std::string& text = cell(row, "zero");
  workload::Plan& plan = out.plan;
  const bool whole = starts_with(text, "SHARD_GRAD_OP");
  const bool full = starts_with(text, "FULL_SHARD") || starts_with(text, "FSDP2 full");
  if (!whole && !full) return fmt::format("sharding '{}' is not represented", text);
  plan.sharding.data_parallel = kind;
  plan.sharding.fsdp.reshard_after_forward = full;
  plan.sharding.distributed_optimizer = false;
  if (kind == workload::DataParallelism::fsdp1) composer_precision(row, plan);
  return "";
}

std::string read_sharding(const Row& row, workload::DataParallelism kind, RowPlan& out) {
  if (kind != workload::DataParallelism::ddp) return read_shards(row, kind, out);
  const std::string& text = cell(row, "zero");
  const bool sharded =
      starts_with(text, "1") || starts_with(text, "zero1") || starts_with(text, "ZeRO-1");
  const bool whole = text.empty() || starts_with(text, "0") || starts_with(text, "ZeRO-0");
  if (!sharded && !whole) return fmt::format("sharding '{}' is not represented", text);
  out.plan.sharding.distributed_optimizer = sharded;
  if (starts_with(text, "zero1 size=") && text != "zero1 size=-1") {
    out.assumptions.push_back(text + " as sharded over all replicas");
  }
  return "";
}

// MLPerf's benchmark has rank 16 beside the attention's products [mlcommons/training
// llama2_70b_lora/README.md: LoRA rank 16, attention modules]; NVIDIA's recipes for speed have
// linear_qkv alone, rank 8 [NVIDIA/NeMo nemo/collections/llm/recipes/llama3_8b.py:
// finetune_recipe].
void read_adapters(const Row& row, const nlohmann::json& extra, RowPlan& out) {
  if (!starts_with(cell(row, "kind"), "lora")) return;
  workload::LoraOptions& lora = out.plan.lora;
  const bool mlperf = starts_with(cell(row, "source_group"), "mlperf");
  lora.rank = mlperf ? 16 : 8;
  lora.projection = mlperf;
  lora.fc1 = lora.fc2 = false;
  if (mlperf) {
    // Matrices in fp8 without cached transposes, packed sequences, no recomputation
    // [mlcommons/training_results_v4.0 NVIDIA/benchmarks/llama2_70b_lora/implementations/nemo:
    // conf/megatron_gpt_peft_tuning_config.yaml, configs/config_common.sh].
    out.plan.numerics.fp8_parameters = out.plan.numerics.fp8;
    out.plan.environment.avoid_record_streams = true;
    out.plan.stack.attention_mask = out.plan.stack.check_for_nan = false;
    out.plan.stack.tp_comm_overlap =
        flag(extra, "TP_COMM_OVERLAP") && out.plan.uses_sequence_parallel();
  }
  out.assumptions.push_back(fmt::format("adapters of rank {} beside {}", lora.rank,
                                        mlperf ? "linear_qkv and linear_proj" : "linear_qkv"));
}

void read_recompute(const Row& row, RowPlan& out) {
  const std::string& text = cell(row, "recompute");
  if (starts_with(text, "full")) {
    out.plan.policy.recompute = workload::Recompute::full;
  } else if (starts_with(text, "selective")) {
    out.plan.policy.recompute = workload::Recompute::selective;
    if (contains(text, "op-level")) out.plan.policy.recompute_modules = {false, false, true};
  } else if (out.plan.policy.recompute != workload::Recompute::none) {
    return;  // its recipe says
  } else if (!starts_with(text, "none") || contains(text, "?") || contains(text, "unstated")) {
    out.assumptions.emplace_back("no recomputation");
  }
}

// Frameworks without TransformerEngine's modules. llm-foundry's benchmarks ran attn_impl triton
// until March 2024 [scripts/train/benchmarking/submit_benchmarks.py]; torchtitan's SDPA is
// PyTorch's copy of flash-attn 2; InternEvo installed flash-attn 1.0.5 [doc/install.md, 2023].
std::optional<workload::AttentionBackend> attention_of_framework(const Row& row) {
  const std::string& framework = cell(row, "framework");
  if (starts_with(framework, "composer")) return workload::AttentionBackend::triton;
  if (starts_with(framework, "torchtitan")) return workload::AttentionBackend::flash;
  if (starts_with(framework, "InternEvo")) return workload::AttentionBackend::flash1;
  return std::nullopt;
}

// The others run TransformerEngine on Hopper, which prefers cuDNN's fused attention there (and on
// Blackwell), whatever --use-flash-attn says; flash-attn elsewhere.
void read_attention(const Row& row, RowPlan& out) {
  const std::string& text = cell(row, "attention");
  if (starts_with(text, "unfused")) {
    out.plan.stack.attention = workload::AttentionBackend::unfused;
    return;
  }
  if (const auto backend = attention_of_framework(row)) {
    out.plan.stack.attention = *backend;
    return;
  }
  const std::string& gpu = cell(row, "gpu");
  const bool hopper = contains(gpu, "H100") || contains(gpu, "H200") || contains(gpu, "B200");
  out.plan.stack.attention =
      hopper ? workload::AttentionBackend::cudnn : workload::AttentionBackend::flash;
  if (!contains(text, "flash") && !contains(text, "fused") && !starts_with(text, "te ")) {
    out.assumptions.emplace_back("fused attention");
  }
}

// NVIDIA's launchers say how NCCL and PyTorch hold memory [NVIDIA/NeMo-Framework-Launcher
// launcher_scripts/conf/config.yaml: env_vars; NVIDIA/dgxc-benchmarking llama3.1/configure.sh;
// NVIDIA-NeMo/Megatron-Bridge scripts/performance], and the later ones that matrices are in fp8
// [configure.sh: fp8_params; mixed_precision.py: fp8_param_gather].
void read_launcher(const Row& row, RowPlan& out) {
  workload::Plan& plan = out.plan;
  const std::string& group = cell(row, "source_group");
  const bool bridge = starts_with(cell(row, "framework"), "Megatron-Bridge");
  const bool benchmarking = starts_with(group, "dgxc");
  if (!bridge && !benchmarking && !starts_with(group, "nemo")) return;
  plan.environment.avoid_record_streams = true;
  out.machine.no_nvlink_sharp = true;
  const bool adapters = starts_with(cell(row, "kind"), "lora");
  plan.numerics.fp8_parameters = plan.numerics.fp8 && !adapters && (bridge || benchmarking);
  // "SQuAD-v1.1, packed to 4096 tokens" [NVIDIA/NeMo docs/source/performance/
  // performance_summary.md: Finetuning; recipes/llama3_8b.py: performance_mode]: a paragraph, a
  // question and an answer, some 180 tokens.
  if (adapters || starts_with(cell(row, "kind"), "sft")) {
    plan.batch.packed_document = 180;
    out.assumptions.emplace_back("documents of 180 tokens packed into a sample");
  }
  // The launcher of Nemotron's benchmarks overrides its yaml [dgxc-benchmarking
  // nemotron/configure.sh: ub_tp_comm_overlap=True]; of NeMo's launcher, gpt3/175b.yaml has it.
  if (bridge || (benchmarking && contains(cell(row, "model"), "nemotron")) ||
      cell(row, "model") == "gpt3-175b")
    plan.stack.tp_comm_overlap = plan.uses_sequence_parallel();
}

// NeMo 1 trains with apex's optimizer: it reads the 16-bit gradients and keeps beside bf16
// parameters the other half of their fp32 masters, beside fp8 parameters whole ones [NVIDIA/NeMo
// megatron_base_model.py:setup_optimization; apex contrib distributed_fused_adam.py].
void read_apex_optimizer(const Row& row, workload::Plan& plan) {
  const std::string& version = cell(row, "version");
  const bool first = starts_with(version, "NeMo launcher") || starts_with(version, "v24.") ||
                     starts_with(version, "v25.02") || starts_with(version, "MLPerf v3") ||
                     starts_with(version, "MLPerf v4");
  if (!first || !starts_with(cell(row, "framework"), "NeMo")) return;
  if (!plan.sharding.distributed_optimizer || plan.numerics.fp32_gradients) return;
  plan.optimizer.precision_aware = true;
  plan.optimizer.main_parameter_bytes = plan.numerics.fp8_parameters ? 4 : 2;
}

// What a framework does otherwise than Megatron-LM with TransformerEngine.
void read_framework(const Row& row, const nlohmann::json& extra, workload::Plan& plan) {
  const std::string& framework = cell(row, "framework");
  if (starts_with(framework, "composer")) {
    // Its optimizer is a loop over tensors, its trainer measures two cross entropies of every
    // microbatch, and gathers come after a unit's backward [composer 0.16
    // optim/decoupled_weight_decay.py, trainer/trainer.py:_eval_train_metrics,
    // trainer/dist_strategy.py; llm-foundry models/mpt/modeling_mpt.py: use_train_metrics]. MPT's
    // loss is flash-attn's.
    plan.stack.layer_kernels = workload::LayerKernels::eager;
    plan.stack.fused_cross_entropy = true;
    plan.stack.fused_optimizer = false;
    plan.stack.logit_metrics = 2;
    plan.sharding.fsdp.backward_prefetch = 0;
  } else if (starts_with(framework, "torchtitan")) {
    const bool compiled = flag(extra, "compile") || contains(extra.dump(), "compile");
    plan.stack.layer_kernels =
        compiled ? workload::LayerKernels::compiled : workload::LayerKernels::eager;
    plan.stack.rope_fusion = plan.stack.swiglu_fusion = compiled;
    // Async TP: products in pieces beside their gathers and scatters, as user buffers.
    const std::string technique = extra.value("technique", "");
    plan.stack.tp_comm_overlap = contains(technique, "async TP") || contains(technique, "AsyncTP");
    // It sets both itself [torchtitan utils.py:init_distributed; run_llama_train.sh].
    plan.environment.avoid_record_streams = true;
    plan.environment.allocator_options = "expandable_segments:True";
    // Behind a forward pass of a stage parameters stay whole
    // [parallelisms/parallelize_llama.py:apply_fsdp].
    if (plan.mesh.pp > 1) plan.sharding.fsdp.reshard_after_forward = false;
  } else if (starts_with(cell(row, "source_group"), "bloom")) {
    // Large jobs hung without it [bigscience train/tr11-176B-ml/chronicles-prequel.md, "dealing
    // with JZ hanging on the large model"].
    plan.environment.launch_blocking = degree(row, "n_gpus") > degree(row, "gpus_per_node");
  } else if (starts_with(framework, "InternEvo")) {
    // flash-attn's attention and loss between operators of PyTorch: the norm where apex is missing
    // (as the times of single nodes say), silu(gate) and its product [internlm/model/utils.py:
    // try_import_RMSNorm]; accuracy and perplexity of every microbatch [metrics.py:AccPerplex].
    plan.stack.swiglu_fusion = false;
    plan.stack.layer_kernels = workload::LayerKernels::eager;
    plan.stack.fused_cross_entropy = true;
    plan.stack.logit_metrics = 2;
  }
}

void read_switches(const Row& row, const nlohmann::json& extra, const Framework& framework,
                   RowPlan& out) {
  workload::Plan& plan = out.plan;
  const std::string& notes = cell(row, "notes");
  const bool ci = cell(row, "source_group") == "megatron-ci";
  const bool half = plan.numerics.precision == model::Precision::fp16;
  // The baseline of MegaScale's paper gathers and scatters sequences (arXiv 2402.15627, 3.2).
  const bool megascale = starts_with(cell(row, "source_group"), "megascale");
  plan.mesh.sequence_parallel =
      cell(row, "sp").empty() ? framework.overlaps || megascale : cell(row, "sp") == "1";
  plan.sharding.overlap_grad_reduce = ci ? flag(extra, "overlap-grad-reduce") : framework.overlaps;
  plan.sharding.overlap_param_gather =
      (ci ? flag(extra, "overlap-param-gather") : framework.overlaps) &&
      plan.sharding.distributed_optimizer;
  // Megatron-LM accumulates in fp32 with bf16, in the training precision with fp16; NVIDIA's
  // recipes say so per row.
  const auto dtype = extra.find("grad_sync_dtype");
  if (!plan.shards_parameters()) plan.numerics.fp32_gradients = framework.fp32_gradients && !half;
  if (dtype != extra.end() && *dtype == "bf16") plan.numerics.fp32_gradients = false;
  if (contains(cell(row, "precision"), "fp32 grad")) plan.numerics.fp32_gradients = true;
  plan.stack.gradient_accumulation_fusion =
      framework.fused_weight_gradient && !flag(extra, "no-gradient-accumulation-fusion");
  plan.stack.tp_comm_overlap = flag(extra, "tp_comm_overlap") || flag(extra, "tp-comm-overlap") ||
                               flag(extra, "TP_COMM_OVERLAP");
  plan.stack.rope_fusion = !flag(extra, "no-rope-fusion");
  plan.stack.attention_mask =
      framework.attention_mask && !flag(extra, "no-create-attention-mask-in-dataloader");
  plan.stack.check_for_nan = ci || framework.checks_nan;
  // Their fork of Megatron-LM reads every shard back, and their scripts of core 0.8 reset masks.
  plan.stack.logs_optimizer_state = contains(cell(row, "framework"), "authors' fork");
  plan.stack.reset_attention_mask = plan.stack.logs_optimizer_state && plan.stack.attention_mask;
  plan.environment.avoid_record_streams = contains(notes, "\"TORCH_NCCL_AVOID_RECORD_STREAMS\": 1");
  // TransformerEngine 2.11 is of a time when PyTorch no longer records streams for NCCL [pytorch
  // pull 148590, NVIDIA/Megatron-LM issue 1586: ignored since the 25.05 containers].
  if (contains(cell(row, "version"), "TE 2.11")) {
    plan.environment.avoid_record_streams = true;
    plan.stack.kept_gradient_handles = true;
  }
  if (contains(notes, "expandable_segments:True")) {
    plan.environment.allocator_options = "expandable_segments:True";
  }
}

void read_scope(const Row& row, RowPlan& out) {
  const std::string& scope = cell(row, "mem_scope");
  if (starts_with(scope, "last")) out.memory_rank = MemoryRank::last;
  if (starts_with(scope, "rank 0")) out.memory_rank = MemoryRank::first;
  const auto stage = leading_number(cell(row, "pp_stage"));
  if (!stage || *stage < 0 || *stage >= out.plan.mesh.pp || contains(cell(row, "pp_stage"), ","))
    return;
  out.memory_stage = static_cast<int>(*stage);
  // Megatron-LM's order of ranks, fastest first: tp, cp, dp, pp.
  const auto rank = leading_number(cell(row, "rank"));
  if (rank && *rank >= 0)
    out.memory_cp_rank = static_cast<int>(*rank / out.plan.mesh.tp % out.plan.mesh.cp);
}

// The convention of the row's TFLOP/s; the paper's where the row does not say. NVIDIA's tables of
// fine-tuning count neither the attention of packed samples (but Megatron Bridge does) nor what
// frozen weights have no gradients for, as their own times say: within 0.5 % of these.
void read_convention(const Row& row, RowPlan& out) {
  const bool bridge = starts_with(cell(row, "framework"), "Megatron-Bridge");
  if (out.plan.batch.packed_document > 0 && (out.plan.trains_adapters() || !bridge)) {
    out.convention =
        model::find_flop_convention(out.plan.trains_adapters() ? "frozen-weights" : "weights");
    return;
  }
  out.convention = model::convention_for(cell(row, "tflops_kind"));
  if (out.convention != nullptr) return;
  out.convention = model::find_flop_convention("paper");
  if (!cell(row, "tflops_gpu").empty()) {
    out.assumptions.emplace_back("TFLOP/s by the paper's formula");
  }
}

// "4x200Gb/s per node", "IB HDR 4x200 = 800 Gb/s/node", "8x 400": NICs of a node and their rate.
void read_machine(const Row& row, RowMachine& machine) {
  static const std::regex links(R"((\d{1,2})x ?(\d{2,4}) ?(Gb/s|=|\())");
  std::smatch found;
  const std::string& text = cell(row, "inter_net");
  const bool site = contains(text, "Jean Zay");  // its description says what its NICs give
  if (!site && text.size() < 200 && std::regex_search(text, found, links)) {
    machine.nics = std::stoi(found[1]);
    machine.nic = {std::stoll(found[2]) * 125'000'000};
  }
  machine.gpus_per_node = degree(row, "gpus_per_node");
}

}  // namespace

RowPlan plan_of(const Row& row) {
  RowPlan out;
  const ClusterChoice choice = cluster_of(row);
  const Framework* framework = framework_of(row);
  const nlohmann::json more = extra(row);
  out.unsupported = choice.problem;
  const auto also = [&](const std::string& problem) {
    if (out.unsupported.empty()) out.unsupported = problem;
  };
  also(read_architecture(row, more, out));
  if (framework == nullptr) also("framework '" + cell(row, "framework") + "' is not known");
  if (framework != nullptr && *framework->refused != '\0') {
    also(std::string(framework->name) + ": " + framework->refused);
  }
  const auto kind = framework ? framework->shards : workload::DataParallelism::ddp;
  also(read_sharding(row, kind, out));
  also(read_precision(row, out));
  if (out.unsupported.empty()) also(read_degrees(row, more, out));
  if (out.unsupported.empty()) finish_experts(row, out);
  if (out.unsupported.empty()) also(read_schedule(row, more, out));
  if (!out.unsupported.empty()) return out;
  read_recompute(row, out);
  read_attention(row, out);
  read_switches(row, more, *framework, out);
  read_framework(row, more, out.plan);
  read_launcher(row, out);
  read_apex_optimizer(row, out.plan);
  read_adapters(row, more, out);
  read_scope(row, out);
  read_convention(row, out);
  read_machine(row, out.machine);
  out.machine.cluster = choice.cluster;
  return out;
}

}  // namespace sim::calibrate
