#include "sim/input/cluster/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "sim/input/cluster/hosts.h"
#include "sim/input/cluster/node_rates.h"
#include "sim/input/cluster/spines.h"
#include "sim/input/fields/cluster_fields.h"
#include "sim/input/schema/cluster.pb.h"
#include "sim/input/text/locate.h"
#include "sim/input/text/parse_cache.h"
#include "sim/input/text/rules.h"
#include "sim/input/text/textproto.h"

namespace sim::input {
namespace {
namespace v1 = rehearse::v1;
using topology::FabricKind;
using topology::GpuInterconnect;

struct Load {
  const Source& source;
  Diagnostics problems;

  void add(const google::protobuf::Message& message, std::string_view field, std::string text,
           int index = 0) {
    problems.push_back({source.where(message, field, index), std::move(text)});
  }
};

// The place of each condition: those of the file, then those of the settings.
std::vector<std::string> places_of_conditions(const v1::Cluster& file, const Source& source,
                                              const std::vector<Setting>& settings) {
  std::vector<std::string> places;
  for (int i = 0; i < file.condition_size(); ++i)
    places.push_back(source.where(file, "condition", i));
  for (const Setting& setting : settings)
    if (setting.text.starts_with("condition=") || setting.text.starts_with("cluster.condition="))
      places.push_back(setting.where);
  return places;
}

// The problems of the whole cluster, with places. A message such as "node.nics must be ..." names
// its field. Otherwise the place is the condition that causes the problem, or the fabric.
void check_shape(const v1::Cluster& cluster, const std::vector<std::string>& conditions,
                 const topology::Cluster& shape, Load& state) {
  std::vector<std::string> broken = topology::problems(shape);
  if (broken.empty()) return;
  topology::Cluster plain = shape;
  plain.conditions.clear();
  const std::vector<std::string> without = topology::problems(plain);
  const auto place_of_condition = [&](const std::string& problem) {
    for (std::size_t i = 0; i < shape.conditions.size() && i < conditions.size(); ++i) {
      plain.conditions = {shape.conditions[i]};
      const std::vector<std::string> alone = topology::problems(plain);
      if (std::ranges::find(alone, problem) != alone.end()) return conditions[i];
    }
    return conditions.empty() ? state.source.where(cluster, "condition") : conditions.back();
  };
  for (std::string& problem : broken) {
    if (std::ranges::find(without, problem) == without.end()) {
      state.problems.push_back({place_of_condition(problem), std::move(problem)});
      continue;
    }
    const std::string name = problem.substr(0, problem.find(' '));
    const google::protobuf::Message* message = &cluster;
    std::string field = "fabric";
    for (const auto& [block, of] :
         {std::pair<std::string, const google::protobuf::Message*>{"node.", &cluster.node()},
          {"fabric.", &cluster.fabric()}})
      if (name.starts_with(block) &&
          of->GetDescriptor()->FindFieldByName(name.substr(block.size())) != nullptr)
        message = of, field = name.substr(block.size());
    state.add(*message, field, std::move(problem));
  }
}

GpuInterconnect interconnect(v1::Node::Interconnect value) {
  if (value == v1::Node::direct || value == v1::Node::bridges || value == v1::Node::cube_mesh)
    return GpuInterconnect::direct;
  if (value == v1::Node::mesh) return GpuInterconnect::mesh;
  return value == v1::Node::pcie ? GpuInterconnect::pcie : GpuInterconnect::nvswitch;
}

topology::HostCpu cpu(v1::Node::Cpu value) {
  if (value == v1::Node::amd) return topology::HostCpu::amd;
  return value == v1::Node::arm ? topology::HostCpu::arm : topology::HostCpu::intel;
}

FabricKind fabric_kind(v1::Fabric::Kind value) {
  switch (value) {
    case v1::Fabric::single_switch:
      return FabricKind::single_switch;
    case v1::Fabric::rail_optimised:
      return FabricKind::rail_optimised;
    case v1::Fabric::three_level:
      return FabricKind::three_level;
    case v1::Fabric::rail_only:
      return FabricKind::rail_only;
    case v1::Fabric::leaf_spine:
      return FabricKind::leaf_spine;
    case v1::Fabric::dragonfly:
      return FabricKind::dragonfly;
    case v1::Fabric::torus:
      return FabricKind::torus;
    default:
      return FabricKind::fat_tree;
  }
}

// Checks that the NVLink fields match `interconnect`, and that no others are set.
void check_links(const v1::Node& node, Load& load) {
  const bool has_links = node.interconnect() != v1::Node::pcie && node.gpus() > 1;
  if (has_links && node.nvlink_bandwidth().empty())
    load.add(node, "nvlink_bandwidth",
             "GPUs that are linked need 'nvlink_bandwidth', one link in one direction; write for "
             "example nvlink_bandwidth: \"25GB/s\"");
  if (node.interconnect() == v1::Node::nvswitch && node.nvlinks_per_gpu() < 1 && node.gpus() > 1)
    load.add(node, "nvlinks_per_gpu",
             "'nvswitch' needs 'nvlinks_per_gpu', the links of one GPU to the switches: 12 on "
             "A100, 18 on H100");
  if (node.interconnect() == v1::Node::mesh && node.nvlinks_per_pair() < 1 && node.gpus() > 1)
    load.add(node, "nvlinks_per_pair",
             "'mesh' needs 'nvlinks_per_pair', the links between each two GPUs: 4 on a node of "
             "four A100, 6 on four H100");
  if (node.interconnect() == v1::Node::mesh && node.nvlinks_per_gpu() > 0)
    load.add(node, "nvlinks_per_gpu", "a 'mesh' has 'nvlinks_per_pair', not 'nvlinks_per_gpu'");
  if (node.interconnect() == v1::Node::nvswitch && node.nvlinks_per_pair() > 0)
    load.add(node, "nvlinks_per_pair", "'nvswitch' has 'nvlinks_per_gpu', not 'nvlinks_per_pair'");
  if (node.interconnect() == v1::Node::bridges && node.nvlinks_per_pair() < 1)
    load.add(node, "nvlinks_per_pair",
             "'bridges' needs 'nvlinks_per_pair', the links between two bridged GPUs");
  if (node.interconnect() == v1::Node::direct && node.nvlink_pair_size() == 0)
    load.add(node, "nvlink_pair",
             "'direct' needs the pairs that are linked; write for example "
             "nvlink_pair { a: 0 b: 1 links: 4 }");
  if (node.interconnect() != v1::Node::direct && node.nvlink_pair_size() > 0)
    load.add(node, "nvlink_pair", "only interconnect 'direct' names its pairs");
  if (node.interconnect() == v1::Node::cube_mesh && node.gpus() != 8)
    load.add(node, "gpus", "a cube mesh has 8 GPUs");
}

std::vector<topology::NvlinkPair> pairs(const v1::Node& node) {
  if (node.interconnect() == v1::Node::bridges)
    return topology::bridge_pairs(node.gpus(), node.nvlinks_per_pair());
  if (node.interconnect() == v1::Node::cube_mesh) return topology::cube_mesh_pairs();
  std::vector<topology::NvlinkPair> all;
  for (const v1::NvlinkPair& pair : node.nvlink_pair()) {
    all.push_back({pair.a(), pair.b(), pair.links()});
  }
  return all;
}

std::vector<int> nics_of_gpus(const v1::Node& node, Load& load) {
  std::vector<int> nics;
  if (node.nics() == 0 && node.nic_of_gpu_size() > 0)
    load.add(node, "nic_of_gpu", "the node has no NICs ('nics' is 0 or left out)");
  if (node.nics() == 0) return nics;
  if (node.nic_bandwidth().empty())
    load.add(node, "nic_bandwidth",
             "a node with NICs needs 'nic_bandwidth'; write for example nic_bandwidth: "
             "\"200Gb/s\"");
  if (node.nic_of_gpu_size() == 0) {
    for (int gpu = 0; gpu < node.gpus(); ++gpu) {
      const std::int64_t dealt = std::int64_t{gpu} * node.nics() / node.gpus();
      nics.push_back(static_cast<int>(dealt));
    }
    return nics;
  }
  if (node.nic_of_gpu_size() != node.gpus())
    load.add(node, "nic_of_gpu",
             fmt::format("{} entries for {} GPUs; give one NIC per GPU, or leave the field out to "
                         "deal them out evenly",
                         node.nic_of_gpu_size(), node.gpus()));
  for (int i = 0; i < node.nic_of_gpu_size(); ++i) {
    if (node.nic_of_gpu(i) >= node.nics())
      load.add(node, "nic_of_gpu",
               fmt::format("NIC {} does not exist; the node has NICs 0 to {}", node.nic_of_gpu(i),
                           node.nics() - 1),
               i);
    nics.push_back(node.nic_of_gpu(i));
  }
  return nics;
}

topology::Node node(const v1::Node& from, Load& load) {
  check_links(from, load);
  topology::Node to;
  to.gpus = from.gpus();
  to.interconnect = interconnect(from.interconnect());
  to.nvlinks_per_gpu = from.nvlinks_per_gpu();
  to.nvlinks_per_pair = from.nvlinks_per_pair();
  to.nvlink = to_bandwidth(from.nvlink_bandwidth());
  to.pcie = to_bandwidth(from.pcie_bandwidth());
  to.nics = from.nics();
  to.nic = to_bandwidth(from.nic_bandwidth());
  to.nic_of_gpu = nics_of_gpus(from, load);
  to.cpu = cpu(from.cpu());
  to.pairs = pairs(from);
  to.sockets = from.has_sockets() ? from.sockets() : 1;
  to.socket_of_gpu = {from.socket_of_gpu().begin(), from.socket_of_gpu().end()};
  to.socket_of_nic = {from.socket_of_nic().begin(), from.socket_of_nic().end()};
  to.socket_link = to_bandwidth(from.socket_bandwidth());
  to.host_copy = to_bandwidth(from.host_copy_bandwidth());
  to.cpu_memory_bandwidth = to_bandwidth(from.cpu_memory_bandwidth());
  to.cpu_cores = from.cpu_cores();
  to.cpu_memory = to_bytes(from.cpu_memory());
  to.nvlink_sharp = !from.has_nvlink_sharp() || from.nvlink_sharp();
  return to;
}

topology::Transport transport(const v1::Transport& from, Load& load) {
  topology::Transport to;
  to.names = {from.name().begin(), from.name().end()};
  to.plugin = from.plugin();
  to.reported_latency = to_duration(from.reported_latency());
  to.message_latency = to_duration(from.message_latency());
  to.bandwidth = from.bandwidth();
  for (const v1::SlowerMessage& slower : from.slower())
    to.slower.push_back({to_bytes(slower.above()), to_duration(slower.latency())});
  for (const v1::TunerRegion& region : from.region()) {
    if (region.bytes_size() != region.ranks_size() || region.bytes_size() < 3)
      load.add(region, "bytes",
               fmt::format("{} sizes and {} numbers of ranks; a region has three corners or more, "
                           "each with both",
                           region.bytes_size(), region.ranks_size()));
    to.regions.push_back({region.collective(),
                          region.gpus_per_node(),
                          region.algorithm(),
                          region.protocol(),
                          {region.bytes().begin(), region.bytes().end()},
                          {region.ranks().begin(), region.ranks().end()}});
  }
  return to;
}

topology::Fabric fabric(const v1::Cluster& cluster, Load& load) {
  const v1::Fabric& from = cluster.fabric();
  topology::Fabric to;
  to.kind = fabric_kind(from.kind());
  to.nodes_per_leaf = from.nodes_per_leaf();
  to.oversubscription = from.has_oversubscription() ? from.oversubscription() : 1.0;
  to.leaf_hop = to_duration(from.leaf_hop());
  to.spine_hop = to_duration(from.spine_hop());
  to.leaves_per_pod = from.leaves_per_pod();
  to.pod_oversubscription = from.has_pod_oversubscription() ? from.pod_oversubscription() : 1.0;
  to.core_hop = to_duration(from.core_hop());
  to.spines = from.has_spines() ? from.spines() : spines_of(to, cluster.node().nics());
  to.routers_per_group = from.routers_per_group();
  to.groups = from.groups();
  to.global_links = from.global_links();
  to.adaptive = from.adaptive();
  to.dimensions = {from.dimensions().begin(), from.dimensions().end()};
  to.open = from.open();
  to.cable = to_bandwidth(from.cable_bandwidth());
  if (cluster.has_transport()) to.transport = transport(cluster.transport(), load);
  to.hash_seed = from.hash_seed();
  const bool leaves = to.kind != FabricKind::torus && to.kind != FabricKind::rail_only;
  if (to.kind == FabricKind::single_switch) {
    if (to.nodes_per_leaf == 0) to.nodes_per_leaf = cluster.nodes();
    if (to.nodes_per_leaf < cluster.nodes())
      load.add(
          from, "nodes_per_leaf",
          fmt::format("a single switch holds all {} nodes; leave the field out", cluster.nodes()));
  } else if (leaves && to.nodes_per_leaf < 1) {
    load.add(from, "nodes_per_leaf",
             "a fabric of leaves and spines needs 'nodes_per_leaf', the nodes that share a leaf; "
             "write for example nodes_per_leaf: 20");
  }
  if (cluster.nodes() > 1 && cluster.node().nics() < 1)
    load.add(cluster.node(), "nics",
             fmt::format("{} nodes cannot reach each other without NICs; write for example "
                         "nics: 8",
                         cluster.nodes()));
  return to;
}

device::Gpu gpu(const v1::Gpu& from, Load& load) {
  device::Gpu to;
  to.name = from.name();
  to.profile = from.profile();
  to.memory = to_bytes(from.memory());
  to.memory_marketing_gb = static_cast<double>(to_bytes(from.memory_marketing()).n) / 1e9;
  to.hbm = to_bandwidth(from.memory_bandwidth());
  to.sms = from.sms();
  to.power_w = from.power_w();
  to.bf16_flops = to_flop_rate(from.bf16());
  to.tf32_flops = to_flop_rate(from.tf32());
  to.fp32_flops = to_flop_rate(from.fp32());
  to.fp8_flops = to_flop_rate(from.fp8());
  to.fp4_flops = to_flop_rate(from.fp4());
  to.compute_capability = from.compute_capability();
  if (to.memory_marketing_gb > 0 && gib(to.memory) > to.memory_marketing_gb * 1.1)
    load.add(from, "memory",
             fmt::format("{} is more than a GPU sold as {} can report", from.memory(),
                         from.memory_marketing()));
  return to;
}

topology::Jitter to_jitter(const v1::Jitter& from, Load& state) {
  // A GPU that becomes slow r times an hour for a time d is slow for r d / (1 + r d) of the time.
  const double times = from.slow_per_hour() * from.slow_minutes() / 60;
  const int given = (from.slow_per_hour() > 0 ? 1 : 0) + (from.slow_minutes() > 0 ? 1 : 0) +
                    (from.slow_factor() > 0 ? 1 : 0);
  if (given % 3 != 0)
    state.add(from, "slow_per_hour", "needs slow_per_hour, slow_minutes and slow_factor");
  if (given == 0 && from.sigma() <= 0)
    state.add(from, "sigma", "nothing differs: give sigma, or the three of slow GPUs");
  return {from.sigma(), from.seed(), times / (1 + times), std::max(1.0, from.slow_factor())};
}

topology::Condition to_condition(const v1::Condition& from) {
  topology::Condition to;
  to.node = from.has_node() ? from.node() : -1;
  to.gpu = from.has_gpu() ? from.gpu() : -1;
  to.nic = from.has_nic() ? from.nic() : -1;
  to.leaf = from.has_leaf() ? from.leaf() : -1;
  to.spine = from.has_spine() ? from.spine() : -1;
  to.speed = from.has_speed() ? from.speed() : 1;
  to.bandwidth = from.has_bandwidth() ? from.bandwidth() : 1;
  return to;
}

// Loads measured rates between nodes. A table with fewer nodes than the cluster restricts the job
// to those nodes. Returns text to add to the digest of an answer.
std::string add_rates(const v1::Cluster& from, const std::string& beside, topology::Cluster& to,
                      Load& load) {
  if (from.node_bandwidth().empty()) return "";
  std::error_code error;
  std::filesystem::path path = from.node_bandwidth();
  if (!std::filesystem::exists(path, error) && path.is_relative())
    path = std::filesystem::path(beside).parent_path() / path;
  const Result<NodeRatesFile> read = load_node_rates(path.string());
  if (!read) {
    for (const Diagnostic& problem : read.errors()) load.problems.push_back(problem);
    return "";
  }
  to.rates = read->rates;
  to.nodes = std::min(to.nodes, static_cast<int>(to.rates.names.size()));
  return read->text;
}

Result<Machine> load_machine(const std::string& path, const std::vector<std::string>& overrides,
                             bool with_others, const std::string* text = nullptr);

// Reads nodes with another GPU: their kinds and GPUs, and text to add to the digest of an answer.
std::string add_others(const v1::Cluster& from, const std::string& beside, Machine& machine,
                       Load& load) {
  topology::Cluster& to = machine.cluster;
  std::string text;
  for (int i = 0; i < from.other_gpu_size(); ++i) {
    const v1::OtherGpu& other = from.other_gpu(i);
    if (std::int64_t{other.first_node()} + other.nodes() > to.nodes) {
      load.add(
          other, "nodes",
          fmt::format("nodes {} to {} are not all there: nodes are 0 to {}", other.first_node(),
                      other.first_node() + other.nodes() - 1, to.nodes - 1));
      return "";
    }
    const Result<std::string> file = locate(Kind::topology, other.cluster(), beside);
    const Result<Machine> found = file ? load_machine(*file, {}, false) : file.errors();
    if (!found) {
      for (const Diagnostic& problem : found.errors()) load.problems.push_back(problem);
      return "";
    }
    to.gpu_kinds.resize(static_cast<std::size_t>(to.nodes), 0);
    machine.others.push_back(found->gpu);
    for (int node = 0; node < other.nodes(); ++node) {
      int& kind = to.gpu_kinds[static_cast<std::size_t>(other.first_node() + node)];
      if (kind != 0) {
        load.add(other, "first_node",
                 fmt::format("node {} has two other GPUs", other.first_node() + node));
        return "";
      }
      kind = i + 1;
    }
    text += found->text;
  }
  return text;
}

void add_hosts(const v1::Cluster& from, topology::Cluster& to, Load& load) {
  if (from.host().empty()) return;
  std::vector<bool> named(static_cast<std::size_t>(to.nodes), false);
  for (const int host : from.host()) {
    if (host >= to.nodes || named[static_cast<std::size_t>(host)]) {
      load.add(from, "host",
               host >= to.nodes
                   ? fmt::format("host {} is not there: nodes are 0 to {}", host, to.nodes - 1)
                   : fmt::format("host {} is named twice", host));
      return;
    }
    named[static_cast<std::size_t>(host)] = true;
    to.hosts.push_back(host);
  }
  for (int node = 0; node < to.nodes; ++node) {
    if (!named[static_cast<std::size_t>(node)]) to.hosts.push_back(node);
  }
}

void add_sources(std::string_view block,
                 const google::protobuf::RepeatedPtrField<std::string>& from,
                 std::vector<std::string>& to) {
  for (const std::string& source : from) to.push_back(fmt::format("{}: {}", block, source));
}

// `with_others`: false to load only the cluster's own GPU. `text`: replaces the file's contents.
Result<Machine> load_machine(const std::string& path, const std::vector<std::string>& overrides,
                             bool with_others, const std::string* text) {
  v1::Cluster cluster;
  Source source(path);
  Diagnostics problems =
      text != nullptr ? source.read_whole(*text, cluster) : load(source, cluster);
  if (!problems.empty()) return problems;
  std::vector<Setting> settings;
  for (const std::string& one : overrides)
    settings.push_back({one, fmt::format("command line, {}", one.substr(0, 80))});
  const std::vector<std::string> conditions = places_of_conditions(cluster, source, settings);
  problems = apply(settings, cluster, source);
  if (!problems.empty()) return problems;

  Load state{source, {}};
  Machine machine;
  machine.path = path;
  machine.cluster.name = cluster.name();
  machine.cluster.nodes = cluster.nodes();
  machine.cluster.node = node(cluster.node(), state);
  const Result<topology::HostLevels>& levels = host_levels();
  if (!levels) return levels.errors();
  machine.cluster.node.host = *levels;
  machine.cluster.fabric = fabric(cluster, state);
  machine.cluster.scattered = cluster.scattered();
  machine.gpu = gpu(cluster.gpu(), state);
  machine.communication =
      cluster.communication().empty() ? machine.gpu.profile : cluster.communication();
  if (std::int64_t{cluster.nodes()} * cluster.node().gpus() > 1 << 20)
    state.add(cluster, "nodes",
              fmt::format("{} nodes of {} GPUs are more than 1,048,576 GPUs, the most that is "
                          "simulated",
                          cluster.nodes(), cluster.node().gpus()));
  for (const v1::Condition& condition : cluster.condition())
    machine.cluster.conditions.push_back(to_condition(condition));
  std::string more = add_rates(cluster, path, machine.cluster, state);
  if (state.problems.empty() && with_others) more += add_others(cluster, path, machine, state);
  if (state.problems.empty()) add_hosts(cluster, machine.cluster, state);
  if (cluster.has_jitter()) machine.cluster.jitter = to_jitter(cluster.jitter(), state);
  machine.cluster.nccl_version = cluster.nccl_version();
  machine.price_per_gpu_hour = cluster.price_per_gpu_hour();
  if (state.problems.empty()) check_shape(cluster, conditions, machine.cluster, state);
  if (!state.problems.empty()) return state.problems;

  for (const v1::Alias& alias : cluster.gpu().alias()) {
    const double own = static_cast<double>(to_bytes(alias.memory()).n) / 1e9;
    machine.aliases.push_back({alias.name(), own > 0 ? own : machine.gpu.memory_marketing_gb,
                               alias.memory_only(), alias.gpus_per_node()});
  }
  machine.site = cluster.site();
  add_sources("cluster", cluster.source(), machine.sources);
  add_sources("GPU", cluster.gpu().source(), machine.sources);
  add_sources("node", cluster.node().source(), machine.sources);
  add_sources("fabric", cluster.fabric().source(), machine.sources);
  add_sources("transport", cluster.transport().source(), machine.sources);
  machine.text = cluster.DebugString() + more +
                 fmt::format("\nlevels of hosts: {} {} {} {}", levels->copied, levels->carried,
                             levels->core.bytes_per_second, levels->socket_memory.bytes_per_second);
  return machine;
}

}  // namespace

Result<Machine> load_cluster(const std::string& path, const std::vector<std::string>& overrides) {
  if (path.ends_with(".json")) return load_machine(path, overrides, true);
  const Result<std::string> text = read_file(path);
  if (!text) return text.errors();
  static ParseCache<Machine> kept;
  std::string key = path + '\0' + *text;
  for (const std::string& one : overrides) key += '\0' + one;
  if (const auto machine = kept.find(key)) return *machine;
  const Result<Machine> machine = load_machine(path, overrides, true, &*text);
  // The key does not contain the contents of other files: do not cache.
  if (machine && machine->cluster.rates.empty() && machine->others.empty()) kept.add(key, *machine);
  return machine;
}

Result<Machine> parse_cluster(const std::string& text, const std::string& path) {
  return load_machine(path, {}, true, &text);
}

Result<Machine> find_cluster(std::string_view name, const std::string& beside,
                             const std::vector<std::string>& overrides) {
  const Result<std::string> path = locate(Kind::topology, name, beside);
  if (!path) return path.errors();
  return load_cluster(*path, overrides);
}

}  // namespace sim::input
