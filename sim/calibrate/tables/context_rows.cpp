// context_rows.cpp — predicts rows of attention alone over the context-parallel ranks of one node.
// Rows (usp_attention_8xA100.csv) measure forward calls in a loop, for degrees of Ulysses and of
// ring attention.
//
// Rows are replayed with the programs of core attention that plans with context usp have
// (program/layers/attention/usp.cpp): call after call, without autograd. The benchmark of separate
// tensors waits for the GPU after each call and exchanges heads in groups of one rank too; the
// benchmark of packed tensors does neither.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "sim/base/ascii.h"
#include "sim/calibrate/rows/row_text.h"
#include "sim/calibrate/tables/measured_table.h"
#include "sim/calibrate/tables/timing_kernels.h"
#include "sim/engine/replay.h"
#include "sim/program/build/attention_alone.h"

namespace sim::calibrate {

namespace {

// A number of tokens such as "128K", "512" or "1M"; 0 for other texts.
std::int64_t tokens_in(const std::string& text) {
  const std::optional<std::int64_t> value = leading_number(text);
  constexpr std::int64_t most = 1 << 22;
  if (!value || *value < 1 || *value > most) return 0;
  const std::size_t digits = text.find_first_not_of("0123456789");
  const std::string unit = digits == std::string::npos ? "" : text.substr(digits);
  if (unit.size() > 1 || unit.find_first_not_of("KkMm") != std::string::npos) return 0;
  std::int64_t tokens = *value;
  if (!unit.empty()) tokens *= lower(unit.front()) == 'k' ? 1024 : 1024 * 1024;
  return tokens <= most ? tokens : 0;
}

std::optional<context::TokenOrder> order_of(const std::string& ring) {
  if (ring == "basic") return context::TokenOrder::contiguous;
  if (ring == "stripe" || ring == "strip") return context::TokenOrder::striped;
  if (ring == "zigzag") return context::TokenOrder::zigzag;
  return std::nullopt;
}

// The CPU of the machine takes `host_factor` times as long as the profile's for each operation
// (column host_factor; 1 where it is missing).
device::Profile slowed(const device::Profile& profile, double factor) {
  device::Profile slow = profile;
  device::HostProfile& host = slow.host;
  for (Duration* d : {&host.kernel, &host.collective, &host.point_to_point, &host.event,
                      &host.allocation, &host.release, &host.synchronisation, &host.layer_forward})
    d->ps = std::llround(static_cast<double>(d->ps) * factor);
  return slow;
}

// Fills the plan of a row with one attention. Returns "" or the reason why the row is not
// supported.
std::string read_plan(const input::TableRow& row, program::Plan& plan) {
  if (!order_of(text_in(row, "ring_impl")))
    return fmt::format("ring_impl '{}' is none of basic, stripe and zigzag",
                       text_in(row, "ring_impl").substr(0, 60));
  if (const std::string& pass = text_in(row, "pass"); contains(pass, "bwd"))
    return fmt::format("pass '{}': forward alone is replayed", pass.substr(0, 60));
  const std::string& layout = text_in(row, "qkv_layout");
  if (layout != "qkvpack" && layout != "no_packed")
    return fmt::format("qkv_layout '{}' is neither qkvpack nor no_packed", layout.substr(0, 60));
  if (const std::string& factor = text_in(row, "host_factor");
      !factor.empty() && !positive_in(row, "host_factor"))
    return fmt::format("host_factor '{}' is not a positive number", factor.substr(0, 60));
  std::map<std::string, std::int64_t> n;
  constexpr std::int64_t most = 4096;
  for (const char* column :
       {"ulysses_degree", "ring_degree", "head_num", "bs", "gqa_group_num", "head_size"}) {
    n[column] = size_in(row, column);
    if (n[column] < 1 || n[column] > most) return "no shape";
  }
  plan.batch.sequence = tokens_in(text_in(row, "seqlen"));
  if (plan.batch.sequence < 1 || n["ulysses_degree"] * n["ring_degree"] > most) return "no shape";
  plan.mesh.cp = static_cast<int>(n["ulysses_degree"] * n["ring_degree"]);
  plan.mesh.ulysses = static_cast<int>(n["ulysses_degree"]);
  plan.mesh.context = "usp";
  plan.batch.micro_batch = plan.batch.global_batch = static_cast<int>(n["bs"]);
  model::Architecture& a = plan.architecture;
  a.name = "attention";
  a.layers = 1;
  a.heads = n["head_num"];
  // The column gqa_group_num counts the query heads per group.
  a.kv_heads = std::max<std::int64_t>(a.heads / n["gqa_group_num"], 1);
  a.head_dim = n["head_size"];
  a.hidden = a.heads * a.head_dim;
  a.ffn = a.vocab = a.hidden;
  plan.stack.attention = program::AttentionBackend::flash;
  plan.stack.layer_kernels = program::LayerKernels::compiled;
  plan.stack.attention_mask = false;
  return "";
}

}  // namespace

RowAnswer predict_context(const input::TableRow& row, answer::Sites& sites) {
  RowAnswer answer;
  program::Plan plan;
  answer.group = fmt::format("ulysses {} x ring {}", text_in(row, "ulysses_degree").substr(0, 6),
                             text_in(row, "ring_degree").substr(0, 6));
  answer.predicted.resize(1);
  answer.measured = {positive_in(row, "iters_per_s")};
  answer.reason = read_plan(row, plan);
  if (!answer.reason.empty()) return answer;
  // Text such as "8xA100-SXM4-80GB NVLink, one node".
  const std::string& hardware = text_in(row, "hardware");
  const std::size_t times = hardware.find('x');
  const std::string cluster =
      times == std::string::npos ? "" : cluster_of_gpu(hardware.substr(times + 1));
  Timing no_site;
  answer::Site* site =
      cluster.empty() ? nullptr : site_of(hardware.substr(times + 1), sites, no_site);
  if (site == nullptr || plan.mesh.cp > site->machine.cluster.node.gpus) {
    answer.reason = "hardware '" + hardware.substr(0, 60) + "' has no profile";
    return answer;
  }
  const Result<answer::CheckedPlan> checked = answer::check(plan, *site);
  answer.impossible = !checked;
  if (answer.impossible) {
    answer.reason = checked.errors().front().message;
    return answer;
  }
  const bool packed = text_in(row, "qkv_layout") == "qkvpack";
  const program::AttentionCalls calls{
      *order_of(text_in(row, "ring_impl")),
      packed ? program::QkvLayout::packed : program::QkvLayout::separate, !packed, !packed, 20};
  const device::Gpu& gpu = site->machine.gpu;
  const device::Profile profile =
      slowed(site->profile.device, positive_in(row, "host_factor").value_or(1));
  const program::Job job =
      program::attention_alone(checked->plan(), engine::environment(gpu, profile), calls);
  const engine::RunReport report =
      engine::run(job, engine::price(job, gpu, profile, *site->network),
                  engine::outside_memory(job, plan, gpu, profile, *site->network));
  answer.predicted = {calls.calls / seconds(report.step_time)};
  return answer;
}

// For shapes with several measured splits: the share of pairs whose predicted order is right.
std::string context_summary(const input::Table& table, const std::vector<RowAnswer>& answers) {
  using Pair = std::pair<double, double>;  // measured, predicted
  std::map<std::string, std::vector<Pair>> shapes;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const RowAnswer& a = answers[i];
    if (!a.reason.empty() || !a.measured[0] || !a.predicted[0]) continue;
    std::string key;
    for (const char* column :
         {"gqa_group_num", "bs", "seqlen", "head_num", "head_size", "ring_impl", "qkv_layout"})
      key += text_in(table.rows[i], column) + " ";
    shapes[key].emplace_back(*a.measured[0], *a.predicted[0]);
  }
  std::size_t pairs = 0, right = 0;
  constexpr double alike = 0.05;  // pairs closer than this are ties
  for (const auto& [key, splits] : shapes)
    for (std::size_t i = 0; i < splits.size(); ++i)
      for (std::size_t j = i + 1; j < splits.size(); ++j) {
        if (std::abs(splits[i].first / splits[j].first - 1) < alike) continue;
        ++pairs;
        right += (splits[i].first > splits[j].first) == (splits[i].second > splits[j].second);
      }
  return fmt::format(
      "of {} pairs of splits of one shape whose rates are over 5 % apart, {} are in "
      "the order measured\n",
      pairs, right);
}

}  // namespace sim::calibrate
