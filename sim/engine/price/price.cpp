// price.cpp — turns the operations, transfers and messages of a job into durations on one machine.
//
// It also counts the device memory of a rank outside the caching allocator.
#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <map>
#include <tuple>

#include "sim/cluster/device/kernel.h"
#include "sim/cluster/device/overlap.h"
#include "sim/cluster/topology/host.h"
#include "sim/engine/rank/queues.h"
#include "sim/engine/replay.h"
#include "sim/program/ir/routes.h"

namespace sim::engine {
namespace {

using program::Stream;

Duration scaled(Duration d, double rate) {
  assert(rate > 0 && rate <= 1);
  return rate == 1.0 ? d : from_seconds(seconds(d) / rate);
}

// The speed of the slowest GPU of each kind among the ranks of a class. Tensor-parallel peers and
// replicas wait for that GPU.
std::map<int, double> slowest(const mesh::Mesh& mesh, int rank_class,
                              const topology::Cluster& cluster) {
  std::map<int, double> speeds;
  if (topology::alike(cluster)) return {{0, 1}};
  for (const int rank : mesh.ranks_of(rank_class)) {
    const int gpu = topology::gpu_of_rank(cluster, rank);
    const double speed = topology::speed_of_gpu(cluster, gpu);
    const auto [at, added] = speeds.try_emplace(topology::kind_of_gpu(cluster, gpu), speed);
    at->second = std::min(at->second, speed);
  }
  return speeds;
}

// The largest number of data-loading ranks on one node. These are the first tensor-parallel ranks
// of the first and the last pipeline stage.
int loaders_of_a_node(const mesh::Mesh& mesh, int gpus_per_node) {
  std::map<int, int> loaders;  // per node
  int most = 0;
  for (int gpu = 0; gpu < mesh.world(); ++gpu) {
    const int stage = mesh.place(gpu, mesh::Axis::pp);
    if (mesh.place(gpu, mesh::Axis::tp) > 0) continue;
    if (stage == 0 || stage == mesh.degrees().pp - 1)
      most = std::max(most, ++loaders[gpu / gpus_per_node]);
  }
  return most;
}

LoaderTimes loader(const program::Job& job, const device::LoaderProfile& profile,
                   int gpus_per_node) {
  LoaderTimes times;
  if (job.loading.mask_elements == 0 || profile.mask.ps == 0) return times;
  constexpr double mask_unit = 1 << 20;
  const int neighbours = loaders_of_a_node(job.mesh, gpus_per_node) - 1;
  times.sequence = from_seconds(seconds(profile.mask) *
                                (static_cast<double>(job.loading.mask_elements) / mask_unit) *
                                (1 + profile.neighbour * neighbours));
  times.many_documents = profile.many_documents;
  times.many_documents_extra = profile.many_documents_extra;
  times.workers = job.loading.workers;
  times.sequences = job.loading.sequences;
  times.microbatches = job.loading.microbatches;
  times.replicas = job.mesh.degrees().dp;
  times.in_flight = job.mesh.degrees().pp;
  return times;
}

// Duration of a kernel that runs at `rate` of its speed while a collective of length `traffic`
// runs.
Duration beside(Duration alone, double rate, Duration traffic) {
  const Duration slowed = scaled(alone, rate);
  if (slowed <= traffic) return slowed;
  return alone + from_seconds(seconds(traffic) * (1 - rate));
}

}  // namespace

program::Environment environment(const device::Gpu& gpu, const device::Profile& profile) {
  return {profile.memory.engine_workspace, profile.memory.cublas_workspace, gpu.sms};
}

namespace {

void price_host(Times& times, const device::HostProfile& host) {
  times.launch = host.kernel;
  times.launch_collective = host.collective;
  times.launch_exchange = host.point_to_point;
  times.event = host.event;
  times.allocation = host.allocation;
  times.release = host.release;
  times.device_malloc = host.cuda_malloc;
  times.device_malloc_per_gib = host.cuda_malloc_per_gib;
  times.device_free = host.cuda_free;
  times.synchronize = host.synchronisation;
  times.launch_queue = host.launch_queue;
  times.queue_entries_per_collective =
      host.launch_queue > 0 ? std::min(host.queue_entries_per_collective, host.launch_queue)
                            : host.queue_entries_per_collective;
  using program::HostWork;
  const auto set = [&](HostWork w, Duration d) { times.host[static_cast<std::size_t>(w)] = d; };
  set(HostWork::layer_forward, host.layer_forward);
  set(HostWork::layer_backward, host.layer_backward);
  set(HostWork::microbatch, host.microbatch);
  set(HostWork::step, host.step);
  set(HostWork::blocking_read, host.kernel + host.synchronisation);
  set(HostWork::launches, host.kernel);
  set(HostWork::experts_forward, host.experts_forward);
  set(HostWork::experts_backward, host.experts_backward);
  set(HostWork::expert, host.expert);
  set(HostWork::graph, host.graph);
  set(HostWork::layer_forward_half, Duration{host.layer_forward.ps / 2});
  set(HostWork::layer_backward_half, Duration{host.layer_backward.ps / 2});
  set(HostWork::experts_forward_third, Duration{host.experts_forward.ps / 3});
  set(HostWork::experts_backward_third, Duration{host.experts_backward.ps / 3});
}

// Prices the classes of a job. Results are cached, because stages share most of their operations.
class Pricer {
 public:
  Pricer(const program::Job& job, const device::Gpu& gpu, const device::Profile& profile,
         network::Network& network, std::span<const GpuKind> others)
      : job_(job), gpu_(gpu), profile_(profile), network_(network), others_(others) {}

