#include "sim/answer/checked_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <map>

#include "sim/answer/answer.h"
#include "sim/cluster/device/kernel.h"
#include "sim/job/schedule/order_cache.h"
#include "sim/job/schedule/schedule.h"
#include "sim/model/flops.h"
#include "sim/model/words.h"
#include "sim/program/parallel/offload/host_memory.h"

namespace sim::answer {

namespace {

constexpr double bytes_per_gib = 1024.0 * 1024.0 * 1024.0;

bool saves_on_host(const program::LayerPolicy& policy) {
  return policy.offload_modules != 0 || policy.offloads();
}

// The problem if the offloaded optimizer state exceeds the host memory of a node, or "".
std::string host_problem(const program::Plan& plan, const topology::Node& node) {
  const int ranks = std::min(plan.world(), node.gpus);
  const double wanted = program::host_bytes(plan) * ranks;
  const auto there = static_cast<double>(node.cpu_memory.n);
  if (there == 0 || wanted <= there) return "";
  constexpr double gib = bytes_per_gib;
  const double sums = program::host_gradient_sums(plan) * ranks;
  const double part =
      std::floor(100 * plan.optimizer.offload_fraction * (there - sums) / (wanted - sums)) / 100;
  const bool whole = plan.sharding.deepspeed_optimizer || part <= 0;  // offload all or nothing
  return fmt::format(
      "{} ranks offload {:.1f} GiB to the CPUs of a node, which have {:.1f}; write {}, or more dp",
      ranks, wanted / gib, there / gib,
      whole ? "optimizer_cpu_offload=false"
            : fmt::format("optimizer_offload_fraction {:.2f} or less", part));
}

// The problem that the profile has no matmul rate for the plan's precision. Suggests one that it
// has.
std::string no_precision(const program::Plan& plan, const Site& site) {
  const auto word = [](model::Precision precision) { return model::word(precision); };
  const std::string text =
      fmt::format("precision: the profile of {} has no rate for products in {}",
                  site.machine.gpu.name, word(plan.wide_precision()));
  for (const auto other : {model::Precision::bf16, model::Precision::fp16})
    if (device::supports(site.machine.gpu, site.profile.device, other))
      return fmt::format("{}; write precision={} (--{})", text, word(other), word(other));
  return text;
}

// The problem of a step that takes more than one day, or "". Times are whole picoseconds, which
// cover 106 days. The remainder is for several steps, and for kernels below the peak rates used
// here.
std::string too_long(const program::Plan& plan, const Site& site) {
  const model::Architecture& a = plan.architecture;
  const device::Gpu& gpu = site.machine.gpu;
  double slowest = 1;
  for (const topology::Condition& one : site.machine.cluster.conditions)
    slowest = std::min(slowest, one.speed);
  const auto sequences = static_cast<double>(plan.batch.global_batch);
  const auto length = static_cast<double>(plan.batch.sequence);
  const double flops = model::flops_paper(a, sequences, length, static_cast<double>(a.vocab));
  constexpr double passed = 34;  // bytes of each element of a layer [arXiv:2205.05198, equation 1]
  const double bytes = passed * sequences * length * static_cast<double>(a.layers * a.hidden);
  const double bandwidth = static_cast<double>(gpu.hbm.bytes_per_second);
  const double seconds = std::max(flops / gpu.peak(plan.wide_precision()), bytes / bandwidth) /
                         (plan.world() * slowest);
  constexpr double day = 86'400;
  if (seconds <= day) return "";
  return fmt::format(
      "a step would take {:.3g} days or more; those of up to a day are replayed: "
      "write a smaller global_batch, or more GPUs",
      seconds / day);
}

// The problem of a deadlock in the launch queues, or "". A stage that runs all microbatches of a
// chunk in a row sends messages before the receiver reaches the next chunk. Unreceived messages
// fill the queues of launched kernels, stage after stage, until all stages wait for each other.
std::string queue_problem(const program::Plan& plan, const Site& site) {
  const device::HostProfile& host = site.profile.device.host;
  const schedule::Schedule& row = *schedule::find(plan.pipeline.schedule);
  if (host.launch_queue == 0 || plan.mesh.pp == 1 || row.order == nullptr ||
      plan.pipeline.virtual_stages == 1 || row.placement != schedule::Placement::round_robin)
    return "";
  const std::int64_t each =
      host.launch_queue / std::max<std::int64_t>(1, host.queue_entries_per_collective);
  const std::int64_t held = each * plan.mesh.pp;
  if (plan.microbatches() <= held) return "";
  const schedule::Order order = row.order(program::pipeline_shape(plan, plan.microbatches()), 0);
  const auto behind = std::ranges::find_if(order, [](const schedule::ScheduledPass& step) {
    return step.chunk > 0 || step.pass != schedule::Pass::forward;
  });
  if (behind - order.begin() <= held) return "";
  return fmt::format(
      "{} runs {} microbatches of a chunk in a row; the GPU queues {} messages, and {} stages wait "
      "for each other beyond {}; use fewer microbatches or another schedule",
      row.name, behind - order.begin(), each, plan.mesh.pp, held);
}

// The rule of schedules that the order of the plan's passes breaks, and its place, or "". Orders of
// the catalog break none; a schedule that somebody adds may.
std::string order_problem(const program::Plan& plan) {
  const schedule::Schedule& row = *schedule::find(plan.pipeline.schedule);
  for (const int microbatches : {plan.warm_up_microbatches(), plan.microbatches()}) {
    const schedule::PipelineShape shape = program::pipeline_shape(plan, microbatches);
    if (const std::string broken = schedule::broken_rule_of(row, shape); !broken.empty())
      return fmt::format("the order of {} breaks a rule of schedules, with {} microbatches: {}",
                         row.name, microbatches, broken);
  }
  return "";
}

}  // namespace

struct CheckedPlan::State {
  program::ValidPlan plan;
  Site* site;
  std::shared_ptr<const program::Job> job;  // null: not built
};

const program::ValidPlan& CheckedPlan::plan() const {
  return state_->plan;
}

Site& CheckedPlan::site() const {
  return *state_->site;
}

std::shared_ptr<const program::Job> CheckedPlan::shared_job() const {
  if (!state_->job)
    state_->job = std::make_shared<const program::Job>(job_of(state_->plan, *state_->site));
  return state_->job;
}

HostMemory host_memory(const program::Plan& plan, const program::Job& job,
                       const topology::Cluster& cluster) {
  HostMemory most;
  most.there = cluster.node.cpu_memory;
  most.optimizer = Bytes{static_cast<std::int64_t>(program::host_bytes(plan)) *
                         std::min(plan.world(), cluster.node.gpus)};
  if (!saves_on_host(plan.policy)) return most;
  std::vector<std::int64_t> of_class;
  for (const program::Program& program : job.classes)
    of_class.push_back(program::host_activations(program));
  std::map<int, std::int64_t> of_node;
  for (int rank = 0; rank < plan.world(); ++rank)
    of_node[topology::gpu_of_rank(cluster, rank) / cluster.node.gpus] +=
        of_class[static_cast<std::size_t>(job.mesh.class_of_rank(rank))];
  for (const auto& [node, bytes] : of_node)
    most.activations.n = std::max(most.activations.n, bytes);
  return most;
}

std::vector<int> replica_classes(const program::Plan& plan, const topology::Cluster& cluster) {
  const bool slow = std::ranges::any_of(
      cluster.conditions, [](const topology::Condition& c) { return c.node >= 0 && c.nic < 0; });
  if ((!slow && cluster.gpu_kinds.empty()) || plan.mesh.dp == 1) return {};
  const mesh::Mesh mesh = program::mesh_of(plan);
  using mesh::Axis;
  // Speeds of a replica, by pipeline stage and context rank: the slowest tensor-parallel peer of
  // each kind of GPU, and the slowest NVLinks. Slow NICs and switches do not count, because the
  // gradients of all replicas cross them.
  using Place = std::pair<std::map<int, double>, double>;
  const auto places =
      static_cast<std::size_t>(plan.mesh.pp) * static_cast<std::size_t>(plan.mesh.cp);
  std::vector<std::vector<Place>> replicas(static_cast<std::size_t>(plan.mesh.dp),
                                           std::vector<Place>(places, Place{{}, 1}));
  for (int rank = 0; rank < plan.world(); ++rank) {
    const int place = mesh.place(rank, Axis::pp) * plan.mesh.cp + mesh.place(rank, Axis::cp);
    const int gpu = topology::gpu_of_rank(cluster, rank);
    auto& [kinds, nvlinks] = replicas[static_cast<std::size_t>(mesh.place(rank, Axis::dp))]
                                     [static_cast<std::size_t>(place)];
    const double speed = topology::speed_of_gpu(cluster, gpu);
    const auto [at, added] = kinds.try_emplace(topology::kind_of_gpu(cluster, gpu), speed);
    at->second = std::min(at->second, speed);
    nvlinks = std::min(nvlinks, topology::nvlinks_of_gpu(cluster, gpu));
  }
  std::map<std::vector<Place>, int> numbers;
  std::vector<int> classes;
  for (const std::vector<Place>& replica : replicas) {
    classes.push_back(numbers.try_emplace(replica, static_cast<int>(numbers.size())).first->second);
  }
  if (numbers.size() == 1) return {};
  return classes;
}

namespace {

// The problem if offloaded saved tensors exceed the host memory too, or "". REQUIRES: the plan has
// no other problem.
std::string host_problem_of_saved(const CheckedPlan& plan) {
  const topology::Node& node = plan.site().machine.cluster.node;
  if (!saves_on_host(plan->policy) || node.cpu_memory.n == 0) return "";
  const HostMemory host = host_memory(plan.plan(), plan.job(), plan.site().machine.cluster);
  if (host.optimizer.n + host.activations.n <= host.there.n) return "";
  return fmt::format(
      "ranks leave {:.1f} GiB of saved tensors to the CPUs of a node{}, which have {:.1f}; offload "
      "fewer {}, or write a smaller micro_batch",
      gib(host.activations),
      host.optimizer.n > 0 ? fmt::format(" beside {:.1f} of the optimizer", gib(host.optimizer))
                           : "",
      gib(host.there), plan->policy.offload_modules != 0 ? "modules" : "layers");
}

// Precisions and numbers of GPUs, which need no replay: all of them are reported together.
Diagnostics missing_hardware(const program::Plan& plan, const Site& site) {
  Diagnostics found;
  const auto no_fp8 = [&](const device::Gpu& gpu, const device::Profile& profile) {
    if (plan.numerics.fp8 && !device::supports(gpu, profile, plan.product_precision()))
      found.push_back(
          {"fp8", fmt::format("{} multiplies no {}", gpu.name,
                              plan.product_precision() == model::Precision::fp4 ? "fp4" : "fp8")});
  };
  no_fp8(site.machine.gpu, site.profile.device);
  if (!device::supports(site.machine.gpu, site.profile.device, plan.wide_precision()))
    found.push_back({"precision", no_precision(plan, site)});
  for (const engine::GpuKind& other : site.others) no_fp8(other.gpu, other.profile);
  const int there = site.machine.cluster.gpus();
  if (plan.world() > there)
    found.push_back({"gpus", fmt::format("{} GPUs are needed and {} has {}", plan.world(),
                                         site.machine.cluster.name, there)});
  return found;
}

// The problem of too many kinds of replicas, or "": each rank class is replayed, and thousands of
// different replicas would take hours.
std::string many_classes(const program::Plan& plan, const topology::Cluster& cluster) {
  const int different =
      program::mesh_of(plan, {false, replica_classes(plan, cluster)}).dp_classes();
  constexpr std::int64_t most = 16384;
  if (std::int64_t{different} * plan.mesh.pp * plan.mesh.cp <= most) return "";
  return fmt::format(
      "{} replicas differ by their GPUs' speeds: more than {} rank classes with pp {} and cp {}",
      different, most, plan.mesh.pp, plan.mesh.cp);
}

}  // namespace

Result<CheckedPlan> check(const program::ValidPlan& plan, Site& site) {
  if (Diagnostics found = missing_hardware(plan, site); !found.empty()) return found;
  if (std::string longer = too_long(plan, site); !longer.empty())
    return Diagnostics{{"global_batch", std::move(longer)}};
  if (std::string broken = order_problem(plan); !broken.empty())
    return Diagnostics{{"schedule", std::move(broken)}};
  if (std::string waits = queue_problem(plan, site); !waits.empty())
    return Diagnostics{{"schedule", std::move(waits)}};
  Diagnostics found;
  const topology::Cluster& cluster = site.machine.cluster;
  if (std::string full = host_problem(plan, cluster.node); !full.empty())
    found.push_back({"optimizer_cpu_offload", std::move(full)});
  if (std::string many = many_classes(plan, cluster); !many.empty())
    found.push_back({"cluster", std::move(many)});
  if (!found.empty()) return found;
  const CheckedPlan checked(std::make_shared<CheckedPlan::State>(plan, &site, nullptr));
  if (std::string full = host_problem_of_saved(checked); !full.empty())
    return Diagnostics{{"offload_layers", std::move(full)}};
  return checked;
}

Result<CheckedPlan> check(program::Plan plan, Site& site) {
  const Result<program::ValidPlan> valid = program::validate(std::move(plan));
  if (!valid) return valid.errors();
  return check(*valid, site);
}

CheckedPlan checked(program::Plan plan, Site& site) {
  const Result<CheckedPlan> checked = check(std::move(plan), site);
  assert(checked);
  return *checked;
}

program::Job job_of(const program::ValidPlan& plan, const Site& site, bool all_ranks) {
  return program::build(plan, engine::environment(site.machine.gpu, site.profile.device), all_ranks,
                        replica_classes(plan, site.machine.cluster));
}

}  // namespace sim::answer
