#include "sim/program/layers/linear/linear.h"

#include "sim/program/layers/linear/fake_quantize.h"
#include "sim/program/layers/linear/linear_gradients.h"

namespace sim::program {

using model::GemmRole;
using model::OperationKind;

Linear linear(const Rank& rank, Module module) {
  const Dimensions& dim = rank.layer_dim;
  const model::Architecture& a = rank.plan.architecture;
  const bool mlp_bias = a.linear_bias && a.mlp_bias;
  Linear l{};
  switch (module) {
    case Module::qkv:
      l = {module,
           "qkv",
           dim.hidden,
           dim.mixed_width(),
           "linear_qkv.weight",
           "linear_qkv.bias",
           "linear_qkv.layer_norm_weight",
           "linear_qkv.layer_norm_bias",
           a.qkv_bias};
      break;
    case Module::projection:
      l = {module,
           "projection",
           dim.attended,
           dim.hidden,
           "linear_proj.weight",
           "linear_proj.bias",
           "",
           "",
           a.linear_bias && a.projection_bias};
      break;
    case Module::fc1:
      l = {module,
           "fc1",
           dim.hidden,
           dim.up,
           "linear_fc1.weight",
           "linear_fc1.bias",
           "linear_fc1.layer_norm_weight",
           "linear_fc1.layer_norm_bias",
           mlp_bias};
      break;
    case Module::fc2:
      l = {module, "fc2", dim.ffn, dim.hidden, "linear_fc2.weight", "linear_fc2.bias",
           "",     "",    mlp_bias};
      break;
  }
  l.parts = {l.out};
  l.part_count = 1;
  if (rank.plan.stack.separate_products) {
    if (module == Module::qkv && l.out == dim.query + 2 * dim.key_value) {
      l.parts = {dim.query, dim.key_value, dim.key_value};
      l.part_count = 3;
    } else if (module == Module::fc1 && l.out == 2 * dim.ffn) {
      l.parts = {dim.ffn, dim.ffn};
      l.part_count = 2;
    }
  }
  const bool only_first = a.input_norms == model::InputNorms::shared && module == Module::fc1;
  if (only_first || a.input_norms == model::InputNorms::none) l.norm = l.norm_bias = "";
  return l;
}

ParameterList linear_parameters(const Rank& rank, Module module) {
  const model::Architecture& a = rank.plan.architecture;
  const Linear l = linear(rank, module);
  const bool sp = rank.plan.uses_sequence_parallel(), normed = !l.norm.empty();
  const bool column = module == Module::qkv || module == Module::fc1;
  ParameterList list;
  if (normed && a.norm_has_weights()) list.push_back({l.norm, l.in, sp});
  if (normed && a.norm_has_bias()) list.push_back({l.norm_bias, l.in, sp});
  list.push_back({l.weight, l.in * l.out / rank.plan.mesh.tensor_depth, false, true});
  // The bias of a row-parallel product is added after the reduction.
  if (l.has_bias) list.push_back({l.bias, l.out, sp && !column});
  return list;
}

namespace {

bool keeps_handles(const Writer& w) {
  return w.plan.stack.kept_gradient_handles && w.plan.accumulates_in_product();
}

void add_to_main_gradient(Writer& w, std::int64_t elements) {
  w.memory_bound(OperationKind::elementwise, "main_grad add",
                 (w.dim.element + 2 * (w.plan.numerics.fp32_gradients ? 4 : 2)) * elements);
}

}  // namespace

Value gather_rows(Writer& w, std::string_view label, std::int64_t bytes, std::int64_t sent) {
  const Value made = w.temporary(bytes, label);
  w.e.collective(collective::Kind::all_gather, Stream::tp, sent, "all-gather");
  return w.reorder(made, Writer::Order::gathered, sent);
}

Value quantise(Writer& w, std::int64_t width, std::int64_t bytes) {
  if (!w.plan.numerics.fp8) return 0;
  const Value made = w.temporary(2 * w.dim.tokens * width, "output gradient in fp8");
  w.memory_bound(OperationKind::elementwise, "gradient to fp8", bytes + 2 * w.dim.tokens * width);
  return made;
}

void input_gradient(Writer& w, const Linear& l, std::uint8_t flags) {
  const bool transposes = w.plan.numerics.fp8_parameters && !w.plan.keeps_transposed_weights();
  Value transposed = 0;
  if (transposes) {
    transposed = w.temporary(l.in * l.out, "transposed weight in fp8");
    w.memory_bound(OperationKind::copy, "transpose weight", 2 * l.in * l.out);
  }
  for (std::size_t i = 0; i < l.part_count; ++i) {
    // Autograd adds the gradients of the products that share this input.
    const Value part = i == 0 ? Value{0} : w.temporary(w.dim.full(), "input gradient of a part");
    w.e.kernel(model::gemm(l.name, w.dim.tokens, l.in, l.parts[i], GemmRole::input_gradient, false,
                           w.plan.product_precision()),
               flags);
    if (i == 0) continue;
    w.memory_bound(OperationKind::elementwise, "add input gradients", 3 * w.dim.full());
    w.drop(part);
  }
  w.drop(transposed);
}

void weight_gradient(Writer& w, const Linear& l, Value quantised, std::uint8_t flags) {
  Value transposed = 0;
  if (w.plan.numerics.fp8) {
    transposed = w.temporary(w.dim.tokens * l.in, "transposed input in fp8");
    w.memory_bound(OperationKind::copy, "transpose input", 2 * w.dim.tokens * l.in);
  }
  const bool accumulates = w.plan.accumulates_in_product() && w.plan.numerics.fp32_gradients &&
                           !w.variant.first_microbatch;
  for (const std::int64_t width : l.widths()) {
    w.e.kernel(model::gemm(l.name, width, l.in, w.dim.tokens, GemmRole::weight_gradient,
                           accumulates, w.plan.product_precision()),
               flags);
  }
  w.drop({transposed, quantised});
}

Value make_handle(Writer& w, const Linear& l) {
  const std::int64_t bytes = w.dim.element * l.in * l.out;
  if (!keeps_handles(w)) return w.temporary(bytes, "weight gradient handle");
  if (w.variant.first_use)
    w.e.alloc(fixed_slot(handle_qkv - static_cast<std::uint32_t>(l.module)), bytes, Category::other,
              "kept gradient handle");
  return 0;
}

void hook(Writer& w, const Linear& l, Value handle) {
  handle = through_weight(w, l, handle);
  if (w.keep_gradient(handle, l.weight)) return;
  if (!w.plan.accumulates_in_product()) add_to_main_gradient(w, l.in * l.out);
  w.drop(handle);
  w.ready(l.weight);
}

void hand_over(Writer& w, const Linear& l) {
  hook(w, l, make_handle(w, l));
}

void bias_gradient(Writer& w, const Linear& l) {
  if (!l.has_bias || w.frozen()) return;
  const Value made = w.temporary(w.dim.element * l.out, "bias gradient");
  if (w.keep_gradient(made, l.bias)) return;
  w.memory_bound(OperationKind::elementwise, "bias main_grad add", 10 * l.out);
  w.drop(made);
  w.ready(l.bias);
}

void add_adapter(Writer& w, Value gradient, std::int64_t bytes) {
  if (gradient == 0) return;
  w.memory_bound(OperationKind::elementwise, "add adapter gradient", 3 * bytes);
  w.drop(gradient);
}

void norm_gradients(Writer& w, Value weight, Value bias, std::string_view weight_name,
                    std::string_view bias_name) {
  if (weight == 0) return;
  if (w.frozen()) return w.drop({weight, bias});
  if (w.keep_gradient(weight, weight_name)) {
    w.keep_gradient(bias, bias_name);
    return;
  }
  w.memory_bound(OperationKind::elementwise, "norm main_grad add", 10 * w.dim.hidden);
  w.drop(weight);
  w.ready(weight_name);
  if (bias == 0) return;
  w.drop(bias);
  w.ready(bias_name);
}

}  // namespace sim::program
