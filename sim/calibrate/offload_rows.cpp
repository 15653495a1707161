// offload_rows.cpp — ZeRO-3 runs of Megatron-DeepSpeed with the optimizer on the CPU
// (deep_optimizer_states_runs.csv): forward, backward, step and iteration time.
//
// The passes are replayed: a GPT of the row's shape, parameters in shards, every layer recomputed.
// Gradients of the last microbatch go down as each unit has them (offload.h), the step is the
// catalog's on the rates of calibration/hosts.csv, which name their sources.
//
// Not in the rows, and taken from the program they ran: 51200 words, GELU, sequences whole on each
// rank (no sequence parallelism), 16-bit reductions.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "sim/calibrate/measured_table.h"
#include "sim/calibrate/row_text.h"
#include "sim/calibrate/timing_kernels.h"
#include "sim/config/hosts.h"
#include "sim/offload/offload.h"
#include "sim/replay/observer.h"

namespace sim::calibrate {

namespace {

enum Part : std::size_t { iteration, forward, backward, step };

// A machine of the table: words of its column, our name in hosts.csv, the cluster whose GPUs and
// links are the same.
struct Host {
  const char* hint;
  const char* name;
  const char* cluster;
};
constexpr std::array<Host, 2> hosts = {
    {{"Polaris", "polaris", "perlmutter"}, {"JLSE", "jlse-h100", "dgx-h100"}}};

struct HostRates {
  offload::Rates rates;
  double gpus_per_node = 1, node_network = 0, microbatch_other = 0, step_other = 0;
  double layer_forward = 0, layer_backward = 0;  // that the CPU takes to issue one
};

// By the names of hosts.csv.
Result<HostRates> rates_of(const std::string& name) {
  HostRates host;
  const Diagnostics problems =
      config::read_host(name, {{"gpus_per_node", &host.gpus_per_node},
                               {"cores", &host.rates.cores},
                               {"memory", &host.rates.memory},
                               {"pcie_up", &host.rates.pcie_up},
                               {"pcie_down", &host.rates.pcie_down},
                               {"flush", &host.rates.flush},
                               {"layer_forward", &host.layer_forward},
                               {"layer_backward", &host.layer_backward},
                               {"blocking_flush", &host.rates.blocking_flush},
                               {"gpu_update", &host.rates.gpu_update},
                               {"blocking_bytes", &host.rates.blocking_bytes},
                               {"pinned_bytes", &host.rates.pinned_bytes},
                               {"state_bytes", &host.rates.state_bytes},
                               {"node_network", &host.node_network},
                               {"microbatch_other", &host.microbatch_other},
                               {"step_other", &host.step_other}});
  if (!problems.empty()) return problems;
  return host;
}

// When the passes of the last step of the first rank class begin and end.
class PassTimes final : public replay::Observer {
 public:
  void operation(int rank_class, workload::Stream, std::string_view, const replay::Place& place,
                 Time start, Time, Time end) override {
    constexpr int last_step = 2;
    if (rank_class != 0 || place.step != last_step) return;
    const bool forward = place.pass == workload::PassKind::forward;
    if (!forward && place.pass != workload::PassKind::backward) return;
    auto& begins = forward ? forward_ : backward_;
    const auto [at, added] = begins.try_emplace(place.microbatch, start);
    at->second = std::min(at->second, start);
    end_ = std::max(end_, end);
    if (!forward) units_[place.microbatch][place.layer] = end;
  }
  void memory(const replay::MemoryChange&) override {}

  Duration forward() const {
    Duration sum{};
    for (const auto& [m, begin] : forward_) sum += backward_.at(m) - begin;
    return sum;
  }
  Duration backward() const {
    Duration sum{};
    for (const auto& [m, begin] : backward_) {
      const auto next = forward_.find(m + 1);
      sum += (next == forward_.end() ? end_ : next->second) - begin;
    }
    return sum;
  }
  Time end() const { return end_; }
  bool complete(int layers) const {
    return !backward_.empty() && forward_.size() == backward_.size() &&
           static_cast<int>(units_.rbegin()->second.size()) > layers;
  }
  // When the last microbatch has done with a layer; -1: with what is in no layer.
  Time unit_end(int layer) const { return units_.rbegin()->second.at(layer); }

