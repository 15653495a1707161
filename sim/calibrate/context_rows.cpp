// context_rows.cpp — attention alone, forward, over context-parallel ranks of one node: Ulysses by
// ring, calls in a loop (usp_attention_8xA100.csv).
//
// What is timed is the catalog's steps (context/context.h): messages before and after the products
// one after the other, messages beside them hidden as far as they are shorter, and of all ranks the
// slowest in each step. Around an exchange of heads its tensor is laid out anew on both sides.
// Later blocks of a ring are merged in fp32, an operator at a time. The CPU issues all that; where
// it is slower than the GPUs, its time counts.
//
// Sources of what is around the products: feifeibear/long-context-attention, comm/all_to_all.py and
// zhuzilin/ring-flash-attention, utils.py:update_out_and_lse (the operators that merge).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "sim/calibrate/measured_table.h"
#include "sim/calibrate/row_text.h"
#include "sim/calibrate/timing_kernels.h"
#include "sim/context/context.h"
#include "sim/device/kernel.h"
#include "sim/mesh/communicators.h"

namespace sim::calibrate {

namespace {

using context::Level;

// Bytes of HBM that a merge moves per element of the output: the block to fp32 (2 + 4), the
// difference (4 + 4 + 4), its share (4 + 4), the sum (4 + 4 + 4); the last one to 16 bits (4 + 2).
constexpr std::int64_t merge_bytes = 38, narrow_bytes = 6;
constexpr int merge_kernels = 7;
// One operator that lays a tensor out anew, before and after an exchange.
constexpr std::int64_t layout_bytes = 8;
constexpr int layout_kernels = 2;

struct Shared {
  search::Site& site;
  device::Profile profile;
  mesh::Degrees degrees;
  context::Shape shape;
  const context::Method& method;

  double seconds_of(const model::Operation& o) const {
    return sim::seconds(device::time(o, site.machine.gpu, profile));
  }
  double memory_bound(std::int64_t bytes) const {
    return seconds_of(model::memory_bound(model::OperationKind::elementwise, "copy", Bytes{bytes}));
  }
  double attention(const context::Call& call) const;
  double message(const context::Message& m) const;
};

// A long loop runs into the power limit as the products of a long run do.
double Shared::attention(const context::Call& call) const {
  const auto one = [&](std::int64_t queries, std::int64_t keys, bool causal) {
    return seconds_of(model::attention("attention", false, shape.batch, method.heads(shape),
                                       method.groups(shape), shape.head_dim, queries, keys, causal,
                                       model::Precision::bf16));
  };
  double time = 0;
  if (call.causal && call.keys > call.queries)
    time =
        one(call.queries, call.keys - call.queries, false) + one(call.queries, call.queries, true);
  else
    time = one(call.queries, call.keys, call.causal);
  return time / profile.gemm.sustained;
}

double Shared::message(const context::Message& m) const {
  const mesh::Communicator who = m.level == Level::all          ? mesh::Communicator::cp
                                 : m.level == Level::neighbours ? mesh::Communicator::ulysses
                                                                : mesh::Communicator::ring;
  const double wire =
      sim::seconds(site.network->duration(m.kind, mesh::groups(who, degrees), Bytes{m.bytes}));
  if (m.kind != collective::Kind::all_to_all) return wire;
  return wire + memory_bound(layout_bytes / shape.element * m.bytes);
}

// Seconds of one call on the GPUs, and on the CPU that issues it.
double gpu_seconds(const Shared& s) {
  std::vector<double> slowest;
  for (int rank = 0; rank < s.shape.ranks; ++rank) {
    const std::vector<context::Step> steps = s.method.forward(s.shape, rank);
    slowest.resize(steps.size(), 0);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      double products = 0, messages = 0, around = 0;
      for (const context::Call& call : steps[i].calls) products += s.attention(call);
      const std::int64_t outputs =
          s.shape.local() * s.shape.batch * s.shape.heads * s.shape.head_dim;
      if (steps[i].merges) products += s.memory_bound(merge_bytes * outputs);
      if (i > 0 && i + 1 == steps.size()) products += s.memory_bound(narrow_bytes * outputs);
      for (const context::Message& m : steps[i].beside) messages += s.message(m);
      for (const context::Message& m : steps[i].before) around += s.message(m);
      for (const context::Message& m : steps[i].after) around += s.message(m);
      slowest[i] = std::max(slowest[i], around + std::max(products, messages));
    }
  }
  double all = 0;
  for (const double step : slowest) all += step;
  return all;
}

double cpu_seconds(const Shared& s) {
  const device::HostProfile& host = s.site.profile.device.host;
  double time = sim::seconds(host.layer_forward);
  for (const context::Step& step : s.method.forward(s.shape, 0)) {
    const auto exchanges = static_cast<double>(step.before.size() + step.after.size());
    const auto sends = static_cast<double>(step.beside.size());
    time +=
        exchanges * (sim::seconds(host.collective) + layout_kernels * sim::seconds(host.kernel));
    time += 4 * sends * sim::seconds(host.point_to_point);  // keys and values, out and in
    time += (step.merges ? merge_kernels + 1.0 : 1.0) * sim::seconds(host.kernel);
  }
  return time;
}

// "128K", "512".
std::int64_t tokens_in(const std::string& text) {
  const std::optional<std::int64_t> value = leading_number(text);
  if (!value || *value < 1 || *value > (1 << 22)) return 0;
  return text.find('K') != std::string::npos ? *value * 1024 : *value;
}

context::TokenOrder order_of(const std::string& ring) {
  if (ring == "basic") return context::TokenOrder::contiguous;
  return ring == "stripe" ? context::TokenOrder::striped : context::TokenOrder::zigzag;
}

// The shape of a row; ranks 0: a number is missing or beyond reason.
context::Shape shape_of(const config::TableRow& row) {
  context::Shape shape;
  const std::int64_t ulysses = size_in(row, "ulysses_degree"), ring = size_in(row, "ring_degree");
  const std::int64_t heads = size_in(row, "head_num"), batch = size_in(row, "bs");
  const std::int64_t groups = size_in(row, "gqa_group_num");
  shape.ranks = 0;
  shape.head_dim = size_in(row, "head_size");
  shape.sequence = tokens_in(text_in(row, "seqlen"));
  const std::int64_t most = 4096;
  for (const std::int64_t n : {ulysses, ring, heads, batch, groups, shape.head_dim})
    if (n < 1 || n > most) return shape;
  if (shape.sequence < 1 || ulysses * ring > most) return shape;
  shape.ranks = static_cast<int>(ulysses * ring);
  shape.ulysses = static_cast<int>(ulysses);
  shape.batch = batch;
  shape.heads = static_cast<int>(heads);
  // The column counts the query heads of a group.
  shape.groups = static_cast<int>(std::max<std::int64_t>(heads / groups, 1));
  shape.order = order_of(text_in(row, "ring_impl"));
  return shape;
}

}  // namespace