  ClassTimes price(int rank_class) {
    const program::Program& program = job_.classes[static_cast<std::size_t>(rank_class)];
    ClassTimes times;
    const Duration traffic = price_transfers(program, rank_class, times);
    price_kernels(program, slowest(job_.mesh, rank_class, network_.cluster()), traffic, times);
    price_messages(program, rank_class, times);
    return times;
  }

 private:
  // Groups of the mesh as the network knows them. To find them again would hash all ranks of the
  // job. The mesh keeps its groups, so their addresses identify them.
  struct KnownGroups {
    network::Network::GroupsId id{};
    bool crosses_nodes = false;
  };
  const KnownGroups& known_groups(const network::Groups& groups) {
    const auto [known, added] = known_groups_.try_emplace(&groups);
    if (!added) return known->second;
    known->second = {network_.remember(groups), network_.crosses_nodes(groups)};
    return known->second;
  }

  // Duration of a collective while all groups run it at the same time. On a cluster with conditions
  // (slow parts), only the groups with these numbers count. `apart`: the time between the arrivals
  // of the ranks at the collective, added to the result.
  template <class Numbers>
  Duration lasting(collective::Kind kind, network::Network::GroupsId groups, Bytes bytes,
                   Duration apart, const Numbers& numbers) {
    const Duration alone = network_.cluster().conditions.empty()
                               ? network_.duration(kind, groups, bytes)
                               : network_.duration(kind, groups, bytes, numbers());
    return alone.ps > 0 ? alone + apart : alone;
  }

  // Duration of an all-to-all whose rows are drawn for each pair of ranks (router load).
  Duration routed(const program::Program& program, const program::Transfer& t,
                  const network::Groups& groups, network::Network::GroupsId id) {
    const auto number = static_cast<std::size_t>(std::abs(t.route));
    const program::RouteKey& key = program.routes[number - 1];
    const auto [known, added] =
        routed_.try_emplace({id, key, t.route < 0, t.bytes.n});
    if (!added) return known->second;
    const program::Routes drawn = program::drawn_routes(*job_.router, job_.routed_tokens, key);
    const std::size_t n = drawn.ranks;
    std::vector<std::int64_t> sums(2 * n, 0), bytes(n * n);
    for (std::size_t i = 0; i < n * n; ++i) {
      sums[i / n] += drawn.rows[i];
      sums[n + i % n] += drawn.rows[i];
    }
    // Bytes of one row: the bytes of the busiest rank divided by the rows it sends or receives.
    const std::int64_t row = t.bytes.n / std::max<std::int64_t>(*std::ranges::max_element(sums), 1);
    for (std::size_t i = 0; i < n * n; ++i)
      bytes[t.route < 0 ? i % n * n + i / n : i] = row * drawn.rows[i];
    const Duration alone = network_.duration(groups, bytes);
    known->second = alone.ps > 0 ? alone + profile_.overlap.arrival : alone;
    return known->second;
  }

