#include "sim/cluster/topology/inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

namespace sim::topology {
namespace {

std::string list(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < 8; ++i) text += (i ? ", " : "") + names[i];
  if (names.size() > 8) text += fmt::format(" and {} more", names.size() - 8);
  return text;
}

int socket_of(const std::vector<int>& said, int index, int count, int sockets) {
  return said.empty() ? index * sockets / std::max(1, count)
                      : said[static_cast<std::size_t>(index)];
}

constexpr int most_inspected_nodes = 4096;

// NICs that no GPU uses, and GPUs with different numbers of NICs.
void find_uneven_nics(const Node& node, std::vector<Finding>& all) {
  if (node.nics == 0) return;
  std::vector<bool> used(static_cast<std::size_t>(node.nics), false);
  std::map<std::size_t, std::vector<std::string>> by_count;
  for (int gpu = 0; gpu < node.gpus; ++gpu) {
    const std::vector<int> own = nics_of_gpu(node, gpu);
    for (const int nic : own) used[static_cast<std::size_t>(nic)] = true;
    by_count[own.size()].push_back(std::to_string(gpu));
  }
  std::vector<std::string> unused;
  for (std::size_t nic = 0; nic < used.size(); ++nic)
    if (!used[nic]) unused.push_back(std::to_string(nic));
  if (!unused.empty())
    all.push_back({true, fmt::format("no GPU uses NIC {}: node.nic_of_gpu", list(unused))});
  if (by_count.size() <= 1) return;
  std::string text = fmt::format("{} NICs for {} GPUs:", node.nics, node.gpus);
  for (const auto& [count, gpus] : by_count)
    text += fmt::format(" GPU {} has {} NIC{};", list(gpus), count, count == 1 ? "" : "s");
  text.pop_back();
  all.push_back({true, text});
}

}  // namespace

bool nics_exceed_slots(const Node& node) {
  return node.nics > 0 && node.pcie.bytes_per_second > 0 &&
         node.nic.bytes_per_second > node.pcie.bytes_per_second;
}

std::vector<Finding> inspect(const Node& node) {
  std::vector<Finding> all;
  std::map<int, int> users;
  for (int gpu = 0; gpu < node.gpus && node.nics > 0; ++gpu) {
    const int nic = node.nic_of_gpu[static_cast<std::size_t>(gpu)];
    ++users[nic];
    const int at = socket_of(node.socket_of_gpu, gpu, node.gpus, node.sockets);
    const int there = socket_of(node.socket_of_nic, nic, node.nics, node.sockets);
    if (at != there) {
      all.push_back({true, fmt::format("GPU {} (socket {}) uses NIC {} on the far socket {}: its "
                                       "traffic crosses the link between the sockets",
                                       gpu, at, nic, there)});
    }
  }
  std::map<int, std::vector<std::string>> by_count;
  for (const auto& [nic, count] : users) by_count[count].push_back(std::to_string(nic));
  if (by_count.size() > 1) {
    std::string text = "uneven rails:";
    for (const auto& [count, nics] : by_count) {
      text += fmt::format(" NIC {} has {} GPU{};", list(nics), count, count == 1 ? "" : "s");
    }
    text.back() = '.';
    all.push_back({true, text.substr(0, text.size() - 1)});
  }
  find_uneven_nics(node, all);
  const double per_gpu =
      node.nics == 0 ? 0 : static_cast<double>(node.nic.bytes_per_second) * node.nics / node.gpus;
  if (per_gpu == 0) {
    all.push_back({false, fmt::format("{} GPUs, {} NICs", node.gpus, node.nics)});
  } else {
    all.push_back({false, fmt::format("{} GPUs, {} NICs: {:.1f} GB/s of network per GPU", node.gpus,
                                      node.nics, per_gpu / 1e9)});
    if (nics_exceed_slots(node)) {
      all.push_back({true, fmt::format("a NIC of {:.1f} GB/s sits on PCIe of {:.1f} GB/s",
                                       gb_per_second(node.nic), gb_per_second(node.pcie))});
    }
  }
  return all;
}

std::vector<Finding> inspect(const Cluster& cluster, double least_bisection) {
  std::vector<Finding> all = inspect(cluster.node);
  for (const Condition& c : cluster.conditions) {
    if (c.nic >= 0 && c.bandwidth == 0)
      all.push_back(
          {true, fmt::format("NIC {} of node {} has failed: its GPUs share another's rail", c.nic,
                             c.node)});
    else if (c.bandwidth < 1 || c.speed < 1)
      all.push_back({true, fmt::format("a part of {} {} runs at {:.0f} %",
                                       c.leaf >= 0    ? "leaf"
                                       : c.spine >= 0 ? "spine"
                                                      : "node",
                                       c.leaf >= 0    ? c.leaf
                                       : c.spine >= 0 ? c.spine
                                                      : c.node,
                                       100 * std::min(c.bandwidth, c.speed))});
  }
  if (cluster.nodes < 2) return all;
  if (cluster.nodes > most_inspected_nodes) {
    all.push_back(
        {false, fmt::format("bisection not computed above {} nodes", most_inspected_nodes)});
    return all;
  }
  const double share = bisection_share(cluster);
  const bool short_of = least_bisection > 0 && share < least_bisection * (1 - 1e-9);
  all.push_back(
      {short_of,
       fmt::format("the halves of the nodes reach each other at {:.1f} % of their NICs{}",
                   100 * share,
                   short_of ? fmt::format(", {:.1f} % are claimed", 100 * least_bisection) : "")});
  return all;
}

