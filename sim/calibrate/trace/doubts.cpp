#include "sim/calibrate/trace/doubts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace sim::calibrate {

namespace {

constexpr double half = 0.5;
constexpr double most_missing = 0.25;  // of the plan's predicted time
constexpr double most_apart = 0.02;    // number of attention passes
constexpr double least_known = 0.8;    // of the time of products with shapes

std::string wrong_gpu(const ComparedTrace& trace, const device::Gpu& gpu) {
  if (kinship(trace.trace.device, gpu.name) != Kinship::stranger) return "";
  return fmt::format(
      "recorded on {}, but the plan's cluster has {}; name the cluster with "
      "--cluster",
      trace.trace.device, gpu.name);
}

bool is_backward(const ExpectedOperation& o) {
  using enum program::PassKind;
  return o.pass == backward || o.pass == weight || o.pass == output_gradient;
}

std::string only_forward(const ComparedTrace& trace) {
  std::vector<bool> used(trace.expected->operations.size());
  for (const auto& owners : trace.match.owners)
    for (const std::int32_t owner : owners)
      if (owner >= 0) used[static_cast<std::size_t>(owner)] = true;
  bool expected = false;
  for (std::size_t i = 0; i < used.size(); ++i) {
    const ExpectedOperation& o = trace.expected->operations[i];
    if (!is_backward(o) || communicates(o.family)) continue;
    if (used[i]) return "";
    expected = true;
  }
  return expected ? "no kernel of a backward pass: a trace of inference; record training steps"
                  : "";
}

// Operations of the plan without a kernel, by their predicted time.
std::string incomplete(const ComparedTrace& trace) {
  double all = 0, missing = 0;
  for (const ExpectedOperation& o : trace.expected->operations)
    if (!communicates(o.family)) all += seconds(o.own());
  for (const Unmatched& one : trace.comparison.operations)
    if (!one.family.empty()) missing += one.seconds;
  for (const Unmatched& one : trace.comparison.operations)
    for (int f = 0; f < kernel_family_count; ++f)
      if (communicates(static_cast<KernelFamily>(f)) &&
          one.family == name(static_cast<KernelFamily>(f)))
        missing -= one.seconds;
  if (!(all > 0) || missing <= most_missing * all) return "";
  return fmt::format(
      "operations of the plan with {:.0f} % of its time have no kernel: the trace ends within a "
      "step, or another plan ran",
      100 * missing / all);
}

std::string unlike(const ComparedTrace& trace) {
  const MatchShare& share = trace.comparison.share;
  if (share.by_time() < half)
    return fmt::format("only {:.0f} % of the kernel time matches operations of the plan",
                       100 * share.by_time());
  if (share.near_by_time() < half)
    return fmt::format(
        "only {:.0f} % of the matched kernel time is within a factor of two of the prediction",
        100 * share.near_by_time());
  return "";
}

std::string far_off_step(const ComparedTrace& trace) {
  const StepComparison& c = trace.comparison;
  if (trace.trace.end_to_end || !(c.measured_s > 0) || !(c.predicted_s > 0)) return "";
  const double ratio = c.predicted_s / c.measured_s;
  if (ratio >= half && ratio <= 1 / half) return "";
  return fmt::format("the step is predicted at {:.3g} times its measured time", ratio);
}

// The number of forward passes of attention in a step.
std::string other_layers(const ComparedTrace& trace, const program::Plan& plan) {
  double expected = 0, measured = 0;
  for (const ExpectedOperation& o : trace.expected->operations)
    expected += o.family == KernelFamily::attention_forward;
  for (const Calls& calls : trace.match.calls)
    for (const Call& call : calls.all)
      measured += call.item.family == KernelFamily::attention_forward;
  measured /= static_cast<double>(std::max<std::size_t>(1, trace.match.calls.size()));
  if (expected == 0 || measured == 0 || std::abs(measured / expected - 1) <= most_apart) return "";
  return fmt::format(
      "{:.0f} forward passes of attention in a step, {:.0f} in the plan; check layers ({}: {:.0f} "
      "by this count), the microbatches of a step and recompute",
      measured, expected, plan.architecture.layers,
      static_cast<double>(plan.architecture.layers) * measured / expected);
}

using Sizes = std::array<std::int64_t, 3>;

// The sizes of a product, whatever its role: sorted, since m, n and k change places between passes.
Sizes sizes_of(const model::Operation& o) {
  Sizes sizes = {o.m, o.n, o.k};
  std::ranges::sort(sizes);
  return sizes;
}

bool is_gemm(const model::Operation& o) {
  return o.kind == model::OperationKind::gemm;
}

std::set<Sizes> planned_products(const ExpectedStep& step) {
  std::set<Sizes> all;
  for (const ExpectedOperation& o : step.operations)
    if (o.family == KernelFamily::gemm) all.insert(sizes_of(step.kernel(o)));
  return all;
}

// The size that most products of the trace have, apart from the number of tokens.
std::int64_t common_size(const std::map<Sizes, double>& products, std::int64_t tokens) {
  std::map<std::int64_t, int> counts;
  for (const auto& [sizes, time] : products) {
    const std::set<std::int64_t> distinct(sizes.begin(), sizes.end());
    for (const std::int64_t one : distinct) counts[one] += one != tokens;
  }
  const auto most =
      std::ranges::max_element(counts, {}, [](const auto& one) { return one.second; });
  return most == counts.end() ? 0 : most->first;
}

// Tokens of a microbatch by the attention of the trace; 0 if its shapes were not recorded.
struct Recorded {
  std::int64_t tokens = 0, sequence = 0, heads = 0, head_dim = 0;
};
Recorded recorded_attention(const MeasuredTrace& trace) {
  for (const KernelSample& sample : trace.shaped) {
    const model::Operation& o = sample.operations.front();
    if (o.kind == model::OperationKind::attention_forward)
      return {o.batch * o.query, o.query, o.heads, o.head_dim};
  }
  return {};
}

// What the recorded shapes say of the plan's settings: "hidden 5120 (plan: 4096)".
std::vector<std::string> proposed(const std::map<Sizes, double>& products,
                                  const MeasuredTrace& trace, const program::Plan& plan) {
  std::vector<std::string> settings;
  const auto propose = [&](const char* name, std::int64_t measured, std::int64_t planned) {
    if (measured > 0 && measured != planned)
      settings.push_back(fmt::format("{} {} (plan: {})", name, measured, planned));
  };
  const Recorded attention = recorded_attention(trace);
  const std::int64_t ranks = plan.mesh.cp;
  const std::int64_t tokens = attention.tokens > 0 ? attention.tokens
                                                   : plan.batch.sequence * plan.batch.micro_batch /
                                                         std::max<std::int64_t>(1, ranks);
  if (ranks == 1) propose("sequence", attention.sequence, plan.batch.sequence);
  propose("head_dim", attention.head_dim, plan.architecture.head_dim);
  propose("hidden", common_size(products, tokens), plan.architecture.hidden);
  return settings;
}

std::string other_products(const ComparedTrace& trace, const program::Plan& plan) {
  const std::set<Sizes> planned = planned_products(*trace.expected);
  std::map<Sizes, double> products;
  double all = 0, known = 0;
  std::pair<double, Sizes> longest{};
  for (const KernelSample& sample : trace.trace.shaped) {
    const model::Operation& o = sample.operations.front();
    if (!is_gemm(o)) continue;
    products[sizes_of(o)] += sample.seconds;
    all += sample.seconds;
    if (planned.contains(sizes_of(o))) known += sample.seconds;
  }
  if (!(all > 0) || known >= least_known * all) return "";
  for (const auto& [sizes, time] : products)
    if (!planned.contains(sizes)) longest = std::max(longest, {time, sizes});
  const auto& [time, s] = longest;
  const std::vector<std::string> settings = proposed(products, trace.trace, plan);
  return fmt::format(
      "products with {:.0f} % of the time of all have sizes that the plan does not have, such as "
      "{} x {} x {}{}",
      100 * (1 - known / all), s[0], s[1], s[2],
      settings.empty() ? "" : fmt::format("; by the trace: {}", fmt::join(settings, ", ")));
}

// The precision of a product by the name of its kernel; nothing if the name does not say it.
std::optional<model::Precision> named_precision(std::string_view kernel) {
  const auto has = [&](const char* word) { return kernel.find(word) != std::string_view::npos; };
  if (has("e4m3") || has("e5m2") || has("fp8")) return model::Precision::fp8;
  if (has("bf16")) return model::Precision::bf16;
  if (has("fp16") || has("f16f16") || has("hgemm")) return model::Precision::fp16;
  if (has("tf32")) return model::Precision::tf32;
  if (has("sgemm")) return model::Precision::fp32;
  return std::nullopt;
}

const char* precision_text(model::Precision precision) {
  switch (precision) {
    case model::Precision::fp4:
      return "fp4";
    case model::Precision::fp8:
      return "fp8";
    case model::Precision::bf16:
      return "bf16";
    case model::Precision::fp16:
      return "fp16";
    case model::Precision::tf32:
      return "tf32";
    case model::Precision::fp32:
      break;
  }
  return "fp32";
}

std::string other_precision(const ComparedTrace& trace, const program::Plan& plan) {
  std::map<model::Precision, std::int64_t> time;
  std::int64_t all = 0;
  for (const MeasuredKernel& kernel : trace.trace.kernels) {
    if (kernel.family != KernelFamily::gemm) continue;
    all += kernel.duration_ns;
    if (const auto precision = named_precision(kernel.name)) time[*precision] += kernel.duration_ns;
  }
  const auto most = std::ranges::max_element(time, {}, [](const auto& one) { return one.second; });
  if (most == time.end() || 2 * most->second < all) return "";
  if (most->first == plan.product_precision() || most->first == plan.wide_precision()) return "";
  return fmt::format("its products are in {}, the plan's in {}", precision_text(most->first),
                     precision_text(plan.product_precision()));
}

}  // namespace

std::vector<std::string> doubts(const ComparedTrace& trace, const program::Plan& plan,
                                const device::Gpu& gpu) {
  std::vector<std::string> all;
  for (std::string one : {wrong_gpu(trace, gpu), far_off_step(trace), unlike(trace),
                          only_forward(trace), incomplete(trace), other_layers(trace, plan),
                          other_products(trace, plan), other_precision(trace, plan)})
    if (!one.empty()) all.push_back(std::move(one));
  return all;
}

}  // namespace sim::calibrate
