#include "sim/program/layers/experts/expert_adapter.h"

namespace sim::program {

using collective::Kind;
using model::GemmRole;
using model::OperationKind;

namespace {

constexpr std::string_view linear_in = "adapter.linear_in", linear_out = "adapter.linear_out";

std::string_view owner(bool up) {
  return up ? "experts.linear_fc1" : "experts.linear_fc2";
}

bool adapts(const Rank& rank, bool up) {
  return rank.adapts(up ? Module::fc1 : Module::fc2);
}

void product(Writer& w, std::string_view name, std::int64_t m, std::int64_t n, std::int64_t k,
             GemmRole role, bool accumulates = false) {
  w.e.kernel(model::gemm(name, m, n, k, role, accumulates, w.plan.wide_precision()), w.set.flags,
             w.set.current);
}

// The gradient of a weight [n, k]; drops the input of the product.
void weight(Writer& w, std::string_view parameter, bool up, std::int64_t rows, std::int64_t n,
            std::int64_t k, std::initializer_list<Value> read) {
  const bool wide = w.plan.numerics.fp32_gradients;
  product(w, "expert adapter weight", n, k, rows, GemmRole::weight_gradient,
          w.plan.accumulates_in_product() && wide && !w.variant.first_microbatch);
  const std::int64_t bytes = w.dim.element * n * k;
  const Value handle = w.temporary(bytes, "expert adapter weight gradient");
  w.drop(read);
  if (w.plan.mesh.ep > 1)
    w.e.collective(Kind::all_reduce, Stream::ep, bytes, "adapter gradient of experts");
  if (!w.plan.accumulates_in_product())
    w.memory_bound(OperationKind::elementwise, "main_grad add",
                   (w.dim.element + 2 * (wide ? 4 : 2)) * n * k);
  w.drop(handle);
  w.ready(parameter, owner(up));
}

}  // namespace

void ExpertAdapter::forward(Writer& w, std::int64_t rows, Value read, Value& out) {
  if (!adapts(w.rank, up)) return;
  const Matrix m = expert_matrix(w.rank, up);
  const std::int64_t r = w.plan.lora.rank, bytes = w.dim.element * rows * m.out;
  input = read;
  w.use({linear_in}, owner(up));
  narrow = w.activation(w.dim.element * rows * r, "expert adapter's narrow rows");
  product(w, "expert adapter in", rows, r, m.in, GemmRole::forward);
  w.use({linear_out}, owner(up));
  const Value wide = w.temporary(bytes, "expert adapter output");
  product(w, "expert adapter out", rows, m.out, r, GemmRole::forward);
  w.save({input, narrow});
  w.drop(narrow);
  const Value scaled = w.temporary(bytes, "scaled expert adapter output");
  w.memory_bound(OperationKind::elementwise, "scale adapter", 2 * bytes);
  w.drop(wide);
  const Value sum = up ? w.activation(bytes, "expert fc1 output with adapter")
                       : w.temporary(bytes, "expert output with adapter");
  w.memory_bound(OperationKind::elementwise, "add adapter", 3 * bytes);
  w.drop({scaled, out});
  out = sum;
}

Value ExpertAdapter::back(Writer& w, std::int64_t rows) const {
  if (input == 0) return 0;
  const Matrix m = expert_matrix(w.rank, up);
  const std::int64_t r = w.plan.lora.rank, bytes = w.dim.element * rows * m.out;
  const Value scaled = w.temporary(bytes, "scaled expert adapter gradient");
  w.memory_bound(OperationKind::elementwise, "scale adapter", 2 * bytes);
  const Value of_narrow =
      w.temporary(w.dim.element * rows * r, "gradient of expert adapter's narrow rows");
  product(w, "expert adapter out", rows, r, m.out, GemmRole::input_gradient);
  weight(w, linear_out, up, rows, m.out, r, {scaled, narrow});
  const Value made = w.temporary(w.dim.element * rows * m.in, "expert adapter input gradient");
  product(w, "expert adapter in", rows, m.in, r, GemmRole::input_gradient);
  weight(w, linear_in, up, rows, r, m.in, {of_narrow, input});
  return made;
}

ParameterList expert_adapter_parameters(const Rank& rank) {
  ParameterList list;
  for (const bool up : {true, false}) {
    if (!adapts(rank, up)) continue;
    const Matrix m = expert_matrix(rank, up);
    for (const auto& [name, width] : {std::pair{linear_in, m.in}, std::pair{linear_out, m.out}}) {
      list.push_back({name, rank.plan.lora.rank * width, false, false, false, owner(up)});
      list.back().expert = true;
    }
  }
  return list;
}

}  // namespace sim::program
