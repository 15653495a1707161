// lora.cpp — a low-rank adapter forward and backward, in issue order. INVENTORY.md section 17 has a
// line per tensor.
//
//     column-parallel   a = A x [T, r/t], gathered [T, r]; b = B a [T, n/t]; out + s b
//     row-parallel      a = A x [T, r], reduced;           b = B a [T, h/t], gathered [T, h], this
//                       rank's rows of it; out + s b
//
// Autograd runs the adapter's nodes before those of the product beside it.
#include "sim/workload/lora.h"

#include <array>

#include "sim/workload/sharding.h"

namespace sim::workload {
namespace {

using collective::Kind;
using model::GemmRole;
using model::OperationKind;

enum Local : std::uint32_t {
  d_in = adapter_gradient,
  narrow,
  narrow_whole,
  wide,
  scaled,
  whole,
  sum,
  handle,
};

constexpr std::string_view linear_in = "adapter.linear_in", linear_out = "adapter.linear_out";
constexpr std::array modules = {Module::qkv, Module::projection, Module::fc1, Module::fc2};

std::string_view owner_of(Module module) {
  constexpr std::array<std::string_view, 4> names = {"linear_qkv", "linear_proj", "linear_fc1",
                                                     "linear_fc2"};
  return names[static_cast<std::size_t>(module)];
}

struct Adapter {
  Rank& rank;
  Emitter& e;
  const Variant& variant;
  Module module;
  const Dimensions& dim = rank.dim;
  AdapterShape shape = adapter_shape(rank, module);
  bool sp = rank.plan.uses_sequence_parallel();
  bool tp = dim.tp > 1;

  std::string_view parameter(bool up) const { return up ? linear_out : linear_in; }
  LayerSlot down_slot() const {
    return static_cast<LayerSlot>(adapter_qkv_down + static_cast<std::uint32_t>(module));
  }
  std::int64_t narrow_bytes() const { return dim.rows(shape.rank); }
  // Of the sum with the product's output.
  std::int64_t out_bytes() const { return shape.column ? dim.rows(shape.out) : dim.residual(); }

  void temporary(Local slot, std::int64_t bytes, std::string_view label) {
    e.alloc(local_slot(slot), bytes, Category::temporaries, label);
  }
  void pass(std::string_view name, std::int64_t bytes) {
    e.kernel(model::pass(OperationKind::elementwise, name, Bytes{bytes}));
  }
  void copy(std::string_view name, std::int64_t bytes) {
    e.kernel(model::pass(OperationKind::copy, name, Bytes{bytes}));
  }
  void gemm(std::string_view name, std::int64_t n, std::int64_t k, GemmRole role) {
    e.kernel(model::gemm(name, dim.tokens, n, k, role, false, rank.plan.precision));
  }
  void use(bool up) {
    if (variant.hooks) rank.sharding->use(e, variant.unit, parameter(up), owner_of(module));
  }

  void forward(Slot out) {
    use(false);
    e.alloc(layer_slot(down_slot()), narrow_bytes(), Category::activations,
            "adapter's narrow rows");
    gemm("adapter in", shape.inner, shape.in, GemmRole::forward);
    if (tp)
      e.collective(shape.column ? Kind::all_gather : Kind::all_reduce, Stream::tp, narrow_bytes(),
                   "adapter exchange");
    use(true);
    temporary(wide, dim.rows(shape.up_width), "adapter output");
    gemm("adapter out", shape.up_width, shape.rank, GemmRole::forward);
    if (!variant.keep) e.free(layer_slot(down_slot()));
    if (!shape.column && tp) rows_of_all();
    const std::int64_t bytes = out_bytes();
    temporary(scaled, bytes, "scaled adapter output");
    pass("scale adapter", 2 * bytes);
    e.free(local_slot(wide));
    e.alloc(local_slot(sum), bytes,
            module == Module::fc1 ? Category::activations : Category::temporaries,
            "sum with adapter");
    pass("add adapter", 3 * bytes);
    e.free(local_slot(scaled));
    e.free(out);
    e.move(local_slot(sum), out);
  }

