// timing_products.cpp — predicts gemm.csv: matrix products by shape and layout, grouped products,
// best shapes, and fused attention.
#include <fmt/format.h>

#include <regex>

#include "sim/base/brief.h"
#include "sim/calibrate/tables/timing_kernels.h"

namespace sim::calibrate {

namespace {

using model::GemmRole;
using model::Operation;
using model::Precision;

// The role of a product by cuBLAS's layout: TN forward, NN gradient of the input, NT gradient of
// the weight.
GemmRole role_of(std::string_view layout) {
  if (layout == "NN") return GemmRole::input_gradient;
  return layout == "NT" ? GemmRole::weight_gradient : GemmRole::forward;
}

Precision product_precision(std::string_view dtype) {
  if (dtype.starts_with("fp8")) return Precision::fp8;
  return dtype.starts_with("fp16") ? Precision::fp16 : Precision::bf16;
}

// Seconds of `flops` at the row's TFLOP/s.
double at_rate(const input::TableRow& row, double flops) {
  const double rate = number(row.cells.at("tflops")).value_or(0);
  return rate > 0 ? flops / rate * 1e-6 : 0;
}

void product(const input::TableRow& row, const answer::Site& site, Timing& t) {
  const std::int64_t m = size_in(row, "m"), n = size_in(row, "n"), k = size_in(row, "k");
  const std::int64_t batch = std::max<std::int64_t>(size_in(row, "b"), 1);
  const Precision precision = product_precision(row.cells.at("dtype"));
  if (m == 0 || n == 0 || k == 0) {
    t.reason = "no shape";
    return;
  }
  if (!device::supports(site.machine.gpu, site.profile.device, precision)) {
    t.reason = "the profile has no rate for " + row.cells.at("dtype");
    return;
  }
  const Operation o = model::gemm("product", m, n, k, role_of(row.cells.at("layout")),
                                  row.cells.at("accumulate") == "True", precision, batch);
  t.measured_us = number(row.cells.at("time_us")).value_or(at_rate(row, o.flops));
  t.predicted_us = microseconds({o}, site, benchmark_profile(site));
}

// Reads "ng=40, M=616, N=3072, K=5120, ..., stage=bwd_grad_w, ..., accumulate=True": ng products
// with M rows each.
void grouped_product(const input::TableRow& row, const answer::Site& site, Timing& t) {
  static const std::regex shape(
      R"(ng=(\d{1,5}), M=(\d{1,7}), N=(\d{1,7}), K=(\d{1,7}),.*stage=(\w+),.*accumulate=(\w+))");
  std::smatch found;
  const std::string& text = text_in(row, "where");
  if (text.size() > 400 || !std::regex_search(text, found, shape)) {
    t.reason = "no shape";
    return;
  }
  const std::int64_t groups = std::stoll(found[1]), m = std::stoll(found[2]);
  const std::int64_t n = std::stoll(found[3]), k = std::stoll(found[4]);
  if (groups == 0 || m == 0 || n == 0 || k == 0) {
    t.reason = "no shape";
    return;
  }
  const bool weight = found[5] == "bwd_grad_w";
  t.group += " " + found[5].str();
  const Operation o =
      weight ? model::gemm("grouped", n, k, m, GemmRole::weight_gradient, found[6] == "True",
                           Precision::bf16, groups)
      : found[5] == "fwd"
          ? model::gemm("grouped", m, n, k, GemmRole::forward, false, Precision::bf16, groups)
          : model::gemm("grouped", m, k, n, GemmRole::input_gradient, false, Precision::bf16,
                        groups);
  t.measured_us = at_rate(row, o.flops);
  t.predicted_us = microseconds({o}, site, benchmark_profile(site));
}

// Moves the named kernel to the front of the profile. False if the profile lacks it.
bool choose(device::Profile& profile, std::string_view implementation) {
  for (std::size_t i = 0; i < profile.attention.size(); ++i) {
    if (profile.attention[i].implementation != implementation) continue;
    std::swap(profile.attention[0], profile.attention[i]);
    return true;
  }
  return false;
}

void attention(const input::TableRow& row, const answer::Site& site, Timing& t) {
  const std::int64_t batch = size_in(row, "batch"), seq = size_in(row, "seq");
  const std::int64_t heads = size_in(row, "heads"), d = size_in(row, "head_dim");
  const std::int64_t kv = std::max<std::int64_t>(size_in(row, "kv_heads"), 1);
  if (batch == 0 || seq == 0 || heads == 0 || d == 0 || seq > 1 << 24) {
    t.reason = "no shape";
    return;
  }
  if (const std::int64_t values = size_in(row, "v_head_dim"); values != 0 && values != d) {
    t.reason = "values of another head size than keys";
    return;
  }
  const std::string& causal_text = row.cells.at("causal");
  const bool causal = causal_text.starts_with("1");
  const std::string& direction = row.cells.at("direction");
  const bool forward = direction.starts_with("fwd"), backward = direction.ends_with("bwd");
  // The source counts 4 s^2 d h FLOPs forward and 2.5 times that backward.
  double flops = 4.0 * static_cast<double>(batch * heads * d) * static_cast<double>(seq) *
                 static_cast<double>(seq);
  flops *= (forward ? 1.0 : 0.0) + (backward ? 2.5 : 0.0);
  if (causal && causal_text == "1") flops *= 0.5;
  t.measured_us = number(row.cells.at("time_us")).value_or(at_rate(row, flops));

  const std::string& impl = row.cells.at("impl");
  device::Profile profile = benchmark_profile(site);
  if (impl == "Pytorch") {
    for (const bool back : {false, true}) {
      if (!(back ? backward : forward)) continue;
      t.predicted_us +=
          microseconds(attention_in_memory(batch, heads, d, seq, seq, causal, back), site, profile);
    }
    return;
  }
  const std::string name = impl == "FlashAttention"     ? "flash-attention-1"
                           : impl == "FlashAttention-2" ? "flash-attention-2"
                           : impl == "FlashAttention-3" ? "flash-attention-3"
                           : impl == "cuDNN"            ? "cudnn"
                                                        : profile.attention[0].implementation;
  if (!choose(profile, name)) {
    t.reason = "the profile has no " + name;
    return;
  }
  for (const bool back : {false, true}) {
    if (!(back ? backward : forward)) continue;
    t.predicted_us +=
        microseconds({model::attention("attention", back, batch, heads, kv, d, seq, seq, causal)},
                     site, profile);
  }
}

}  // namespace

void time_products(const input::TableRow& row, answer::Sites& sites, std::vector<Timing>& out) {
  Timing& t = out.emplace_back();
  for (const char* column : {"gpu", "kernel", "dtype", "layout", "accumulate", "tflops", "time_us",
                             "impl", "causal", "direction"}) {
    if (row.cells.contains(column)) continue;
    t.reason = fmt::format("the table has no column '{}'", column);
    return;
  }
  const std::string& kernel = row.cells.at("kernel");
  const std::string& gpu = row.cells.at("gpu");
  t.group = gpu + ", " + kernel;
  for (const char* column : {"layout", "impl", "direction"}) {
    if (kernel.starts_with("gemm_max")) continue;
    const std::string& value = row.cells.at(column);
    if (!value.empty()) t.group += " " + value;
  }
  const answer::Site* site = site_of(gpu, sites, t);
  if (site == nullptr) return;
  if (kernel == "matmul" || kernel.starts_with("gemm_max")) {
    product(row, *site, t);
  } else if (kernel == "group_matmul") {
    grouped_product(row, *site, t);
  } else if (kernel == "attention" || kernel.starts_with("sdp_")) {
    attention(row, *site, t);
  } else {
    t.reason = "kernel '" + brief(kernel) + "' is not known";
  }
}

}  // namespace sim::calibrate