namespace {

// What the cables of a wiring join. Vertices are switches, then hosts.
struct Attachments {
  std::vector<double> down, up;  // by switch: bytes per second to hosts, to switches; or cables
  std::vector<int> attached;     // by switch: hosts
  std::vector<int> ports;        // by host
  std::vector<int> root;         // by vertex: a vertex of the same connected part

  // The root of a vertex's part. Shortens the way to it.
  int part(int v) {
    while (root[static_cast<std::size_t>(v)] != v) {
      int& above = root[static_cast<std::size_t>(v)];
      above = root[static_cast<std::size_t>(above)];
      v = above;
    }
    return v;
  }
};

Attachments attachments(const Wiring& wiring) {
  const std::size_t switches = wiring.switches.size(), hosts = wiring.hosts.size();
  Attachments a;
  a.down.resize(switches);
  a.up.resize(switches);
  a.attached.resize(switches);
  a.ports.resize(hosts);
  a.root.resize(switches + hosts);
  std::iota(a.root.begin(), a.root.end(), 0);
  for (const Wiring::Cable& cable : wiring.cables) {
    a.root[static_cast<std::size_t>(a.part(cable.a))] = a.part(cable.b);
    const double rate = cable.bytes_per_second > 0 ? cable.bytes_per_second : 1;
    for (const auto& [from, to] : {std::pair{cable.a, cable.b}, {cable.b, cable.a}}) {
      const auto v = static_cast<std::size_t>(from);
      const bool host = static_cast<std::size_t>(to) >= switches;
      if (v >= switches) {
        ++a.ports[v - switches];
      } else {
        (host ? a.down : a.up)[v] += rate;
        a.attached[v] += host;
      }
    }
  }
  return a;
}

void find_unreached(const Wiring& wiring, Attachments& a, std::vector<Finding>& all) {
  std::map<int, std::vector<std::string>> parts;
  for (std::size_t h = 0; h < wiring.hosts.size(); ++h)
    parts[a.part(static_cast<int>(wiring.switches.size() + h))].push_back(wiring.hosts[h]);
  if (parts.size() <= 1) return;
  const auto largest = std::ranges::max_element(
      parts, [](const auto& x, const auto& y) { return x.second.size() < y.second.size(); });
  std::vector<std::string> lost;
  for (const auto& [key, hosts] : parts)
    if (key != largest->first) lost.insert(lost.end(), hosts.begin(), hosts.end());
  all.push_back({true, fmt::format("{} of {} hosts are not reached by the others: {}", lost.size(),
                                   wiring.hosts.size(), list(lost))});
}

// "TITLE 2 ports: a, b; 4 ports: c" if the names differ in their number of ports.
void find_uneven(const char* title, const char* ports, bool problem,
                 const std::map<int, std::vector<std::string>>& by_ports,
                 std::vector<Finding>& all) {
  if (by_ports.size() <= 1) return;
  std::string text = title;
  for (const auto& [count, names] : by_ports)
    text += fmt::format(" {} {}: {};", count, ports, list(names));
  text.pop_back();
  all.push_back({problem, text});
}

void find_worst_leaf(const Wiring& wiring, const Attachments& a, double least_bisection,
                     std::vector<Finding>& all) {
  double worst = 0;
  std::string where;
  for (std::size_t s = 0; s < wiring.switches.size(); ++s) {
    if (a.attached[s] == 0 || a.up[s] <= 0 || a.down[s] / a.up[s] <= worst) continue;
    worst = a.down[s] / a.up[s];
    where = wiring.switches[s];
  }
  const bool rates = std::ranges::any_of(
      wiring.cables, [](const auto& cable) { return cable.bytes_per_second > 0; });
  if (worst <= 0 || !rates) return;
  const bool short_of = least_bisection > 0 && 1 / worst < least_bisection * (1 - 1e-9);
  all.push_back(
      {short_of,
       fmt::format("leaf {} has {:.2f}:1 ports down to ports up{}", where, worst,
                   short_of ? fmt::format(", 1:{:.2f} is claimed", least_bisection) : "")});
}

}  // namespace

std::vector<Finding> inspect(const Wiring& wiring, double least_bisection) {
  std::vector<Finding> all;
  Attachments a = attachments(wiring);
  find_unreached(wiring, a, all);
  std::map<int, std::vector<std::string>> hosts_by_ports, leaves_by_hosts;
  for (std::size_t h = 0; h < wiring.hosts.size(); ++h)
    hosts_by_ports[a.ports[h]].push_back(wiring.hosts[h]);
  find_uneven("uneven rails:", "ports", true, hosts_by_ports, all);
  std::size_t leaves = 0;
  for (std::size_t s = 0; s < wiring.switches.size(); ++s) {
    if (a.attached[s] == 0) continue;
    ++leaves;
    leaves_by_hosts[a.attached[s]].push_back(wiring.switches[s]);
  }
  all.push_back({false, fmt::format("{} hosts on {} leaves, {} switches above them",
                                    wiring.hosts.size(), leaves, wiring.switches.size() - leaves)});
  find_uneven("leaves of different sizes:", "ports down", false, leaves_by_hosts, all);
  find_worst_leaf(wiring, a, least_bisection, all);
  return all;
}

}  // namespace sim::topology
