#include "sim/program/layers/linear/lora.h"

#include <array>

namespace sim::program {
namespace {

using collective::Kind;
using model::GemmRole;
using model::OperationKind;

constexpr std::string_view linear_in = "adapter.linear_in", linear_out = "adapter.linear_out";

std::string_view product_of(Module module) {
  constexpr std::array<std::string_view, 4> names = {"linear_qkv", "linear_proj", "linear_fc1",
                                                     "linear_fc2"};
  return names[static_cast<std::size_t>(module)];
}

void product(Writer& w, std::string_view name, std::int64_t n, std::int64_t k, GemmRole role) {
  w.e.kernel(model::gemm(name, w.dim.tokens, n, k, role, false, w.plan.wide_precision()),
             w.set.flags);
}

void exchange(Writer& w, Kind kind, std::int64_t bytes) {
  w.e.collective(kind, Stream::tp, bytes, "adapter exchange");
}

bool trades(const Writer& w) {
  return w.plan.lora.all_to_all && w.sequence_parallel();
}

// Gathers the columns of all ranks; with sequence parallelism only this rank's rows of them.
Value rows_of_all(Writer& w, Value wide) {
  if (trades(w)) {
    const Value received = w.temporary(w.dim.residual(), "traded adapter output");
    exchange(w, Kind::all_to_all, w.dim.residual());
    const Value rows = w.temporary(w.dim.residual(), "adapter output");
    w.memory_bound(OperationKind::copy, "join traded columns", 2 * w.dim.residual());
    w.drop({received, wide});
    return rows;
  }
  const Value whole = w.temporary(w.dim.full(), "gathered adapter output");
  exchange(w, Kind::all_gather, w.dim.full());
  w.drop(wide);
  if (!w.sequence_parallel()) return whole;
  const Value rows = w.temporary(w.dim.residual(), "adapter output");
  w.memory_bound(OperationKind::copy, "scatter adapter", 2 * w.dim.residual());
  w.drop(whole);
  return rows;
}

// This rank's columns of the gradient of a row-parallel product's output.
Value columns_of_gradient(Writer& w, const AdapterShape& shape) {
  if (w.dim.tp == 1) return 0;
  if (trades(w)) {
    const Value sent = w.temporary(w.dim.residual(), "gradient of adapter to trade");
    w.memory_bound(OperationKind::copy, "split adapter gradient", 2 * w.dim.residual());
    const Value received = w.temporary(w.dim.residual(), "traded gradient of adapter");
    exchange(w, Kind::all_to_all, w.dim.residual());
    const Value columns = w.temporary(w.dim.rows(shape.up_width), "adapter output gradient");
    w.memory_bound(OperationKind::copy, "join traded rows", 2 * w.dim.rows(shape.up_width));
    w.drop({sent, received});
    return columns;
  }
  const Value whole =
      w.sequence_parallel() ? w.temporary(w.dim.full(), "gathered gradient of adapter") : Value{0};
  if (whole != 0) exchange(w, Kind::all_gather, w.dim.full());
  const Value columns = w.temporary(w.dim.rows(shape.up_width), "adapter output gradient");
  w.memory_bound(OperationKind::copy, "split adapter gradient", 2 * w.dim.rows(shape.up_width));
  w.drop(whole);
  return columns;
}

// Adds the gradient of a weight [m, n] to main_grad; drops the input of the product.
void weight(Writer& w, std::string_view parameter, Module module, std::int64_t m, std::int64_t n,
            std::initializer_list<Value> read) {
  w.e.kernel(model::gemm("adapter weight", m, n, w.dim.tokens, GemmRole::weight_gradient,
                         w.plan.accumulates_in_product() && w.plan.numerics.fp32_gradients &&
                             !w.variant.first_microbatch,
                         w.plan.wide_precision()));
  const Value handle = w.temporary(w.dim.element * m * n, "weight gradient handle");
  if (!w.keep_gradient(handle, parameter, product_of(module))) {
    if (!w.plan.accumulates_in_product())
      w.memory_bound(OperationKind::elementwise, "main_grad add",
                     (w.dim.element + 2 * (w.plan.numerics.fp32_gradients ? 4 : 2)) * m * n);
    w.drop(handle);
    w.ready(parameter, product_of(module));
  }
  w.drop(read);
}

// Runs now, or in a separate pass; its operands live until then.
void weight_or_defer(Writer& w, std::string_view parameter, Module module, std::int64_t m,
                     std::int64_t n, Value gradient, Value input) {
  if (!w.variant.split) return weight(w, parameter, module, m, n, {gradient, input});
  w.defer([=](Writer& b) { weight(b, parameter, module, m, n, {gradient, input}); });
}

}  // namespace

bool Rank::adapts(Module module) const {
  if (!plan.trains_adapters()) return false;
  switch (module) {
    case Module::qkv:
      return plan.lora.qkv;
    case Module::projection:
      return plan.lora.projection;
    case Module::fc1:
      return plan.lora.fc1;
    case Module::fc2:
      return plan.lora.fc2;
  }
  return false;
}

AdapterShape adapter_shape(const Rank& rank, Module module) {
  const Dimensions& dim = rank.dim;
  const std::int64_t r = rank.plan.lora.rank;
  const bool column = module == Module::qkv || module == Module::fc1;
  AdapterShape shape{column, dim.hidden, dim.hidden, r, column ? r / dim.tp : r, 0};
  if (module == Module::qkv) shape.out = dim.mixed_width();
  if (module == Module::fc1) shape.out = dim.up;
  if (module == Module::projection) shape.in = dim.attended;
  if (module == Module::fc2) shape.in = dim.ffn;
  shape.up_width = column ? shape.out : dim.hidden / dim.tp;
  return shape;
}

namespace {

ParameterList parameters(const Rank& rank, std::initializer_list<Module> modules) {
  ParameterList list;
  for (const Module module : modules) {
    if (!rank.adapts(module)) continue;
    const AdapterShape shape = adapter_shape(rank, module);
    list.push_back({linear_in, shape.down(), false, false, false, product_of(module)});
    list.push_back({linear_out, shape.up(), false, false, false, product_of(module)});
  }
  return list;
}

}  // namespace

ParameterList adapter_parameters(const Rank& rank) {
  return parameters(rank, {Module::qkv, Module::projection, Module::fc1, Module::fc2});
}

ParameterList attention_adapter_parameters(const Rank& rank) {
  return parameters(rank, {Module::qkv, Module::projection});
}

namespace {

// The copy of the input that an adapter reads, with a mask of a byte for each element
// [huggingface/peft src/peft/tuners/lora/layer.py:Linear.forward; Lightning-AI/litgpt
// litgpt/lora.py:LoRAQKVLinear.forward].
void drop_out(Writer& w, const AdapterShape& shape, Adapter& adapter) {
  const std::int64_t bytes = w.dim.rows(shape.in), mask = bytes / w.dim.element;
  adapter.dropped = w.activation(bytes, "adapter's dropped input");
  adapter.mask = w.activation(mask, "adapter's dropout mask");
  w.memory_bound(OperationKind::elementwise, "adapter dropout", 2 * bytes + mask);
  w.save(adapter.mask);
}

}  // namespace

Adapter adapter_forward(Writer& w, Module module, Value input, Value& out) {
  const AdapterShape shape = adapter_shape(w.rank, module);
  const Dimensions& dim = w.dim;
  Adapter made{module, input, 0, 0, 0};
  if (w.plan.lora.dropout) drop_out(w, shape, made);
  w.use({linear_in}, product_of(module));
  const Value narrow = w.activation(dim.rows(shape.rank), "adapter's narrow rows");
  product(w, "adapter in", shape.inner, shape.in, GemmRole::forward);
  if (dim.tp > 1)
    exchange(w, shape.column ? Kind::all_gather : Kind::all_reduce, dim.rows(shape.rank));
  w.use({linear_out}, product_of(module));
  Value wide = w.temporary(dim.rows(shape.up_width), "adapter output");
  product(w, "adapter out", shape.up_width, shape.rank, GemmRole::forward);
  made.narrow = narrow;
  w.save({made.read(), narrow});
  w.drop({narrow, made.dropped, made.mask});
  if (!shape.column && dim.tp > 1) wide = rows_of_all(w, wide);
  const std::int64_t bytes = shape.column ? dim.rows(shape.out) : dim.residual();
  const Value scaled = w.temporary(bytes, "scaled adapter output");
  w.memory_bound(OperationKind::elementwise, "scale adapter", 2 * bytes);
  w.drop(wide);
  const Value sum = w.make(bytes, "sum with adapter",
                           module == Module::fc1 ? Category::activations : Category::temporaries);
  w.memory_bound(OperationKind::elementwise, "add adapter", 3 * bytes);
  w.drop({scaled, out});
  out = sum;
  return made;
}

Value Adapter::backward(Writer& w) const {
  if (input == 0) return 0;
  const AdapterShape shape = adapter_shape(w.rank, module);
  const Dimensions& dim = w.dim;
  const bool tp = dim.tp > 1;
  const std::int64_t wide_bytes = dim.rows(shape.up_width);
  const Value columns = shape.column ? Value{0} : columns_of_gradient(w, shape);
  const Value scaled = w.temporary(wide_bytes, "scaled adapter output gradient");
  w.memory_bound(OperationKind::elementwise, "scale adapter", 2 * wide_bytes);
  w.drop(columns);
  const Value of_narrow = w.temporary(dim.rows(shape.rank), "gradient of adapter's narrow rows");
  product(w, "adapter out", shape.rank, shape.up_width, GemmRole::input_gradient);
  if (tp) exchange(w, Kind::all_reduce, dim.rows(shape.rank));
  weight_or_defer(w, linear_out, module, shape.up_width, shape.rank, scaled, narrow);
  const Value of_input = w.temporary(dim.rows(shape.in), "adapter input gradient");
  product(w, "adapter in", shape.in, shape.inner, GemmRole::input_gradient);
  if (!shape.column && dropped == 0) w.hold(input);
  weight_or_defer(w, linear_in, module, shape.inner, shape.in, of_narrow, read());
  // With sequence parallelism it is added to the product's own gradient before they are reduced
  // together.
  if (shape.column && tp && !w.sequence_parallel())
    exchange(w, Kind::all_reduce, dim.rows(shape.in));
  if (dropped == 0) return of_input;
  const Value masked = w.temporary(dim.rows(shape.in), "adapter input gradient");
  w.memory_bound(OperationKind::elementwise, "adapter dropout backward", 2 * dim.rows(shape.in));
  w.drop({of_input, mask});
  return masked;
}

}  // namespace sim::program