  // Largest number of NCCL channels that run while kernels run: tensor-parallel traffic in
  // backward, data-parallel traffic in the last microbatch. Each channel takes one SM.
  int channels(const program::Program& program) {
    int most = 0;
    for (const Stream s : program.communicators)
      if (s == Stream::tp || s == Stream::dp_cp || s == Stream::shard || s == Stream::edp)
        most = std::max(most, network_.channels(job_.mesh.groups(communicator_of(s))));
    return std::min(most, gpu_.sms - 1);
  }

  static bool on_host(const model::Operation& o) {
    using Kind = model::OperationKind;
    return o.kind == Kind::host_copy || o.kind == Kind::pageable_copy || o.kind == Kind::cpu_update;
  }
  Duration host_time(const model::Operation& o) const {
    const Bandwidth rate = o.kind == model::OperationKind::host_copy       ? host_.copy
                           : o.kind == model::OperationKind::pageable_copy ? host_.pageable
                                                                           : host_.memory;
    return from_seconds(static_cast<double>(o.bytes.n) /
                        static_cast<double>(rate.bytes_per_second));
  }

  // Time that the kernels of a codec (compression) add to a collective or message.
  Duration coding(const collective::Codec* codec, collective::Kind kind, int ranks,
                  Bytes bytes) const {
    if (codec == nullptr || ranks < 2 || bytes < codec->least) return {};
    return collective::codec_time(*codec, collective::codec_work(kind, ranks, bytes), gpu_.hbm);
  }

  // By transfer: whether kernels overlap with it. Without a codec the result is unused: all false.
  std::vector<bool> overlapped_transfers(const program::Program& program) const {
    std::vector<bool> found(program.transfers.size(), false);
    const collective::Codecs& codecs = job_.codecs;
    if (!codecs.tensor && !codecs.data && !codecs.parameters) return found;
    for (const program::Block& block : program.blocks)
      for (const program::Instruction& i : block.code)
        if (i.op == program::Op::collective && (i.flags & program::overlapped) != 0)
          found[i.index] = true;
    return found;
  }

  // Prices all transfers. Returns the longest collective that overlaps with kernels of a layer.
  Duration price_transfers(const program::Program& program, int rank_class, ClassTimes& times) {
    Duration traffic{};
    double coding_seconds = 0, whole_seconds = 0;
    const std::vector<bool> overlapped = overlapped_transfers(program);
    for (const program::Transfer& t : program.transfers) {
      const mesh::Communicator who = communicator_of(t.communicator);
      const network::Groups& groups = job_.mesh.groups(who);
      const KnownGroups known = known_groups(groups);
      const collective::Codec* codec = codec_of(job_.codecs, t.communicator, t.kind);
      const Bytes bytes = t.route != 0 ? t.bytes : sent(t, groups, network_.cluster());
      const Duration apart = t.followed ? Duration{} : profile_.overlap.arrival;
      Duration whole = t.route != 0
                           ? routed(program, t, groups, known.id)
                           : lasting(t.kind, known.id, codec ? coded(*codec, bytes) : bytes, apart,
                                     [&] { return job_.mesh.group_numbers(who, rank_class); });
      const Duration kernels =
          coding(codec, t.kind, static_cast<int>(groups.ranks.front().size()), bytes);
      whole += kernels;
      if (overlapped[static_cast<std::size_t>(&t - program.transfers.data())]) {
        coding_seconds += seconds(kernels);
        whole_seconds += seconds(whole);
      }
      const Duration d{(whole.ps + t.pieces - 1) / t.pieces};  // one piece; the others are hidden
      times.transfer.push_back(d);
      times.transfer_overlapped.push_back(
          scaled(d, device::collective_rate(profile_, known.crosses_nodes)));
      if (t.communicator == Stream::tp || t.communicator == Stream::shard ||
          t.communicator == Stream::shard_near || t.communicator == Stream::shard_far)
        traffic = std::max(traffic, times.transfer_overlapped.back());
    }
    coding_share_ = whole_seconds > 0 ? coding_seconds / whole_seconds : 0;
    return traffic;
  }

