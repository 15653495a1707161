#include "sim/input/cluster/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "sim/base/machine_error.h"
#include "sim/base/text.h"
#include "sim/input/cluster/hardware.h"
#include "sim/input/cluster/hosts.h"
#include "sim/input/cluster/node_rates.h"
#include "sim/input/fields/cluster_fields.h"
#include "sim/input/schema/cluster.pb.h"
#include "sim/input/text/locate.h"
#include "sim/input/text/parse_cache.h"
#include "sim/input/text/rules.h"
#include "sim/input/text/textproto.h"

namespace sim::input {
namespace {
namespace v1 = rehearse::v1;

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
                 const topology::Cluster& shape, HardwareLoad& state) {
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

topology::Jitter to_jitter(const v1::Jitter& from, HardwareLoad& state) {
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
                      HardwareLoad& load) {
  if (from.node_bandwidth().empty()) return "";
  std::filesystem::path path = from.node_bandwidth();
  if (!file_exists(path.string()) && path.is_relative())
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
                       HardwareLoad& load) {
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

void add_hosts(const v1::Cluster& from, topology::Cluster& to, HardwareLoad& load) {
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

void add_aliases(const v1::Gpu& gpu, Machine& machine) {
  for (const v1::Alias& alias : gpu.alias()) {
    const double own = static_cast<double>(to_bytes(alias.memory()).n) / 1e9;
    machine.aliases.push_back({alias.name(), own > 0 ? own : machine.gpu.memory_marketing_gb,
                               alias.memory_only(), alias.gpus_per_node()});
  }
}

// Notes on settings: a node that is larger than those that the file describes, and a name that
// changes no time.
std::vector<std::string> notes_of(const v1::Cluster& cluster, int described,
                                  const std::vector<std::string>& overrides) {
  std::vector<std::string> notes;
  const int gpus = cluster.node().gpus();
  if (described > 0 && gpus > described)
    notes.push_back(fmt::format(
        "node.gpus={}: {} describes nodes of {}; check that a node of {} GPUs with {} exists", gpus,
        cluster.name(), described, gpus, counted(cluster.node().nics(), "NIC")));
  for (const std::string& one : overrides)
    if (one.starts_with("transport.name=") || one.starts_with("cluster.transport.name="))
      notes.push_back(
          fmt::format("{} changes no time: it names the network in tables of measurements; set "
                      "transport.bandwidth and transport.message_latency",
                      one.substr(0, 80)));
  return notes;
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
  const int described = cluster.node().gpus();
  problems = apply(settings, cluster, source);
  if (!problems.empty()) return problems;

  HardwareLoad state{source, {}};
  Machine machine;
  machine.path = path;
  machine.cluster.name = cluster.name();
  machine.cluster.nodes = cluster.nodes();
  machine.cluster.node = read_node(cluster.node(), state);
  const Result<topology::HostLevels>& levels = host_levels();
  if (!levels) return levels.errors();
  machine.cluster.node.host = *levels;
  machine.cluster.fabric = read_fabric(cluster, state);
  machine.cluster.scattered = cluster.scattered();
  machine.gpu = read_gpu(cluster.gpu(), state);
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

  add_aliases(cluster.gpu(), machine);
  machine.notes = notes_of(cluster, described, overrides);
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
