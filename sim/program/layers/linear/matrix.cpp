#include "sim/program/layers/linear/matrix.h"

#include "sim/program/layers/linear/fp8.h"

namespace sim::program {
namespace {

using model::GemmRole;
using model::OperationKind;

model::Precision precision(const Writer& w, const Matrix& m) {
  return m.narrow ? w.plan.wide_precision() : w.plan.product_precision();
}

// One launch for each weight; the launches of a group run beside each other on four streams.
void products(Writer& w, const Matrix& m, std::int64_t rows, GemmRole role, bool accumulates) {
  const std::int64_t each = (rows + m.count - 1) / m.count;
  const auto product = [&](std::int64_t batch) {
    switch (role) {
      case GemmRole::forward:
        return model::gemm(m.name, each, m.out, m.in, role, false, precision(w, m), batch);
      case GemmRole::input_gradient:
        return model::gemm(m.name, each, m.in, m.out, role, false, precision(w, m), batch);
      case GemmRole::weight_gradient:
        break;
    }
    return model::gemm(m.name, m.out, m.in, each, role, accumulates, precision(w, m), batch);
  };
  if (m.grouped || m.count == 1) {
    if (m.count > 1) {
      w.e.host(HostWork::launches, m.count - 1);
      const bool biased = !m.bias.empty() && role != GemmRole::input_gradient;
      if (!m.legacy) w.e.host(HostWork::expert, biased ? 2 * m.count : m.count);
    }
    w.e.kernel(product(m.count), w.set.flags, w.set.current);
    return;
  }
  for (std::int64_t i = 0; i < m.count; ++i) w.e.kernel(product(1), w.set.flags, w.set.current);
}

bool accumulates(const Writer& w, const Matrix& m) {
  return w.plan.accumulates_in_product() && !m.legacy;
}

// The handles that autograd receives for gradients already in main_grad. Permanent handles are
// shared by all weights of a shape.
void make_kept_handle(Writer& w, const Matrix& m) {
  if (!w.variant.first_use) return;
  const auto [it, added] = w.rank.handles.try_emplace({m.in, m.out}, 0);
  if (!added) return;
  it->second = w.rank.new_fixed();
  w.e.alloc(fixed_slot(it->second), w.dim.element * m.in * m.out, Category::other,
            "kept gradient handle");
}

}  // namespace

void multiply(Writer& w, const Matrix& m, std::int64_t rows) {
  w.first_product();
  products(w, m, rows, GemmRole::forward, false);
}

Value quantise(Writer& w, const Matrix& m, std::int64_t rows) {
  if (!w.plan.numerics.fp8 || m.narrow) return 0;
  find_scale(w, {.bytes = w.dim.element * rows * m.out, .elementwise = true, .tensors = m.count});
  const Value made = w.temporary(2 * rows * m.out, "output gradient in fp8");
  w.memory_bound(OperationKind::elementwise, "gradient to fp8", (w.dim.element + 2) * rows * m.out);
  return made;
}

void save_operands(Writer& w, std::initializer_list<Value> values) {
  if (!w.frozen()) w.save(values);
}

void drop_operands(Writer& w, std::initializer_list<Value> values) {
  if (!w.frozen()) w.drop(values);
}

void input_gradient(Writer& w, const Matrix& m, std::int64_t rows) {
  products(w, m, rows, GemmRole::input_gradient, false);
}

Value weight_gradient(Writer& w, const Matrix& m, std::int64_t rows) {
  if (w.frozen()) return 0;
  Value transposed = 0;
  if (w.plan.numerics.fp8 && !m.narrow) {
    transposed = w.temporary(rows * m.in, "transposed input in fp8");
    w.memory_bound(OperationKind::copy, "transpose input", 2 * rows * m.in);
  }
  const Value made =
      m.legacy ? w.temporary(w.dim.element * m.in * m.out * m.count, "gradient of all experts") : 0;
  products(w, m, rows, GemmRole::weight_gradient,
           accumulates(w, m) && w.plan.numerics.fp32_gradients && !w.variant.first_microbatch);
  w.drop(transposed);
  return made;
}

namespace {

// Parameters in shards: the gradients wait for the rest of their unit. The weights of a group are
// one parameter.
void keep_for_unit(Writer& w, const Matrix& m, Value made) {
  if (made == 0)
    made = w.temporary(w.dim.element * m.in * m.out * m.count,
                       m.count > 1 ? "gradient of all experts" : "weight gradient handle");
  w.keep_gradient(made, m.parameter);
  if (!m.bias.empty())
    w.keep_gradient(w.temporary(w.dim.element * m.out * m.count, "bias gradient"), m.bias);
}

}  // namespace

void hand_over(Writer& w, const Matrix& m, Value made) {
  if (w.frozen()) return;
  if (w.plan.shards_parameters()) return keep_for_unit(w, m, made);
  const std::int64_t bytes = w.dim.element * m.in * m.out;
  std::vector<Value> handles;
  if (made != 0) {
    handles.push_back(made);
  } else if (w.plan.stack.kept_gradient_handles && accumulates(w, m)) {
    make_kept_handle(w, m);
  } else {
    for (std::int64_t i = 0; i < m.count; ++i)
      handles.push_back(w.temporary(bytes, "weight gradient handle"));
  }
  if (!accumulates(w, m))
    w.memory_bound(
        OperationKind::elementwise, "main_grad add",
        (w.dim.element + 2 * (w.plan.numerics.fp32_gradients ? 4 : 2)) * m.in * m.out * m.count);
  for (const Value handle : handles) w.drop(handle);
  w.ready(m.parameter);
  if (!m.bias.empty()) w.ready(m.bias);
}

void hand_over(Writer& w, std::string_view parameter, std::int64_t elements,
               std::string_view label) {
  if (w.plan.shards_parameters() && !w.frozen())
    w.keep_gradient(w.temporary(w.dim.element * elements, label), parameter);
  else
    w.ready(parameter);
}

}  // namespace sim::program