  void price_kernels(const program::Program& program, const std::map<int, double>& speeds,
                     Duration traffic, ClassTimes& times) {
    const int sms_taken = channels(program);
    for (const model::Operation& o : program.operations) {
      Duration alone{}, overlapped{};
      for (const auto& [kind, speed] : speeds) {
        const auto number = static_cast<std::size_t>(kind);
        const device::Gpu& own = kind == 0 ? gpu_ : others_[number - 1].gpu;
        const device::Profile& its = kind == 0 ? profile_ : others_[number - 1].profile;
        const auto [it, added] = kernels_[number].try_emplace(o);
        if (added) it->second = on_host(o) ? host_time(o) : device::time(o, own, its) + gap_;
        const Duration kernel = scaled(it->second, speed);
        alone = std::max(alone, kernel);
        // PCIe copies and CPU work share no resource with the channels of a collective.
        const double rate = on_host(o) ? 1
                                       : device::kernel_rate(o.kind, own, its, sms_taken) *
                                             (1 - std::min(coding_share_, most_coding_share));
        overlapped = std::max(overlapped, on_host(o) ? kernel : beside(kernel, rate, traffic));
      }
      times.kernel.push_back(alone);
      times.kernel_overlapped.push_back(overlapped);
    }
  }

  void price_messages(const program::Program& program, int rank_class, ClassTimes& times) {
    for (const program::Exchange& e : program.exchanges) {
      std::vector<Duration>& messages = times.message.emplace_back();
      for (const program::Message& m : e.messages) {
        const int other = job_.mesh.stage_at(program.stage, m.peer_offset);
        const int from = m.send ? program.stage : other, to = m.send ? other : program.stage;
        const collective::Codec* codec =
            codec_of(job_.codecs, e.communicator, collective::Kind::send_receive);
        messages.push_back(lasting(collective::Kind::send_receive,
                                   known_groups(job_.mesh.pairs(from, to)).id,
                                   codec ? coded(*codec, m.bytes) : m.bytes,
                                   profile_.overlap.arrival,
                                   [&] { return job_.mesh.pair_numbers(rank_class, from, to); }) +
                           coding(codec, collective::Kind::send_receive, 2, m.bytes));
      }
    }
  }

