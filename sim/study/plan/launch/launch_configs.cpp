#include "sim/study/plan/launch/launch_configs.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "sim/study/plan/launch/limits.h"

namespace sim::planner {

namespace {

using program::Plan;
using program::Recompute;

std::string reason_against_nemo(const Plan& plan) {
  if (plan.architecture.is_mixture()) return "the experts of NeMo 1 are those of its checkpoints";
  if (plan.policy.offload_modules != 0) return "offload of activations is said in code there";
  if (plan.numerics.fp8_recipe == program::Fp8Recipe::tensorwise)
    return "NeMo 1 has the delayed recipe of fp8 alone";
  return "";
}

// The section of the network.
std::string nemo_network(const model::Architecture& a) {
  return fmt::format(
      "  num_layers: {}\n  hidden_size: {}\n  ffn_hidden_size: {}\n  num_attention_heads: {}\n"
      "  kv_channels: {}\n  num_query_groups: {}\n  max_position_embeddings: {}\n"
      "  normalization: {}\n  activation: {}\n  bias: {}\n  position_embedding_type: {}\n"
      "  share_embeddings_and_output_weights: {}\n  hidden_dropout: {:.1f}\n"
      "  attention_dropout: {:.1f}\n",
      a.layers, a.hidden, a.ffn, a.heads, a.head_dim, a.kv_heads, a.max_positions,
      a.norm == model::Norm::rms ? "rmsnorm" : "layernorm1p",
      a.activation == model::Activation::swiglu ? "fast-swiglu" : "gelu", a.linear_bias,
      a.position == model::Position::rope ? "rope" : "learned_absolute", a.tied_embeddings,
      a.hidden_dropout, a.attention_dropout);
}

// Reason why nanotron cannot run the plan; "" if it can.
std::string reason_against_nanotron(const Plan& plan) {
  if (plan.numerics.fake_quantization != program::FakeQuantization::none)
    return "nanotron trains without rounded operands";
  const model::Architecture& a = plan.architecture;
  if (a.is_mixture() || a.is_latent() || a.norm != model::Norm::rms || a.qkv_bias ||
      a.linear_bias || a.activation != model::Activation::swiglu ||
      a.position != model::Position::rope || a.sliding_window > 0 || a.query_key_norm)
    return "nanotron's Llama is a dense network with RMSNorm, SwiGLU and rotary positions";
  if (std::string reason = first_broken(Program::nanotron, plan); !reason.empty()) return reason;
  if (plan.sharding.deepspeed_optimizer) return "nanotron's optimizer is its own";
  if (plan.numerics.fp8) return "nanotron has no fp8";
  return "";
}

}  // namespace

LaunchText nemo(const Plan& plan, const std::string& left, const LaunchNodes& nodes) {
  LaunchText out{"NeMo 1", "nemo.yaml", "", left};
  if (out.left.empty()) out.left = reason_against_nemo(plan);
  if (!out.left.empty()) return out;
  const program::LayerPolicy& policy = plan.policy;
  // The rest is NeMo's own configuration, found by Hydra.
  out.text =
      "# NEMO is the folder of NeMo; the tokenizer is GPT-2's: put your model's in its place\n" +
      environment_comment(plan) +
      command_comment(nodes,
                      "\"$NEMO/examples/nlp/language_modeling/megatron_gpt_pretraining.py\" "
                      "--config-path \"$PWD\" --config-name nemo");
  out.text += fmt::format(
      "defaults: [megatron_gpt_config, _self_]\n"
      "hydra:\n"
      "  searchpath: [\"file://${{oc.env:NEMO}}/examples/nlp/language_modeling/conf\"]\n"
      "trainer:\n  devices: {}\n  num_nodes: {}\n  max_steps: 10\n  limit_val_batches: 0\n"
      "  precision: {}\n",
      nodes.per_node, nodes.nodes,
      plan.numerics.precision == model::Precision::fp16 ? "16" : "bf16");
  out.text += fmt::format(
      "exp_manager:\n  create_checkpoint_callback: false\n"
      "model:\n  mcore_gpt: true\n  data:\n    mock_dataset: true\n    data_prefix: []\n"
      "  micro_batch_size: {}\n  global_batch_size: {}\n  encoder_seq_length: {}\n"
      "  tensor_model_parallel_size: {}\n  pipeline_model_parallel_size: {}\n"
      "  context_parallel_size: {}\n  sequence_parallel: {}\n",
      plan.batch.micro_batch, plan.batch.global_batch, plan.batch.sequence, plan.mesh.tp,
      plan.mesh.pp, plan.mesh.cp, plan.mesh.sequence_parallel && plan.mesh.tp > 1);
  if (plan.pipeline.virtual_stages > 1)
    out.text +=
        fmt::format("  virtual_pipeline_model_parallel_size: {}\n", plan.pipeline.virtual_stages);
  out.text += nemo_network(plan.architecture);
  if (policy.recompute == Recompute::selective)
    out.text += "  activations_checkpoint_granularity: selective\n";
  if (policy.recompute == Recompute::full)
    out.text += fmt::format(
        "  activations_checkpoint_granularity: full\n  activations_checkpoint_method: {}\n"
        "  activations_checkpoint_num_layers: {}\n",
        policy.recompute_method == program::RecomputeMethod::block ? "block" : "uniform",
        policy.recompute_layers);
  if (plan.numerics.fp8) out.text += "  fp8: true\n  fp8_hybrid: true\n";
  out.text += fmt::format("  gradient_accumulation_fusion: {}\n  ub_tp_comm_overlap: {}\n",
                          plan.stack.gradient_accumulation_fusion, plan.stack.tp_comm_overlap);
  if (plan.numerics.fp32_gradients) out.text += "  megatron_amp_O2: true\n";
  out.text +=
      fmt::format("  optim:\n    name: {}\n    overlap_grad_sync: {}\n    overlap_param_sync: {}\n",
                  plan.sharding.distributed_optimizer ? "distributed_fused_adam" : "fused_adam",
                  plan.sharding.overlap_grad_reduce, plan.sharding.overlap_param_gather);
  return out;
}

LaunchText deepspeed(const Plan& plan) {
  LaunchText out{"DeepSpeed", "ds_config.json", "", ""};
  if (!plan.shards_parameters() || !plan.sharding.fsdp.reshard_after_forward) {
    out.left = "of DeepSpeed's optimizers ZeRO-3 is written, which gathers again in backward";
    return out;
  }
  const program::FsdpOptions& shards = plan.sharding.fsdp;
  const program::OptimizerOptions& o = plan.optimizer;
  nlohmann::ordered_json zero = {{"stage", 3},
                                 {"overlap_comm", plan.sharding.overlap_grad_reduce},
                                 {"reduce_scatter", !plan.sharding.deepspeed_all_reduce},
                                 {"sub_group_size", o.sub_group}};
  if (shards.secondary > 1) zero["zero_hpz_partition_size"] = shards.secondary;
  if (shards.quantized_weights) zero["zero_quantized_weights"] = true;
  if (shards.quantized_gradients) zero["zero_quantized_gradients"] = true;
  if (o.offload_fraction > 0)
    zero["offload_optimizer"] = {
        {"device", "cpu"}, {"pin_memory", true}, {"ratio", o.offload_fraction}};
  const bool half = plan.numerics.precision == model::Precision::fp16;
  nlohmann::ordered_json all = {{"train_batch_size", plan.batch.global_batch},
                                {"train_micro_batch_size_per_gpu", plan.batch.micro_batch},
                                {half ? "fp16" : "bf16", {{"enabled", true}}},
                                {"gradient_clipping", plan.stack.gradient_clipping ? 1.0 : 0.0}};
  if (plan.numerics.fp32_gradients) all["data_types"] = {{"grad_accum_dtype", "fp32"}};
  all["zero_optimization"] = std::move(zero);
  out.text = all.dump(2) + "\n";
  out.left = "the model and how its layers run";
  if (o.gpu_stride > 0) out.left += ", optimizer_gpu_stride (a fork's)";
  if (o.async_gradient_copy) out.left += ", async_gradient_copy (a fork's)";
  return out;
}

LaunchText nanotron(const Plan& plan, const LaunchNodes& nodes) {
  LaunchText out{"nanotron", "nanotron.yaml", "", reason_against_nanotron(plan)};
  if (!out.left.empty()) return out;
  const model::Architecture& a = plan.architecture;
  const int replicas = plan.mesh.dp;
  out.text = environment_comment(plan) +
             command_comment(nodes, "run_train.py --config-file nanotron.yaml");
  out.text += fmt::format(
      "general:\n  project: rehearse\n  seed: 1\n"
      "checkpoints:\n  checkpoints_path: checkpoints\n  checkpoint_interval: 1000000\n"
      "parallelism:\n  dp: {}\n  pp: {}\n  tp: {}\n  expert_parallel_size: 1\n  pp_engine: {}\n"
      "  tp_mode: {}\n  tp_linear_async_communication: false\n  recompute_layer: {}\n"
      "tokens:\n  sequence_length: {}\n  train_steps: 10\n  micro_batch_size: {}\n"
      "  batch_accumulation_per_replica: {}\n",
      replicas, plan.mesh.pp, plan.mesh.tp, plan.pipeline.schedule == "gpipe" ? "afab" : "1f1b",
      plan.mesh.sequence_parallel && plan.mesh.tp > 1 ? "REDUCE_SCATTER" : "ALL_REDUCE",
      plan.policy.recompute == Recompute::full, plan.batch.sequence, plan.batch.micro_batch,
      plan.microbatches());
  out.text += fmt::format(
      "model:\n  dtype: {}\n  make_vocab_size_divisible_by: 1\n  init_method:\n    std: 0.02\n"
      "  model_config:\n    is_llama_config: true\n    hidden_size: {}\n    intermediate_size: {}\n"
      "    num_attention_heads: {}\n    num_key_value_heads: {}\n    num_hidden_layers: {}\n"
      "    vocab_size: {}\n    max_position_embeddings: {}\n    tie_word_embeddings: {}\n"
      "    hidden_act: silu\n",
      plan.numerics.precision == model::Precision::fp16 ? "float16" : "bfloat16", a.hidden, a.ffn,
      a.heads, a.kv_heads, a.layers, a.vocab, a.max_positions, a.tied_embeddings);
  out.text += fmt::format(
      "optimizer:\n  zero_stage: {}\n  accumulate_grad_in_fp32: {}\n  clip_grad: {:.1f}\n"
      "  weight_decay: 0.01\n  optimizer_factory:\n    name: adamW\n    adam_beta1: 0.9\n"
      "    adam_beta2: 0.95\n    adam_eps: 1.0e-08\n    torch_adam_is_fused: true\n"
      "  learning_rate_scheduler:\n    learning_rate: 0.0001\n",
      plan.sharding.distributed_optimizer ? 1 : 0, plan.numerics.fp32_gradients,
      plan.stack.gradient_clipping ? 1.0 : 0.0);
  out.text +=
      "data_stages:\n- name: all\n  start_training_step: 1\n  data:\n    dataset: null\n"
      "    num_loading_workers: 1\n    seed: 1\n";
  return out;
}

}  // namespace sim::planner
