#include "sim/output/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/base/ascii.h"
#include "sim/base/version.h"
#include "sim/model/words.h"
#include "sim/output/json_fields.h"
#include "sim/program/parallel/offload/module_offload.h"
#include "sim/program/plan/cuda_graphs.h"
#include "sim/program/plan/layer_choices.h"

namespace sim::output {

namespace {

const char* text(program::Recompute recompute) {
  switch (recompute) {
    case program::Recompute::none:
      return "none";
    case program::Recompute::selective:
      return "selective";
    case program::Recompute::full:
      break;
  }
  return "full";
}

const char* text(program::AttentionBackend attention) {
  switch (attention) {
    case program::AttentionBackend::flash:
      return "flash";
    case program::AttentionBackend::cudnn:
      return "cudnn";
    case program::AttentionBackend::flash1:
      return "flash1";
    case program::AttentionBackend::triton:
      return "triton";
    case program::AttentionBackend::unfused:
      break;
  }
  return "unfused";
}

const char* text(program::LayerKernels kernels) {
  switch (kernels) {
    case program::LayerKernels::fused:
      return "fused";
    case program::LayerKernels::eager:
      return "eager";
    case program::LayerKernels::compiled:
      break;
  }
  return "compiled";
}

const char* text(program::KeptOutputs outputs) {
  switch (outputs) {
    case program::KeptOutputs::no_stage:
      break;
    case program::KeptOutputs::last_stage:
      return "last_stage";
    case program::KeptOutputs::every_stage:
      return "every_stage";
  }
  return "no_stage";
}

const char* text(program::LayerCode code) {
  switch (code) {
    case program::LayerCode::core:
      return "core";
    case program::LayerCode::before_core:
      return "before_core";
    case program::LayerCode::one_function:
      break;
  }
  return "one_function";
}

const char* text(program::CrossEntropy how) {
  switch (how) {
    case program::CrossEntropy::stepwise:
      return "stepwise";
    case program::CrossEntropy::native:
      return "native";
    case program::CrossEntropy::te:
      return "te";
    case program::CrossEntropy::one_kernel:
      break;
  }
  return "one_kernel";
}

const char* text(program::DataParallelism kind) {
  switch (kind) {
    case program::DataParallelism::ddp:
      return "ddp";
    case program::DataParallelism::fsdp1:
      return "fsdp1";
    case program::DataParallelism::fsdp2:
      break;
  }
  return "fsdp2";
}

JSON_FIELDS(program::FsdpOptions, reshard_after_forward, limit_all_gathers, no_sync,
            fp32_parameters, forward_prefetch, backward_prefetch, replicas)
JSON_FIELDS(program::OptimizerOptions, precision_aware, main_parameter_bytes, exp_avg_bytes,
            exp_avg_sq_bytes, offload_fraction, sub_group, gpu_stride, async_gradient_copy)
JSON_FIELDS(model::Latent, kv_rank, q_rank, content, rotated, value)

// Additional fields of mixtures of experts and of latent attention.
Json experts_json(const model::Experts& e) {
  return {{"count", e.count},
          {"per_token", e.top_k},
          {"ffn", e.ffn},
          {"shared_ffn", e.shared_ffn},
          {"layers", e.layers}};
}

Json routing_json(const program::ExpertsPlan& e) {
  constexpr const char* dispatchers[] = {"alltoall", "allgather", "alltoall_seq", "flex"};
  constexpr const char* routings[] = {"balanced", "random", "skewed"};
  return {{"dispatcher", dispatchers[static_cast<std::size_t>(e.dispatcher)]},
          {"router", routings[static_cast<std::size_t>(e.routing)]},
          {"router_skew", e.skew},
          {"router_load", e.load},
          {"router_seed", e.seed},
          {"capacity_factor", e.capacity_factor},
          {"pad_to_capacity", e.pads_to_capacity},
          {"grouped_gemm", e.grouped_gemm},
          {"legacy_grouped_gemm", e.legacy_grouped_gemm},
          {"permute_fusion", e.permute_fusion},
          {"fp32_router", e.fp32_router},
          {"late_probabilities", e.late_probabilities},
          {"shared_expert_overlap", e.shared_overlap},
          {"overlap_expert_all_to_all", e.overlaps_all_to_all}};
}

Json architecture_json(const model::Architecture& a) {
  Json json = {{"name", a.name},
               {"layers", a.layers},
               {"hidden", a.hidden},
               {"ffn", a.ffn},
               {"heads", a.heads},
               {"kv_heads", a.kv_heads},
               {"head_dim", a.head_dim},
               {"vocab", a.vocab},
               {"max_positions", a.max_positions},
               {"norm", model::word(a.norm)},
               {"position", model::word(a.position)},
               {"activation", model::word(a.activation)},
               {"tied_embeddings", a.tied_embeddings},
               {"qkv_bias", a.qkv_bias},
               {"linear_bias", a.linear_bias},
               {"attention_dropout", a.attention_dropout},
               {"hidden_dropout", a.hidden_dropout}};
  if (a.is_mixture()) json["experts"] = experts_json(a.experts);
  if (a.is_latent()) json["latent"] = fields(a.latent);
  return json;
}

}  // namespace

namespace {
// Version of a schema; it increases when a key is removed or changes its meaning.
int schema_version(const std::string& command) {
  if (command == "whatif") return 3;
  return command == "run" || command == "explain" || command == "topo-place" ? 2 : 1;
}
}  // namespace

std::string version() {
  return version_text;
}

Json document(const std::string& command, Json result) {
  return {{"schema", fmt::format("rehearse/{}/{}", command, schema_version(command))},
          {"version", version_text},
          {"result", std::move(result)}};
}

namespace {

// The settings of a plan are one object. These functions append its parts in the order of its
// keys.

void add_degrees(const program::Plan& p, Json& json) {
  json["architecture"] = architecture_json(p.architecture);
  json["tp"] = p.mesh.tp;
  json["cp"] = p.mesh.cp;
  json["pp"] = p.mesh.pp;
  json["dp"] = p.mesh.dp;
  json["virtual_stages"] = p.pipeline.virtual_stages;
  json["micro_batch"] = p.batch.micro_batch;
  json["global_batch"] = p.batch.global_batch;
  json["sequence"] = p.batch.sequence;
  json["schedule"] = p.pipeline.schedule;
  json["sequence_parallel"] = p.mesh.sequence_parallel;
}

void add_sharding(const program::Plan& p, Json& json) {
  json["data_parallel"] = text(p.sharding.data_parallel);
  json["fsdp"] = p.shards_parameters() ? fields(p.sharding.fsdp) : Json(nullptr);
  if (p.shards_parameters() && p.sharding.fsdp.low_precision_parameters)
    json["fsdp"]["low_precision_parameters"] = true;
  if (p.shards_parameters() && p.sharding.fsdp.main_parameters)
    json["fsdp"]["main_parameters"] = true;
  if (p.shards_parameters() && p.trains_adapters() && p.sharding.fsdp.separate_adapters)
    json["fsdp"]["separate_adapters"] = true;
  json["distributed_optimizer"] = p.sharding.distributed_optimizer;
  json["overlap_grad_reduce"] = p.sharding.overlap_grad_reduce;
  json["overlap_param_gather"] = p.sharding.overlap_param_gather;
}

void add_kernels(const program::Plan& p, Json& json) {
  const bool uniform = p.policy.recompute_method == program::RecomputeMethod::uniform;
  json["recompute"] = text(p.policy.recompute);
  json["recompute_method"] = uniform ? "uniform" : "block";
  json["recompute_layers"] = p.policy.recompute_layers;
  json["attention"] = text(p.stack.attention);
  json["precision"] = model::word(p.numerics.precision);
  json["fp32_gradients"] = p.numerics.fp32_gradients;
  json["swiglu_fusion"] = p.stack.swiglu_fusion;
  json["rope_fusion"] = p.stack.rope_fusion;
  json["batch_first_core"] = p.stack.batch_first_core;
  json["cross_entropy"] = text(p.stack.cross_entropy);
  json["fp8"] = p.numerics.fp8;
  json["recompute_modules"] = {{"core_attn", p.policy.recompute_modules.core_attention},
                               {"mlp", p.policy.recompute_modules.mlp},
                               {"operators", p.policy.recompute_modules.operators}};
  json["layer_kernels"] = text(p.stack.layer_kernels);
  json["fused_optimizer"] = p.stack.fused_optimizer;
  json["logit_metrics"] = p.stack.logit_metrics;
  json["launch_blocking"] = p.environment.launch_blocking;
  json["checkpoint_early_stop"] = p.stack.checkpoint_early_stop;
  json["norm_fusion"] = p.stack.norm_fusion;
}

void add_optimizer_and_split(const program::Plan& p, Json& json) {
  json["optimizer"] = fields(p.optimizer);
  if (p.optimizer.separate_casts) json["optimizer"]["separate_casts"] = true;
  json["first_stage_layers"] = p.pipeline.first_stage_layers;
  json["last_stage_layers"] = p.pipeline.last_stage_layers;
  json["account_for_embedding"] = p.pipeline.account_for_embedding;
  json["account_for_loss"] = p.pipeline.account_for_loss;
}

void add_runtime(const program::Plan& p, Json& json) {
  json["gradient_accumulation_fusion"] = p.stack.gradient_accumulation_fusion;
  json["attention_mask"] = p.stack.attention_mask;
  json["reset_attention_mask"] = p.stack.reset_attention_mask;
  json["data_workers"] = p.stack.data_workers;
  json["check_for_nan"] = p.stack.check_for_nan;
  json["avoid_record_streams"] = p.environment.avoid_record_streams;
  json["kept_gradient_handles"] = p.stack.kept_gradient_handles;
  json["separate_products"] = p.stack.separate_products;
  json["deterministic"] = p.stack.deterministic;
  json["gradient_clipping"] = p.stack.gradient_clipping;
  json["tp_comm_overlap"] = p.stack.tp_comm_overlap;
  json["logs_optimizer_state"] = p.stack.logs_optimizer_state;
  json["allocator_options"] = p.environment.allocator_options;
  json["rank_order"] = p.mesh.rank_order;
}

void add_experts(const program::Plan& p, Json& json) {
  if (!p.architecture.is_mixture()) return;
  json["ep"] = p.mesh.ep;
  json["etp"] = p.expert_tp();
  json["experts"] = routing_json(p.experts);
}

// The rest has keys only in plans that differ from the default.

void add_layers_and_batch(const program::Plan& p, Json& json) {
  if (p.policy.offload_layers > 0) json["offload_layers"] = p.policy.offload_layers;
  if (p.policy.offload_modules != 0)
    json["offload_modules"] = program::offload_modules_text(p.policy, ",");
  if (p.stack.cuda_graphs.any())
    json["cuda_graph_modules"] = program::cuda_graphs_text(p.stack.cuda_graphs, ",");
  if (!p.policy.choices.empty()) json["layer_choices"] = program::text_of(p.policy.choices);
  if (!p.batch.replica_microbatches.empty())
    json["replica_microbatches"] = p.batch.replica_microbatches;
  if (!p.pipeline.slice_lengths.empty()) json["slices"] = p.pipeline.slice_lengths;
}

void add_numerics(const program::Plan& p, Json& json) {
  const collective::Codecs& codec = p.codec.found;
  const auto name = [](const std::optional<collective::Codec>& one) {
    return one ? one->name : "";
  };
  if (codec.tensor || codec.data || codec.parameters || codec.pipeline)
    json["codec"] = {{"tensor", name(codec.tensor)},
                     {"data", name(codec.data)},
                     {"parameters", name(codec.parameters)},
                     {"pipeline", name(codec.pipeline)}};
  if (p.numerics.fp8) {
    constexpr std::array recipes{"delayed", "tensorwise", "mxfp8", "nvfp4"};
    json["fp8_recipe"] = recipes[static_cast<std::size_t>(p.numerics.fp8_recipe)];
    json["fp8_parameters"] = p.numerics.fp8_parameters;
  }
  if (p.numerics.fake_quantization != program::FakeQuantization::none) {
    json["fake_quantization"] =
        p.numerics.fake_quantization == program::FakeQuantization::weights ? "weights" : "operands";
    json["fake_quantization_clips"] = p.numerics.fake_quantization_clips;
  }
  if (p.batch.packed_document > 0) json["packed_document"] = p.batch.packed_document;
}

void add_parts(const program::Plan& p, Json& json) {
  const program::PipelinePlan& pipeline = p.pipeline;
  if (pipeline.layer_split != program::LayerSplit::even) {
    constexpr std::array names{"even", "padded", "weighted", "balanced"};
    json["layer_split"] = names[static_cast<std::size_t>(pipeline.layer_split)];
    json["embedding_layers"] = pipeline.embedding_layers;
    json["head_layers"] = pipeline.head_layers;
  }
  if (!pipeline.layers_of_parts.empty()) json["layers_of_parts"] = pipeline.layers_of_parts;
  if (pipeline.kept_outputs != program::KeptOutputs::no_stage)
    json["kept_outputs"] = text(pipeline.kept_outputs);
  if (pipeline.kept_input_gradients) json["kept_input_gradients"] = true;
}

void add_framework_code(const program::Plan& p, Json& json) {
  if (p.optimizer.post_validation) json["post_validation"] = true;
  if (p.sharding.optimizer_replicas > 1) json["optimizer_replicas"] = p.sharding.optimizer_replicas;
  if (p.numerics.tf32) json["tf32"] = true;
  if (p.sharding.whole_parameters) json["whole_parameters"] = true;
  if (p.stack.layer_code != program::LayerCode::core) json["layer_code"] = text(p.stack.layer_code);
  if (p.sharding.deepspeed_optimizer) json["deepspeed_optimizer"] = true;
  if (p.sharding.deepspeed_all_reduce) json["deepspeed_all_reduce"] = true;
  if (!p.stack.overlap_tensor_reduce) json["overlap_tensor_reduce"] = false;
  if (p.mesh.tensor_columns > 1) json["tensor_columns"] = p.mesh.tensor_columns;
  if (p.mesh.tensor_depth > 1) {
    json["tensor_depth"] = p.mesh.tensor_depth;
    json["overlap_depth_gather"] = p.stack.overlap_depth_gather;
    json["overlap_depth_scatter"] = p.stack.overlap_depth_scatter;
    json["saved_depth_weights"] = p.stack.saved_depth_weights;
  }
  if (p.stack.joined_halves) json["joined_halves"] = true;
  if (p.stack.repeat_kv) json["repeat_kv"] = true;
}

void add_adapters(const program::Plan& p, Json& json) {
  if (!p.trains_adapters()) return;
  json["lora"] = {{"rank", p.lora.rank},
                  {"linear_qkv", p.lora.qkv},
                  {"linear_proj", p.lora.projection},
                  {"linear_fc1", p.lora.fc1},
                  {"linear_fc2", p.lora.fc2}};
  if (p.lora.all_to_all) json["lora"]["all_to_all"] = true;
  if (p.lora.dropout) json["lora"]["dropout"] = true;
}

}  // namespace

Json to_json(const program::Plan& p) {
  Json json;
  for (const auto add :
       {add_degrees, add_sharding, add_kernels, add_optimizer_and_split, add_runtime, add_experts,
        add_layers_and_batch, add_numerics, add_parts, add_framework_code, add_adapters})
    add(p, json);
  return json;
}

Json to_json(const engine::ProgramLocation& place) {
  return {{"step", place.step},
          {"microbatch", place.microbatch},
          {"pass", std::string(program::name(place.pass))},
          {"chunk", place.chunk},
          {"layer", place.layer},
          {"block", place.block},
          {"tensor", place.label}};
}

std::string key_of(std::string_view name) {
  std::string key = lower(name);
  std::erase(key, ',');
  std::ranges::replace(key, ' ', '_');
  return key;
}

double rounded(double value, int digits) {
  const double scale = std::pow(10.0, digits);
  return std::round(value * scale) / scale;
}

std::string line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json intervals_json(const answer::Intervals& all) {
  Json json = Json::object();
  const auto add = [&](const char* what, const std::optional<answer::Interval>& one,
                       const std::optional<answer::ResidualRange>& spread) {
    if (!one || !spread) return;
    json[what] = {{"lo90", one->low},
                  {"hi90", one->high},
                  {"runs", spread->samples},
                  {"sources", spread->sources},
                  {"situation", spread->of},
                  {"extrapolated", !spread->own_gpu},
                  {"own_framework", spread->own_framework}};
  };
  add("step_time_s", all.step_seconds, all.time);
  add("tflops_gpu", all.tflops_gpu, all.time);
  add("peak_allocated_gib", all.allocated_gib, all.allocated);
  add("peak_reserved_gib", all.reserved_gib, all.reserved);
  return json;
}

}  // namespace sim::output