  const program::Job& job_;
  const device::Gpu& gpu_;
  const device::Profile& profile_;
  network::Network& network_;
  std::span<const GpuKind> others_;
  std::map<const network::Groups*, KnownGroups> known_groups_;
  topology::HostRates host_ = topology::host_rates(
      network_.cluster().node,
      static_cast<int>(std::min<std::int64_t>(job_.mesh.world(), network_.cluster().node.gpus)));
  std::map<std::tuple<network::Network::GroupsId, program::RouteKey, bool, std::int64_t>, Duration>
      routed_;
  // With CUDA_LAUNCH_BLOCKING: after each kernel, the CPU wakes up and issues the next one.
  Duration gap_ =
      job_.launch_blocking ? profile_.host.synchronisation + profile_.host.kernel : Duration{};
  // Codec kernels use the whole GPU. coding_share_ is their share of the time of all overlapped
  // collectives of a class. The limit keeps an overlapped kernel from stopping entirely.
  static constexpr double most_coding_share = 0.95;
  double coding_share_ = 0;
  std::vector<std::map<model::Operation, Duration>> kernels_ =
      std::vector<std::map<model::Operation, Duration>>(1 + others_.size());
};

}  // namespace

Times price(const program::Job& job, const device::Gpu& gpu, const device::Profile& profile,
            network::Network& network, std::span<const GpuKind> others) {
  Times times;
  times.single_queue = job.single_queue || job.launch_blocking;
  price_host(times, profile.host);
  // With one queue entry, a launch waits until the one before it has started. gap_ adds the rest.
  if (job.launch_blocking) times.launch_queue = times.queue_entries_per_collective = 1;
  times.loader = loader(job, profile.host.loader, network.cluster().node.gpus);
  Pricer pricer(job, gpu, profile, network, others);
  for (std::size_t i = 0; i < job.classes.size(); ++i)
    times.classes.push_back(pricer.price(static_cast<int>(i)));
  return times;
}

using Purpose = network::Network::Purpose;

namespace {

bool carries(const program::Program& program, Stream communicator, collective::Kind kind) {
  return std::ranges::any_of(program.transfers, [&](const program::Transfer& t) {
    return t.communicator == communicator && t.kind == kind;
  });
}

// The use of a communicator, which decides its buffers. NCCL runs an all-to-all as sends. A ring of
// two ranks sends on the communicator of the group, batched.
Purpose purpose_of(const program::Program& program, Stream s, const network::Groups& groups) {
  if (s == Stream::pp || s == Stream::ep || s == Stream::cp_exchange) return Purpose::sends;
  const bool two = groups.ranks.front().size() == 2;
  const bool sends = carries(program, s, collective::Kind::all_to_all) ||
                     (two && carries(program, s, collective::Kind::ring_exchange));
  if (s == Stream::cp_ring && sends) return Purpose::sends;
  return sends && s == Stream::cp ? Purpose::both : Purpose::collectives;
}

}  // namespace

Memory outside_memory(const program::Job& job, const program::Plan& plan, const device::Gpu& gpu,
                      const device::Profile& profile, network::Network& network,
                      std::span<const GpuKind> others) {
  Memory memory;
  memory.total = gpu.memory;
  memory.less = profile.memory.unexplained_most - profile.memory.unexplained;
  memory.more = profile.memory.unexplained - profile.memory.unexplained_least;
  memory.options = plan.environment.allocator_options;
  for (std::size_t i = 0; i < job.classes.size(); ++i) {
    const program::Program& program = job.classes[i];
    std::vector<Outside> outside;
    // A class has the memory of the smallest of its GPUs.
    Bytes least = gpu.memory;
    for (const auto& [kind, speed] : slowest(job.mesh, static_cast<int>(i), network.cluster()))
      if (kind > 0) least = std::min(least, others[static_cast<std::size_t>(kind - 1)].gpu.memory);
    if (least < gpu.memory) outside.push_back({"smaller GPU", gpu.memory - least});
    outside.push_back({"CUDA context", profile.memory.context});
    if (profile.memory.libraries.n > 0) outside.push_back({"libraries", profile.memory.libraries});
    if (profile.memory.unexplained.n > 0)
      outside.push_back({"unexplained", profile.memory.unexplained});
    for (const Stream s : program.communicators) {
      const network::Groups& groups = job.mesh.groups(communicator_of(s));
      outside.push_back({"NCCL " + std::string(name(s)),
                         network.communicator_memory(groups, purpose_of(program, s, groups))});
    }
    // Rings of more than two ranks send unbatched: PyTorch makes a communicator per pair
    // [ProcessGroupNCCL.cpp:pointToPoint], and a rank has two neighbours.
    for (const Stream s : {Stream::cp, Stream::cp_ring})
      if (carries(program, s, collective::Kind::ring_exchange) &&
          job.mesh.groups(communicator_of(s)).ranks.front().size() > 2)
        outside.push_back({"NCCL " + std::string(name(s)) + " neighbours",
                           2 * network.communicator_memory(job.mesh.neighbours(communicator_of(s)),
                                                           Purpose::sends)});
    memory.outside.push_back(std::move(outside));
  }
  return memory;
}

}  // namespace sim::engine
