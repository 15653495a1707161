#include "sim/input/models/network.h"

#include <fmt/format.h>
#include <google/protobuf/text_format.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/model/words.h"

namespace sim::input {

namespace v1 = rehearse::v1;

namespace {

// Sets `to` if the field is given.
template <class To, class From>
void set(bool given, To& to, const From& value) {
  if (given) to = value;
}

// Sets `to` to the value of the same name.
template <class To>
void set_word(bool given, To& to, const std::string& name) {
  if (given) model::read_word(name, to);
}

void change_experts(const v1::Architecture& from, model::Architecture& to) {
  model::Experts& e = to.experts;
  const bool dense = e.count == 0;
  set(from.has_num_experts(), e.count, from.num_experts());
  if (e.count == 0) return;
  if (dense) {
    e.top_k = 2;
    e.ffn = to.ffn;
  }
  set(from.has_experts_per_token(), e.top_k, from.experts_per_token());
  set(from.has_expert_ffn(), e.ffn, from.expert_ffn());
  set(from.has_shared_expert_ffn(), e.shared_ffn, from.shared_expert_ffn());
  set(from.has_expert_layers(), e.layers, from.expert_layers());
  set_word(from.has_router_score(), e.score,
           v1::Architecture::RouterScore_Name(from.router_score()));
  set(from.has_router_pre_softmax(), e.pre_softmax, from.router_pre_softmax());
  set(from.has_router_groups(), e.groups, from.router_groups());
  set(from.has_router_top_groups(), e.top_groups, from.router_top_groups());
  set(from.has_expert_bias(), e.expert_bias, from.expert_bias());
  set(from.has_auxiliary_loss(), e.auxiliary_loss, from.auxiliary_loss());
  set(from.has_router_bias(), e.router_bias, from.router_bias());
}

void change_latent(const v1::Architecture& from, model::Architecture& to) {
  model::Latent& l = to.latent;
  const bool whole = l.kv_rank == 0;
  set(from.has_kv_lora_rank(), l.kv_rank, from.kv_lora_rank());
  if (l.kv_rank == 0) return;
  if (whole) {
    l.content = l.value = 128;
    l.rotated = 64;
  }
  set(from.has_q_lora_rank(), l.q_rank, from.q_lora_rank());
  set(from.has_qk_head_dim(), l.content, from.qk_head_dim());
  set(from.has_qk_pos_emb_head_dim(), l.rotated, from.qk_pos_emb_head_dim());
  set(from.has_v_head_dim(), l.value, from.v_head_dim());
  to.head_dim = l.content + l.rotated;
  to.kv_heads = to.heads;
}

void change_norms(const v1::Architecture& from, model::Architecture& to) {
  set_word(from.has_norm(), to.norm, v1::Architecture::Norm_Name(from.norm()));
  set_word(from.has_input_norms(), to.input_norms,
           v1::Architecture::InputNorms_Name(from.input_norms()));
  set(from.has_query_key_norm(), to.query_key_norm, from.query_key_norm());
  set(from.has_norms_by_head(), to.norms_by_head, from.norms_by_head());
  set(from.has_output_norms(), to.output_norms, from.output_norms());
  set(from.has_embedding_norm(), to.embedding_norm, from.embedding_norm());
}

void change(const v1::Architecture& from, model::Architecture& to) {
  const bool grouped = to.kv_heads != to.heads;
  set(from.has_layers(), to.layers, from.layers());
  set(from.has_hidden(), to.hidden, from.hidden());
  set(from.has_heads(), to.heads, from.heads());
  set(from.has_ffn(), to.ffn, from.ffn());
  if (!grouped) to.kv_heads = to.heads;
  set(from.has_kv_heads(), to.kv_heads, from.kv_heads());
  set(from.has_head_dim(), to.head_dim, from.head_dim());
  set(from.has_vocab(), to.vocab, from.vocab());
  set(from.has_max_positions(), to.max_positions, from.max_positions());
  set_word(from.has_position(), to.position, v1::Architecture::Position_Name(from.position()));
  set_word(from.has_activation(), to.activation,
           v1::Architecture::Activation_Name(from.activation()));
  set(from.has_tied_embeddings(), to.tied_embeddings, from.tied_embeddings());
  set(from.has_qkv_bias(), to.qkv_bias, from.qkv_bias());
  set(from.has_linear_bias(), to.linear_bias, from.linear_bias());
  set(from.has_projection_bias(), to.projection_bias, from.projection_bias());
  set(from.has_mlp_bias(), to.mlp_bias, from.mlp_bias());
  set(from.has_head_bias(), to.head_bias, from.head_bias());
  set(from.has_attention_dropout(), to.attention_dropout, from.attention_dropout());
  set(from.has_hidden_dropout(), to.hidden_dropout, from.hidden_dropout());
  set(from.has_sliding_window(), to.sliding_window, from.sliding_window());
  set(from.has_whole_attention(), to.whole_attention, from.whole_attention());
  set(from.has_sinks(), to.sinks, from.sinks());
  change_norms(from, to);
  change_experts(from, to);
  change_latent(from, to);
}

// "layers 64, hidden 8192"
std::string changes(const v1::Architecture& from) {
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  from.GetReflection()->ListFields(from, &fields);
  std::string text;
  for (const auto* field : fields) {
    std::string value;
    google::protobuf::TextFormat::PrintFieldValueToString(from, field, -1, &value);
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", field->name(), value);
  }
  return text;
}

}  // namespace

model::Architecture described(const v1::Architecture& from, std::int64_t sequence) {
  model::Architecture to;
  to.hidden = from.hidden();
  to.heads = to.kv_heads = from.heads();
  to.ffn = 4 * to.hidden;
  to.head_dim = to.heads > 0 ? to.hidden / to.heads : 0;
  to.max_positions = sequence;
  change(from, to);
  to.name = from.has_name() ? from.name() : fmt::format("{} layers of {}", to.layers, to.hidden);
  return to;
}

model::Architecture changed(const model::Architecture& base, const v1::Architecture& from) {
  model::Architecture to = base;
  change(from, to);
  to.name = from.has_name() ? from.name() : fmt::format("{} ({})", base.name, changes(from));
  return to;
}

model::Architecture network_of(const v1::Plan& plan, const model::Architecture& named) {
  if (!plan.has_model()) return described(plan.architecture(), plan.sequence());
  return plan.has_architecture() ? changed(named, plan.architecture()) : named;
}

Diagnostics check_plan(Source& source, v1::Plan& plan, bool whole) {
  if (!plan.has_model() || !plan.has_architecture()) return source.check(plan, whole);
  // The block is moved out and back, not copied: Source finds its place by its address.
  std::unique_ptr<v1::Architecture> changes(plan.release_architecture());
  Diagnostics problems = source.check(plan, whole);
  plan.set_allocated_architecture(changes.release());
  for (Diagnostic& problem : source.check(plan.architecture(), false))
    problems.push_back(std::move(problem));
  return problems;
}

}  // namespace sim::input
