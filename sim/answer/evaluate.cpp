#include "sim/answer/evaluate.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cassert>
#include <cmath>

#include "sim/answer/pass_times.h"
#include "sim/answer/slices.h"
#include "sim/answer/verdict.h"
#include "sim/cluster/device/kernel.h"
#include "sim/engine/price/coupling.h"
#include "sim/input/fields/places.h"
#include "sim/job/schedule/timeline.h"
#include "sim/model/flops.h"
#include "sim/program/build/build.h"
#include "sim/program/parallel/offload/host_memory.h"

namespace sim::answer {

namespace {

std::string digest(const std::string& text) {
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

void apply(const SiteChange& change, topology::Cluster& cluster) {
  topology::Node& node = cluster.node;
  if (change.nodes > 0) cluster.nodes = change.nodes;
  if (change.no_nvlink_sharp) node.nvlink_sharp = false;
  if (change.gpus_per_node > 0) node.gpus = change.gpus_per_node;
  if (change.host) {
    node.host = {.core = change.host->rank, .pageable = change.host->pageable};
    node.host_copy = change.host->copy;
    node.cpu_memory_bandwidth = change.host->memory;
    node.cpu_memory = {};
    node.cpu_cores = node.gpus;
  }
  if (change.nics > 0) {
    node.nics = change.nics;
    node.nic = change.nic;
  }
  if (change.gpus_per_node == 0 && change.nics == 0) return;
  // Distribute the NICs evenly over the GPUs again.
  node.nic_of_gpu.clear();
  for (int gpu = 0; gpu < node.gpus && node.nics > 0; ++gpu) {
    node.nic_of_gpu.push_back(gpu * node.nics / node.gpus);
  }
}

void add_rates(answer::Answer& answer) {
  const program::Plan& plan = answer.plan;
  const double time = answer::step_seconds(answer);
  if (time <= 0) return;
  const double per_gpu = 1.0 / time / plan.world();
  const model::Batch batch = {
      static_cast<double>(plan.batch.global_batch), static_cast<double>(plan.batch.sequence),
      static_cast<double>(model::padded_vocab(plan.architecture.vocab, plan.mesh.tp)),
      flops_recompute(plan.policy.recompute)};
  for (const model::FlopConvention& convention : model::flop_conventions()) {
    const double flops = convention.flops(plan.architecture, batch);
    answer.rates.push_back(
        {std::string(convention.name), std::string(convention.summary), flops * per_gpu * 1e-12});
  }
  const double peak = answer.machine.peak_flops;
  answer.mfu = answer::rate(answer, "megatron").tflops_gpu * 1e12 / peak;
  answer.hfu = answer.run.executed_flops * per_gpu / peak;
}

}  // namespace

model::Recompute flops_recompute(program::Recompute recompute) {
  switch (recompute) {
    case program::Recompute::none:
      return model::Recompute::none;
    case program::Recompute::selective:
      return model::Recompute::selective;
    case program::Recompute::full:
      break;
  }
  return model::Recompute::full;
}

Result<Site*> Sites::of(const input::Machine& machine) {
  std::vector<std::unique_ptr<Site>>& alike = sites_[machine.text];
  for (const std::unique_ptr<Site>& one : alike)
    if (one->machine.cluster == machine.cluster && one->machine.gpu == machine.gpu &&
        one->machine.path == machine.path)
      return one.get();
  Result<input::ProfileFile> profile = input::find_profiles(machine);
  if (!profile) return profile.errors();
  auto site = std::make_unique<Site>();
  site->machine = machine;
  site->profile = *profile;
  site->network = std::make_unique<network::Network>(
      machine.cluster,
      std::make_shared<const network::CommunicationProfile>(site->profile.communication));
  const topology::Node& node = machine.cluster.node;
  std::string files =
      fmt::format("{}\n{} x {}, {} x {}, {}\n{}", machine.text, machine.cluster.nodes, node.gpus,
                  node.nics, node.nic.bytes_per_second, node.nvlink_sharp, site->profile.text);
  for (const device::Gpu& gpu : machine.others) {
    const Result<input::ProfileFile> other = input::find_profile(gpu, machine.path);
    if (!other) return other.errors();
    site->others.push_back({gpu, other->device});
    files += other->text;
  }
  site->digest = digest(files);
  return alike.emplace_back(std::move(site)).get();
}

Result<Site*> Sites::find(const std::string& name, const std::string& beside,
                          const SiteChange& change) {
  const std::string file = name + "\n" + beside;
  auto there = machines_.find(file);
  if (there == machines_.end()) {
    Result<input::Machine> loaded = input::find_cluster(name, beside);
    if (!loaded) return loaded.errors();
    there = machines_.emplace(file, *loaded).first;
  }
  input::Machine machine = there->second;
  apply(change, machine.cluster);
  return of(machine);
}

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

// The host memory of the node whose ranks use most.
answer::HostMemory fullest_host(const program::Plan& plan, const program::Job& job,
                                const topology::Cluster& cluster) {
  answer::HostMemory most;
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

// The problem if offloaded saved tensors exceed the host memory too, or "". REQUIRES: the plan has
// no other problem.
std::string host_problem_of_saved(const program::Plan& plan, const Site& site) {
  const topology::Node& node = site.machine.cluster.node;
  if (!saves_on_host(plan.policy) || node.cpu_memory.n == 0) return "";
  const answer::HostMemory host =
      fullest_host(plan, job_of(plan, site, false), site.machine.cluster);
  if (host.optimizer.n + host.activations.n <= host.there.n) return "";
  return fmt::format(
      "ranks leave {:.1f} GiB of saved tensors to the CPUs of a node{}, which have {:.1f}; offload "
      "fewer {}, or write a smaller micro_batch",
      gib(host.activations),
      host.optimizer.n > 0 ? fmt::format(" beside {:.1f} of the optimizer", gib(host.optimizer))
                           : "",
      gib(host.there), plan.policy.offload_modules != 0 ? "modules" : "layers");
}

// The problem that the profile has no matmul rate for the plan's precision. Suggests one that it
// has.
std::string no_precision(const program::Plan& plan, const Site& site) {
  const auto word = [](model::Precision precision) {
    return input::names_of(precision)[static_cast<std::size_t>(precision)];
  };
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
  const auto behind = std::ranges::find_if(order, [](const schedule::Step& step) {
    return step.chunk > 0 || step.pass != schedule::Pass::forward;
  });
  if (behind - order.begin() <= held) return "";
  return fmt::format(
      "{} runs {} microbatches of a chunk in a row; the GPU queues {} messages, and {} stages wait "
      "for each other beyond {}; use fewer microbatches or another schedule",
      row.name, behind - order.begin(), each, plan.mesh.pp, held);
}

}  // namespace

std::vector<std::string> problems(const program::Plan& plan, const Site& site) {
  std::vector<std::string> found;
  for (program::Problem& problem : program::problems(plan))
    found.push_back(std::move(problem.message));
  if (plan.numerics.fp8 &&
      !device::supports(site.machine.gpu, site.profile.device, model::Precision::fp8))
    found.push_back(fmt::format("{} multiplies no fp8", site.machine.gpu.name));
  if (!device::supports(site.machine.gpu, site.profile.device, plan.wide_precision()))
    found.push_back(no_precision(plan, site));
  for (const engine::GpuKind& other : site.others)
    if (plan.numerics.fp8 && !device::supports(other.gpu, other.profile, model::Precision::fp8))
      found.push_back(fmt::format("{} multiplies no fp8", other.gpu.name));
  const int there = site.machine.cluster.gpus();
  if (plan.world() > there) {
    found.push_back(fmt::format("{} GPUs are needed and {} has {}", plan.world(),
                                site.machine.cluster.name, there));
  }
  if (!found.empty()) return found;
  if (std::string longer = too_long(plan, site); !longer.empty()) return {longer};
  if (std::string waits = queue_problem(plan, site); !waits.empty()) return {waits};
  if (std::string full = host_problem(plan, site.machine.cluster.node); !full.empty())
    found.push_back(std::move(full));
  // Each rank class is replayed. Thousands of different replicas would take hours.
  const std::vector<int> classes = replica_classes(plan, site.machine.cluster);
  const int different = program::mesh_of(plan, {false, classes}).dp_classes();
  if (std::int64_t{different} * plan.mesh.pp * plan.mesh.cp > 16384) {
    found.push_back(
        fmt::format("{} replicas differ by their GPUs' speeds: more than 16384 rank "
                    "classes with pp {} and cp {}",
                    different, plan.mesh.pp, plan.mesh.cp));
  }
  if (!found.empty()) return found;
  if (std::string full = host_problem_of_saved(plan, site); !full.empty())
    found.push_back(std::move(full));
  return found;
}

allocator::EstimatorInput estimator_input(const program::Plan& plan) {
  const model::Architecture& a = plan.architecture;
  allocator::EstimatorInput in;
  in.layers = a.layers;
  in.hidden = a.hidden;
  in.heads = a.heads;
  in.kv_heads = a.kv_heads;
  in.ffn = a.ffn;
  in.vocabulary = a.vocab;
  in.sequence = plan.batch.sequence;
  in.microbatch = plan.batch.micro_batch;
  in.tensor_parallel = plan.mesh.tp;
  in.context_parallel = plan.mesh.cp;
  in.pipeline_parallel = plan.mesh.pp;
  in.data_parallel = plan.mesh.dp;
  if (plan.pipeline.virtual_stages > 1) in.virtual_stages = plan.pipeline.virtual_stages;
  in.microbatches = plan.microbatches();
  in.gradient_bytes = plan.numerics.fp32_gradients ? 4 : 2;
  in.distributed_optimizer = plan.sharding.distributed_optimizer || plan.shards_parameters();
  return in;
}

answer::Estimate estimate(const program::Plan& plan, const device::Gpu& gpu) {
  const allocator::Estimate result = allocator::estimate(estimator_input(plan));
  return {result.total / bytes_per_gib, 0.8 * gpu.memory_marketing_gb,
          allocator::fits_by_80_percent_rule(result, gpu.memory_marketing_gb)};
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

program::Job job_of(const program::Plan& plan, const Site& site, bool all_ranks) {
  return program::build(plan, engine::environment(site.machine.gpu, site.profile.device), all_ranks,
                        replica_classes(plan, site.machine.cluster));
}

namespace {

// Pass times of the plan's own programs, in the order for default times.
schedule::Times own_pass_times(const program::Plan& plan, const Site& site) {
  const program::Job job = job_of(plan, site, false);
  return pass_times(
      job, engine::price(job, site.machine.gpu, site.profile.device, *site.network, site.others));
}

program::Plan with_pass_times(const program::Plan& plan, const Site& site) {
  if (!schedule::find(plan.pipeline.schedule)->by_times || plan.mesh.pp == 1) return plan;
  program::Plan timed = plan;
  timed.pipeline.pass_times = own_pass_times(plan, site);
  return timed;
}

}  // namespace

double bubble_of_pass_times(const program::Plan& plan, const Site& site) {
  schedule::Shape shape = program::pipeline_shape(plan, plan.microbatches());
  shape.times = own_pass_times(plan, site);
  const schedule::Timeline line = schedule::run(*schedule::find(plan.pipeline.schedule), shape);
  return 100 * (1 - *std::ranges::max_element(line.busy) / line.span);
}

namespace {

// `extra`: added to the memory of each GPU. `surely`: also compute the verdict.
answer::Answer evaluate_with(const program::Plan& asked, Site& site, const engine::Options& options,
                             bool all_ranks, Bytes extra, bool surely) {
  assert(problems(asked, site).empty());
  const program::Plan plan = resolve_balanced(asked, site);
  const device::Gpu& gpu = site.machine.gpu;
  const device::Profile& profile = site.profile.device;
  const program::Job job = timed_job(plan, site, all_ranks);
  const engine::Times times = engine::price(job, gpu, profile, *site.network, site.others);
  engine::Memory memory =
      engine::outside_memory(job, plan, gpu, profile, *site.network, site.others);
  memory.total += extra;
  answer::Answer answer;
  answer.plan = plan;
  answer.machine = {site.machine.cluster.name, gpu.name, site.machine.cluster.node.gpus, gpu.memory,
                    gpu.peak(plan.wide_precision())};
  engine::Options how = options;
  engine::Coupling coupling;
  if (options.couple) {
    coupling = engine::couple(job, *site.network);
    how.coupling = &coupling;
    how.method = engine::Method::reference;
  }
  answer.run = engine::run(job, times, memory, how);
  answer.estimate = estimate(plan, gpu);
  answer.host = fullest_host(plan, job, site.machine.cluster);
  answer.verdict.fits_probability = answer.run.fits() ? 1 : 0;
  if (surely && engine::places_tensors(how.memory))
    answer.verdict = verdict(answer, job, times, memory, how);
  if (answer.run.fits()) add_rates(answer);
  return answer;
}

}  // namespace

program::Job timed_job(const program::Plan& plan, const Site& site, bool all_ranks) {
  return job_of(with_pass_times(plan, site), site, all_ranks);
}

answer::Answer evaluate(const program::Plan& plan, Site& site, const engine::Options& options,
                        bool all_ranks) {
  return evaluate_with(plan, site, options, all_ranks, {}, true);
}

answer::Answer evaluate_once(const program::Plan& plan, Site& site,
                             const engine::Options& options) {
  return evaluate_with(plan, site, options, false, {}, false);
}

answer::Answer evaluate_unlimited(const program::Plan& plan, Site& site) {
  return evaluate_with(plan, site, {}, false, {std::int64_t{1} << 50}, false);
}

}  // namespace sim::answer