RowAnswer predict_context(const config::TableRow& row, search::Sites& sites) {
  RowAnswer answer;
  const context::Shape shape = shape_of(row);
  answer.group = fmt::format("ulysses {} x ring {}", text_in(row, "ulysses_degree").substr(0, 6),
                             text_in(row, "ring_degree").substr(0, 6));
  answer.predicted.resize(1);
  answer.measured = {positive_in(row, "iters_per_s")};
  if (shape.ranks == 0) {
    answer.reason = "no shape";
    return answer;
  }
  const context::Method& method = *context::find("usp");
  answer.reason = method.problem(shape);
  answer.impossible = !answer.reason.empty();
  if (answer.impossible) return answer;
  // "8xA100-SXM4-80GB NVLink, one node"
  const std::string& hardware = text_in(row, "hardware");
  const std::size_t times = hardware.find('x');
  const std::string cluster =
      times == std::string::npos ? "" : cluster_of_gpu(hardware.substr(times + 1));
  Timing no_site;
  search::Site* site =
      cluster.empty() ? nullptr : site_of(hardware.substr(times + 1), sites, no_site);
  if (site == nullptr || shape.ranks > site->machine.cluster.node.gpus) {
    answer.reason = "hardware '" + hardware.substr(0, 60) + "' has no profile";
    return answer;
  }
  mesh::Degrees degrees;
  degrees.cp = shape.ranks;
  degrees.ulysses = shape.ulysses;
  const Shared shared{*site, site->profile.device, degrees, shape, method};
  answer.predicted = {1 / std::max(gpu_seconds(shared), cpu_seconds(shared))};
  return answer;
}

// Where all splits of one shape were measured: is their order the one predicted?
std::string context_summary(const config::Table& table, const std::vector<RowAnswer>& answers) {
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
  constexpr double alike = 0.05;  // measured closer than that: a tie
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
