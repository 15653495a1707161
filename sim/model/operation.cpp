#include "sim/model/operation.h"

#include <cassert>

namespace sim::model {

Operation gemm(std::string_view name, std::int64_t m, std::int64_t n, std::int64_t k, GemmRole role,
               bool accumulates_fp32, Precision precision, std::int64_t batch) {
  assert(m > 0 && n > 0 && k > 0 && batch > 0);
  Operation o;
  o.kind = OperationKind::gemm;
  o.precision = precision;
  o.name = name;
  o.m = m;
  o.n = n;
  o.k = k;
  o.batch = batch;
  o.role = role;
  o.accumulates_fp32 = accumulates_fp32;
  o.flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) *
            static_cast<double>(batch);
  // An accumulating fp32 result is read and written (8 bytes); a plain one is only written.
  const std::int64_t result = accumulates_fp32 ? 8 : bytes_of(precision);
  o.bytes = {batch * (bytes_of(precision) * (m * k + k * n) + result * m * n)};
  return o;
}

Operation attention(std::string_view name, bool backward, std::int64_t batch, std::int64_t heads,
                    std::int64_t kv_heads, std::int64_t head_dim, std::int64_t query,
                    std::int64_t key, bool causal, Precision precision, std::int64_t window) {
  assert(batch > 0 && heads > 0 && kv_heads > 0 && head_dim > 0 && query > 0 && key > 0);
  Operation o;
  o.kind = backward ? OperationKind::attention_backward : OperationKind::attention_forward;
  o.precision = precision;
  o.name = name;
  o.batch = batch;
  o.heads = heads;
  o.kv_heads = kv_heads;
  o.head_dim = head_dim;
  o.query = query;
  o.key = key;
  o.causal = causal;
  o.window = causal && window < key ? window : 0;
  // Forward: scores and output, 2 products. Backward: scores again, dV, dP, dQ, dK, 5 products.
  const double products = backward ? 5.0 : 2.0;
  const double scores = static_cast<double>(batch) * static_cast<double>(heads) *
                        static_cast<double>(query) * mean_keys(o);
  o.flops = products * 2.0 * scores * static_cast<double>(head_dim);
  const std::int64_t q = batch * query * heads * head_dim;
  const std::int64_t kv = 2 * batch * key * kv_heads * head_dim;
  // Forward reads q, k, v and writes out; backward reads those and dout, writes dq, dk, dv.
  o.bytes = {bytes_of(precision) * (backward ? 4 * q + 2 * kv : 2 * q + kv)};
  return o;
}

double mean_keys(const Operation& o) {
  const double keys = static_cast<double>(o.key), window = static_cast<double>(o.window);
  if (!o.causal) return keys;
  if (o.window > 0) return window * (1 - window / (2 * keys));
  return o.query < o.key ? keys - 0.5 * static_cast<double>(o.query) : keys * 0.5;
}

Operation memory_bound(OperationKind kind, std::string_view name, Bytes bytes,
                       std::int64_t blocks) {
  assert(kind != OperationKind::gemm);
  assert(bytes.n >= 0 && blocks >= 0);
  Operation o;
  o.kind = kind;
  o.name = name;
  o.bytes = bytes;
  o.blocks = blocks;
  return o;
}

}  // namespace sim::model