  // Columns of all ranks, and with sequence parallelism this rank's rows of them.
  void rows_of_all() {
    temporary(whole, dim.full(), "gathered adapter output");
    e.collective(Kind::all_gather, Stream::tp, dim.full(), "adapter exchange");
    e.free(local_slot(wide));
    if (sp) {
      temporary(wide, dim.residual(), "adapter output");
      copy("scatter adapter", 2 * dim.residual());
      e.free(local_slot(whole));
    } else {
      e.move(local_slot(whole), local_slot(wide));
    }
  }

  void weight(bool up, std::int64_t m, std::int64_t n) {
    e.kernel(model::gemm(
        "adapter weight", m, n, dim.tokens, GemmRole::weight_gradient,
        rank.plan.accumulates_in_product() && rank.plan.fp32_gradients && !variant.first_microbatch,
        rank.plan.precision));
    temporary(handle, dim.element * m * n, "weight gradient handle");
    if (rank.sharding->keep(e, variant.unit, parameter(up), local_slot(handle), owner_of(module)))
      return;
    if (!rank.plan.accumulates_in_product())
      pass("main_grad add", (dim.element + 2 * (rank.plan.fp32_gradients ? 4 : 2)) * m * n);
    e.free(local_slot(handle));
    if (variant.hooks) rank.sharding->ready(e, variant.unit, parameter(up), owner_of(module));
  }

  // This rank's columns of the gradient of a row-parallel product's output.
  void columns_of_gradient() {
    if (!tp) return;
    if (sp) {
      temporary(whole, dim.full(), "gathered gradient of adapter");
      e.collective(Kind::all_gather, Stream::tp, dim.full(), "adapter exchange");
    }
    temporary(wide, dim.rows(shape.up_width), "adapter output gradient");
    copy("split adapter gradient", 2 * dim.rows(shape.up_width));
    if (sp) e.free(local_slot(whole));
  }

  void backward() {
    const std::int64_t wide_bytes = dim.rows(shape.up_width);
    if (!shape.column) columns_of_gradient();
    temporary(scaled, wide_bytes, "scaled adapter output gradient");
    pass("scale adapter", 2 * wide_bytes);
    if (!shape.column && tp) e.free(local_slot(wide));
    temporary(narrow, narrow_bytes(), "gradient of adapter's narrow rows");
    gemm("adapter out", shape.rank, shape.up_width, GemmRole::input_gradient);
    if (tp) e.collective(Kind::all_reduce, Stream::tp, narrow_bytes(), "adapter exchange");
    weight(true, shape.up_width, shape.rank);
    e.free(local_slot(scaled));
    e.free(layer_slot(down_slot()));
    const std::int64_t in_bytes = dim.rows(shape.in);
    temporary(d_in, in_bytes, "adapter input gradient");
    gemm("adapter in", shape.in, shape.inner, GemmRole::input_gradient);
    weight(false, shape.inner, shape.in);
    e.free(local_slot(narrow));
    if (shape.column && !rank.adapter_reads_norm(module)) e.free(layer_slot(adapter_input(module)));
    // With sequence parallelism it joins the product's own before they are reduced together.
    if (shape.column && tp && !sp)
      e.collective(Kind::all_reduce, Stream::tp, in_bytes, "adapter exchange");
  }
};

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
  if (module == Module::projection) shape.in = dim.query;
  if (module == Module::fc2) shape.in = dim.ffn;
  shape.up_width = column ? shape.out : dim.hidden / dim.tp;
  return shape;
}

ParameterList adapter_parameters(const Rank& rank) {
  ParameterList list;
  for (const Module module : modules) {
    if (!rank.adapts(module)) continue;
    const AdapterShape shape = adapter_shape(rank, module);
    list.push_back({linear_in, shape.down(), false, false, false, owner_of(module)});
    list.push_back({linear_out, shape.up(), false, false, false, owner_of(module)});
  }
  return list;
}

LayerSlot adapter_input(Module module) {
  return module == Module::qkv ? adapter_qkv_in : adapter_fc1_in;
}

void adapter_forward(Rank& rank, Emitter& e, const Variant& variant, Module module, Slot out) {
  Adapter{rank, e, variant, module}.forward(out);
}

void adapter_backward(Rank& rank, Emitter& e, const Variant& variant, Module module) {
  Adapter{rank, e, variant, module}.backward();
}

}  // namespace sim::workload
