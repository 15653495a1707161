// offload_rows.cpp — predicts ZeRO-3 runs of Megatron-DeepSpeed with the optimizer on the CPU
// (deep_optimizer_states_runs.csv): times of forward, backward, step and iteration.
//
// Rows are replayed as any plan is (program/parallel/deepspeed/deepspeed_zero3.h). The model is
// sharded and every layer recomputed. Rates of the node come from calibration/hosts.csv, which
// names their sources.
//
// Settings that the rows do not have come from the authors' scripts and logs:
// - The width of the MLP is in calibration/offload_models.csv [mauryaavinash95/MLP-Offload
//   scripts/config-n-run.sh, launch-expt.sh].
// - Commands and ds_config.json in the logs state: SwiGLU, RMSNorm, no biases, 4 heads of keys and
//   values, GPT-2's 50257 words, separate input and output embeddings, pin_memory true, bf16 sums.
// - Others keep DeepSpeed's defaults: overlap_comm, reduce_scatter, contiguous_gradients.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "sim/calibrate/rows/row_text.h"
#include "sim/calibrate/tables/measured_table.h"
#include "sim/calibrate/tables/timing_kernels.h"
#include "sim/engine/observer.h"
#include "sim/input/cluster/hosts.h"
#include "sim/input/text/locate.h"
#include "sim/job/offload/offload.h"

namespace sim::calibrate {

namespace {

enum Part : std::size_t { iteration, forward, backward, step };

// A host of hosts.csv and the cluster with its GPUs and links. `memory` is the host memory
// bandwidth with other runs on the node; 0: unknown.
struct Host {
  std::string name, cluster;
  double memory = 0;
};

// The first matching line of calibration/offload_hosts.csv: it matches words of the row's column
// and the end of the run's folder.
std::optional<Host> host_of(const input::TableRow& row) {
  static const Result<input::Table> table =
      input::load_table(input::repository_root() + "/calibration/offload_hosts.csv");
  if (!table) return std::nullopt;
  for (const input::TableRow& line : table->rows) {
    const std::string& folder = text_in(line, "folder");
    if (text_in(row, "host_hint").find(text_in(line, "hint")) == std::string::npos) continue;
    if (folder != "any" && !text_in(row, "dir").ends_with(folder)) continue;
    return Host{text_in(line, "host"), text_in(line, "cluster"),
                positive_in(line, "memory").value_or(0)};
  }
  return std::nullopt;
}

// Rates of a host in bytes per second, per rank or (memory, network) per node; times in seconds.
struct HostRates {
  double gpus_per_node = 1, microbatch_other = 0, step_other = 0;
  // First: for one group over all GPUs of its nodes. Second: for several groups per node.
  double node_network = 0, node_network_apart = 0;
  double cores = 0;  // rate of one rank's cores with unlimited memory bandwidth
  double memory = 0, pcie_up = 0, pcie_down = 0;
  // parameters per second whose gradients a blocking copy moves to the CPU
  double blocking_flush = 0;
  double layer_forward = 0, layer_backward = 0;  // CPU time to launch one layer
};

// Reads the rates by their names in hosts.csv.
Result<HostRates> rates_of(const Host& of) {
  HostRates host;
  const Diagnostics problems =
      input::read_host(of.name, {{"gpus_per_node", &host.gpus_per_node},
                                 {"cores", &host.cores},
                                 {"memory", &host.memory},
                                 {"pcie_up", &host.pcie_up},
                                 {"pcie_down", &host.pcie_down},
                                 {"layer_forward", &host.layer_forward},
                                 {"layer_backward", &host.layer_backward},
                                 {"blocking_flush", &host.blocking_flush},
                                 {"node_network", &host.node_network},
                                 {"node_network_apart", &host.node_network_apart},
                                 {"microbatch_other", &host.microbatch_other},
                                 {"step_other", &host.step_other}});
  if (!problems.empty()) return problems;
  if (of.memory > 0) host.memory = of.memory;
  return host;
}

// Begin and end of each kind of pass in the last step of the first rank class, and of its optimizer
// step.
class PassTimes final : public engine::Observer {
 public:
  void operation(int rank_class, program::Stream, std::string_view,
                 const engine::ProgramLocation& place, Time start, Time, Time end) override {
    constexpr int last_step = 2;
    if (rank_class != 0 || place.step != last_step) return;
    if (place.pass == program::PassKind::step) done_ = std::max(done_, end);
    const bool forward = place.pass == program::PassKind::forward;
    if (!forward && place.pass != program::PassKind::backward) return;
    auto& begins = forward ? forward_ : backward_;
    const auto [at, added] = begins.try_emplace(place.microbatch, start);
    at->second = std::min(at->second, start);
    end_ = std::max(end_, end);
  }
  void memory(const engine::MemoryChange&) override {}

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
  Duration step() const { return done_ - end_; }
  bool complete() const { return !backward_.empty() && forward_.size() == backward_.size(); }