 private:
  std::map<int, Time> forward_, backward_;
  std::map<int, std::map<int, Time>> units_;
  Time end_{};
};

struct Run {
  workload::Plan plan;
  const offload::Method* method = nullptr;
  offload::Shape shape;
};

const offload::Method* method_of(const std::string& mode) {
  if (mode.starts_with("ZeRO-3 offload baseline")) return offload::find("zero-3");
  if (mode.starts_with("async grad flush")) return offload::find("zero-3-flush");
  return mode.starts_with("DeepOptimizerStates") ? offload::find("deep") : nullptr;
}

// "" or why the row is no run.
std::string read_run(const config::TableRow& row, Run& run) {
  std::map<std::string, std::int64_t> n;
  for (const char* column :
       {"tp", "dp", "layers", "hidden", "heads", "seq", "gbs", "mbs", "subgroup_params"}) {
    n[column] = size_in(row, column);
    if (n[column] < 1 || n[column] > std::int64_t{1} << 32)
      return fmt::format("column {} holds no number", column);
  }
  run.method = method_of(text_in(row, "mode"));
  if (run.method == nullptr)
    return "mode '" + text_in(row, "mode").substr(0, 60) + "' is not represented";
  constexpr std::int64_t most = 1 << 16;
  for (const char* column : {"tp", "dp", "layers", "hidden", "heads", "gbs", "mbs"})
    if (n[column] > most) return fmt::format("column {} is beyond reason", column);
  if (n["hidden"] % n["heads"] != 0) return "the heads do not divide the hidden size";
  workload::Plan& plan = run.plan;
  model::Architecture& a = plan.architecture;
  a.name = text_in(row, "model");
  a.layers = n["layers"];
  a.hidden = n["hidden"];
  a.heads = a.kv_heads = n["heads"];
  a.head_dim = a.hidden / a.heads;
  a.ffn = 4 * a.hidden;
  a.vocab = 51200;
  a.activation = model::Activation::gelu;
  a.norm = model::Norm::layer;
  a.position = model::Position::rope;
  plan.mesh.tp = static_cast<int>(n["tp"]);
  plan.mesh.dp = static_cast<int>(n["dp"]);
  plan.batch.micro_batch = static_cast<int>(n["mbs"]);
  plan.batch.global_batch = static_cast<int>(n["gbs"]);
  plan.batch.sequence = n["seq"];
  plan.sharding.data_parallel = workload::DataParallelism::fsdp2;
  plan.mesh.sequence_parallel = false;
  plan.numerics.fp32_gradients = false;
  plan.policy.recompute = workload::Recompute::full;
  plan.numerics.precision = model::Precision::bf16;
  plan.stack.attention = workload::AttentionBackend::unfused;
  const double ratio = positive_in(row, "cpu_offload_ratio").value_or(1);
  const std::int64_t stride = size_in(row, "opt_gap_k");
  run.shape.sub_group = n["subgroup_params"];
  run.shape.fraction = ratio;
  const bool strides = run.method->name == "deep";
  run.shape.stride = strides ? static_cast<int>(std::min<std::int64_t>(stride, most)) : 0;
  return "";
}

// The site whose node is the host's.
search::Site* site_of_host(const Host& host, const HostRates& rates, search::Sites& sites,
                           std::string& reason) {
  search::SiteChange change;
  change.gpus_per_node = static_cast<int>(rates.gpus_per_node);
  change.nics = 1;
  change.nic = Bandwidth{static_cast<std::int64_t>(rates.node_network)};
  const Result<search::Site*> site = sites.find(host.cluster, "", change);
  if (site) return *site;
  reason = site.errors().front().where + ": " + site.errors().front().message;
  return nullptr;
}

// Gradients of the last microbatch, unit by unit from the last layer on; what is in no layer last.
Duration backward_time(const Run& run, const PassTimes& times, const offload::Rates& rates) {
  std::vector<Time> ready;
  std::vector<std::int64_t> counts;
  const int layers = static_cast<int>(run.plan.architecture.layers);
  const std::int64_t hidden = run.plan.architecture.hidden;
  const double shards = static_cast<double>(run.plan.mesh.tp) * run.plan.mesh.dp;
  std::int64_t left = run.shape.parameters;
  const auto unit = [&](Time when, std::int64_t parameters) {
    ready.push_back(when);
    counts.push_back(
        static_cast<std::int64_t>(run.shape.fraction * static_cast<double>(parameters)));
    left -= parameters;
  };
  for (int layer = layers - 1; layer >= 0; --layer)
    unit(times.unit_end(layer),
         static_cast<std::int64_t>(12.0 * static_cast<double>(hidden * hidden) / shards));
  unit(times.end(), left);
  const Time end = std::max(times.end(), offload::flushed(*run.method, ready, counts, rates));
  return times.backward() + (end - times.end());
}

void read_measured(const config::TableRow& row, RowAnswer& answer) {
  for (const char* column : {"iter_ms", "fwd_ms", "bwd_ms", "step_ms"})
    answer.measured.push_back(positive_in(row, column));
}

}  // namespace

RowAnswer predict_offload(const config::TableRow& row, search::Sites& sites) {
  RowAnswer answer;
  answer.predicted.resize(4);
  read_measured(row, answer);
  const std::string& hint = text_in(row, "host_hint");
  const auto host = std::ranges::find_if(
      hosts, [&](const Host& h) { return hint.find(h.hint) != std::string::npos; });
  if (host == hosts.end()) {
    answer.reason = "host '" + hint.substr(0, 60) + "' has no rates";
    return answer;
  }
  Run run;
  answer.reason = read_run(row, run);
  if (!answer.reason.empty()) return answer;
  answer.group = fmt::format("{}, {}", host->name, run.method->name);
  const Result<HostRates> rates = rates_of(host->name);
  if (!rates) {
    answer.reason = rates.errors().front().where + ": " + rates.errors().front().message;
    return answer;
  }
  search::Site* site = site_of_host(*host, *rates, sites, answer.reason);
  if (site == nullptr) return answer;
  const std::vector<std::string> problems = search::problems(run.plan, *site);
  run.shape.parameters =
      static_cast<std::int64_t>(12 * run.plan.architecture.layers * run.plan.architecture.hidden *
                                    run.plan.architecture.hidden +
                                2 * run.plan.architecture.vocab * run.plan.architecture.hidden) /
      (std::int64_t{run.plan.mesh.tp} * run.plan.mesh.dp);
  const std::string shape_problem =
      problems.empty() ? run.method->problem(run.shape) : problems.front();
  if (!shape_problem.empty()) {
    answer.reason = shape_problem;
    answer.impossible = true;
    return answer;
  }
  PassTimes times;
  replay::Options options;
  options.observer = &times;
  search::evaluate_once(run.plan, *site, options);
  if (!times.complete(static_cast<int>(run.plan.architecture.layers))) {
    answer.reason = "the replay ended before its last step";
    return answer;
  }
  offload::Rates own = rates->rates;
  own.ranks = static_cast<int>(std::min<double>(
      rates->gpus_per_node, static_cast<double>(run.plan.mesh.tp) * run.plan.mesh.dp));
  // The CPU fetches, gathers and hooks module by module; narrow layers wait for it.
  const double issued = static_cast<double>(run.plan.architecture.layers) *
                        static_cast<double>(run.plan.microbatches());
  const double passes = std::max(seconds(times.forward()), issued * rates->layer_forward);
  const double behind =
      std::max(seconds(backward_time(run, times, own)), issued * rates->layer_backward);
  const offload::Timeline timeline = offload::run(run.method->step(run.shape, own));
  const double update = seconds(timeline.last - Time{});
  const double other = rates->step_other + run.plan.microbatches() * rates->microbatch_other;
  constexpr double ms = 1e3;
  answer.predicted[iteration] = ms * (passes + behind + update + other);
  answer.predicted[forward] = ms * passes;
  answer.predicted[backward] = ms * behind;
  answer.predicted[step] = ms * update;
  return answer;
}

// Of runs that differ in the stride alone, which one was fastest? Runs that were repeated say how
// much a difference means.
std::string offload_summary(const config::Table& table, const std::vector<RowAnswer>& answers) {
  struct Run {
    double measured = 0, predicted = 0;
  };
  struct Range {
    double least = 0, most = 0;
  };
  std::map<std::string, std::vector<Run>> strides;  // of runs that are else alike
  std::map<std::string, Range> repeats;             // of one run, in any folder
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const RowAnswer& a = answers[i];
    if (!a.reason.empty() || !a.measured[iteration] || !a.predicted[iteration]) continue;
    const config::TableRow& row = table.rows[i];
    // A row of no whole iteration is of a run that broke off while it warmed up.
    if (!text_in(row, "mode").starts_with("DeepOptimizerStates")) continue;
    if (text_in(row, "n_iter_used") == "0") continue;
    std::string shape;
    for (const char* column : {"model", "tp", "dp", "gbs", "mbs", "cpu_offload_ratio"})
      shape += text_in(row, column) + " ";
    strides[text_in(row, "dir") + " " + shape].push_back(
        {*a.measured[iteration], *a.predicted[iteration]});
    const double time = *a.measured[iteration];
    const auto [at, first] =
        repeats.try_emplace(shape + text_in(row, "opt_gap_k") + " " +
                                text_in(row, "subgroup_params") + " " + text_in(row, "host_hint"),
                            Range{time, time});
    at->second = {std::min(at->second.least, time), std::max(at->second.most, time)};
  }
  std::size_t compared = 0, right = 0;
  double lost = 0;
  for (const auto& [key, runs] : strides) {
    if (runs.size() < 2) continue;
    const double fastest = std::ranges::min(runs, {}, &Run::measured).measured;
    const double said = std::ranges::min(runs, {}, &Run::predicted).measured;
    ++compared;
    right += said == fastest;
    lost = std::max(lost, said / fastest - 1);
  }
  std::vector<double> apart;
  for (const auto& [key, range] : repeats)
    if (range.most > range.least) apart.push_back(100 * (range.most / range.least - 1));
  std::string text = fmt::format("of {} runs with several strides the fastest one is right in {}",
                                 compared, right);
  if (right < compared)
    text += fmt::format("; elsewhere the one that is said took up to {:.1f} % longer", 100 * lost);
  if (!apart.empty())
    text += fmt::format("\n{} runs that were repeated differ by {:.1f} to {:.1f} %", apart.size(),
                        std::ranges::min(apart), std::ranges::max(apart));
  return text + "\n";
}

}  // namespace sim::calibrate