 private:
  std::map<int, Time> forward_, backward_;
  Time end_{}, done_{};
};

struct Run {
  program::Plan plan;
  const offload::Method* method = nullptr;
};

const offload::Method* method_of(const std::string& mode) {
  if (mode.starts_with("ZeRO-3 offload baseline")) return offload::find("zero-3");
  if (mode.starts_with("async grad flush")) return offload::find("zero-3-flush");
  return mode.starts_with("DeepOptimizerStates") ? offload::find("deep") : nullptr;
}

// The width of the MLP of a row's model, from calibration/offload_models.csv; 0 if unknown.
std::int64_t mlp_width(const input::TableRow& row, std::int64_t hidden) {
  static const Result<input::Table> table =
      input::load_table(input::repository_root() + "/calibration/offload_models.csv");
  if (!table) return 0;
  for (const input::TableRow& model : table->rows) {
    const bool any = text_in(model, "layers") == "any";
    bool same = true;
    for (const char* column : {"layers", "hidden", "heads"})
      same = same && (any || text_in(model, column) == text_in(row, column));
    if (same) return any ? hidden * size_in(model, "ffn") : size_in(model, "ffn");
  }
  return 0;
}

// Fills the run of a row. Returns "" or the reason why the row is not supported.
std::string read_run(const input::TableRow& row, Run& run) {
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
  program::Plan& plan = run.plan;
  model::Architecture& a = plan.architecture;
  a.name = text_in(row, "model");
  a.layers = n["layers"];
  a.hidden = n["hidden"];
  a.heads = n["heads"];
  a.kv_heads = std::min<std::int64_t>(4, a.heads);
  a.head_dim = a.hidden / a.heads;
  a.ffn = mlp_width(row, a.hidden);
  if (a.ffn < 1) return "calibration/offload_models.csv has no width of the MLP";
  a.vocab = 50257;
  plan.mesh.tp = static_cast<int>(n["tp"]);
  plan.mesh.dp = static_cast<int>(n["dp"]);
  plan.batch.micro_batch = static_cast<int>(n["mbs"]);
  plan.batch.global_batch = static_cast<int>(n["gbs"]);
  plan.batch.sequence = n["seq"];
  plan.sharding.data_parallel = program::DataParallelism::fsdp2;
  plan.sharding.deepspeed_optimizer = true;
  plan.sharding.fsdp.backward_prefetch = 0;
  plan.mesh.sequence_parallel = false;
  plan.numerics.fp32_gradients = false;
  plan.policy.recompute = program::Recompute::full;
  plan.numerics.precision = model::Precision::bf16;
  plan.stack.attention = program::AttentionBackend::unfused;
  plan.stack.swiglu_fusion = plan.stack.rope_fusion = false;
  plan.stack.gradient_accumulation_fusion = false;
  program::OptimizerOptions& o = plan.optimizer;
  const double ratio = positive_in(row, "cpu_offload_ratio").value_or(1);
  // Other methods also have a stride in the table but do not use it.
  const bool strides = run.method->name == "deep";
  const std::int64_t stride = strides ? size_in(row, "opt_gap_k") : 0;
  if (strides && stride < 2) return "column opt_gap_k holds no stride of 2 or more";
  o.offload_fraction = ratio;
  o.sub_group = n["subgroup_params"];
  o.gpu_stride = static_cast<int>(std::min(stride, most));
  o.async_gradient_copy = run.method->pinned_gradients;
  return "";
}

// The site with the host's node.
answer::Site* site_of_host(const Host& host, const HostRates& rates, bool apart,
                           answer::Sites& sites, std::string& reason) {
  answer::SiteChange change;
  change.gpus_per_node = static_cast<int>(rates.gpus_per_node);
  change.nics = 1;
  const auto rate = [](double value) { return Bandwidth{static_cast<std::int64_t>(value)}; };
  change.nic = rate(apart ? rates.node_network_apart : rates.node_network);
  // The fitted flush includes gradient sums that wait for it: 16 bits per parameter to the CPU and
  // back.
  const double sums = 2 / rates.pcie_down + 2 / rates.pcie_up;
  change.host = {rate(rates.cores), rate(rates.memory), rate(rates.pcie_up),
                 rate(2 / (1 / rates.blocking_flush - sums))};
  const Result<answer::Site*> site = sites.find(host.cluster, "", change);
  if (site) return *site;
  reason = site.errors().front().where + ": " + site.errors().front().message;
  return nullptr;
}

void read_measured(const input::TableRow& row, RowAnswer& answer) {
  for (const char* column : {"iter_ms", "fwd_ms", "bwd_ms", "step_ms"})
    answer.measured.push_back(positive_in(row, column));
}

}  // namespace

RowAnswer predict_offload(const input::TableRow& row, answer::Sites& sites) {
  RowAnswer answer;
  answer.predicted.resize(4);
  read_measured(row, answer);
  const std::optional<Host> host = host_of(row);
  if (!host) {
    answer.reason = "host '" + text_in(row, "host_hint").substr(0, 60) + "' has no rates";
    return answer;
  }
  Run run;
  answer.reason = read_run(row, run);
  if (!answer.reason.empty()) return answer;
  answer.group = fmt::format("{}, {}", host->name, run.method->name);
  const Result<HostRates> rates = rates_of(*host);
  if (!rates) {
    answer.reason = rates.errors().front().where + ": " + rates.errors().front().message;
    return answer;
  }
  const bool apart = run.plan.mesh.tp > 1;
  answer::Site* site = site_of_host(*host, *rates, apart, sites, answer.reason);
  if (site == nullptr) return answer;
  const Result<answer::CheckedPlan> plan = answer::check(run.plan, *site);
  if (!plan) {
    answer.reason = plan.errors().front().message;
    answer.impossible = true;
    return answer;
  }
  PassTimes times;
  engine::Options options;
  options.observer = &times;
  answer::evaluate_once(*plan, options);
  if (!times.complete()) {
    answer.reason = "the replay ended before its last step";
    return answer;
  }
  // The CPU runs fetches, gathers and hooks per module, so narrow layers wait for the CPU.
  const double issued = static_cast<double>(run.plan.architecture.layers) *
                        static_cast<double>(run.plan.microbatches());
  const double passes = std::max(seconds(times.forward()), issued * rates->layer_forward);
  const double behind = std::max(seconds(times.backward()), issued * rates->layer_backward);
  const double update = seconds(times.step());
  const double other = rates->step_other + run.plan.microbatches() * rates->microbatch_other;
  constexpr double ms = 1e3;
  answer.predicted[iteration] = ms * (passes + behind + update + other);
  answer.predicted[forward] = ms * passes;
  answer.predicted[backward] = ms * behind;
  answer.predicted[step] = ms * update;
  return answer;
}

// For runs that differ only in the stride: how often the fastest one is predicted. Repeated runs
// give the noise.
std::string offload_summary(const input::Table& table, const std::vector<RowAnswer>& answers) {
  struct Run {
    double measured = 0, predicted = 0;
  };
  struct Range {
    double least = 0, most = 0;
  };
  std::map<std::string, std::vector<Run>> strides;  // runs that differ only in the stride
  std::map<std::string, Range> repeats;             // repeats of one run, in any folder
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const RowAnswer& a = answers[i];
    if (!a.reason.empty() || !a.measured[iteration] || !a.predicted[iteration]) continue;
    const input::TableRow& row = table.rows[i];
    // A row without a complete iteration comes from a run that ended during warm-up.
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
  std::vector<double> apart;
  for (const auto& [key, range] : repeats)
    if (range.most > range.least) apart.push_back(100 * (range.most / range.least - 1));
  // A lead counts if it exceeds the smallest difference between repeats.
  const double clear = apart.empty() ? 1 : 1 + std::ranges::min(apart) / 100;
  std::size_t compared = 0, right = 0, leads = 0, right_leads = 0;
  double lost = 0;
  for (auto& [key, runs] : strides) {
    if (runs.size() < 2) continue;
    std::ranges::sort(runs, {}, &Run::measured);
    const double fastest = runs.front().measured;
    const double said = std::ranges::min(runs, {}, &Run::predicted).measured;
    const bool found = said == fastest;
    const bool leading = runs[1].measured > clear * fastest;
    ++compared;
    right += found;
    leads += leading;
    right_leads += leading && found;
    lost = std::max(lost, said / fastest - 1);
  }
  std::string text = fmt::format("of {} runs with several strides the fastest one is right in {}",
                                 compared, right);
  if (right < compared)
    text += fmt::format("; elsewhere the one that is said took up to {:.1f} % longer", 100 * lost);
  if (!apart.empty())
    text += fmt::format(
        "\n{} runs that were repeated differ by {:.1f} to {:.1f} %; of the {} whose fastest stride "
        "leads by more than the least of these, {} are right",
        apart.size(), std::ranges::min(apart), std::ranges::max(apart), leads, right_leads);
  return text + "\n";
}

}  // namespace sim::calibrate
