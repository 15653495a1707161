// timing_collectives.cpp — predicts the rows of nccl.csv: the cluster with the row's GPU and
// network, the ranks on it, and the duration of the collective. A time that a CPU thread measured
// contains its launch: the prediction adds the profile's `host.collective`, and the document lists
// such rows apart.
#include <fmt/format.h>

#include "sim/calibrate/tables/collective_row.h"
#include "sim/calibrate/tables/timing_kernels.h"
#include "sim/input/profile/table_machine.h"

namespace sim::calibrate {

namespace {

// The first GPUs of every node, `gpus` in all.
network::Groups over_nodes(int nodes, int gpus, int per_node) {
  network::Groups group;
  group.ranks.emplace_back();
  for (int i = 0; i < gpus; ++i) {
    const int each = gpus / nodes;
    group.ranks[0].push_back(i / each * per_node + i % each);
  }
  return group;
}

// The row's cluster, with as many nodes and the NICs that the row states. Sets `nodes` to the
// number of NVLink domains.
answer::Site* site_of_row(const CollectiveRow& row, answer::Sites& sites, Timing& t, int& nodes) {
  answer::Site* site = site_of(row.gpu, sites, t);
  if (site == nullptr) return nullptr;
  answer::SiteChange change;
  nodes = row.nodes;
  const int domain = site->machine.cluster.node.gpus;
  if (row.multi_node_nvlink) nodes = (row.gpus + domain - 1) / domain;
  std::string name = site->machine.cluster.name;
  if (nodes > 1) {
    const input::Machine* other = input::machine_on_network(site->machine, row.network);
    if (other != nullptr) name = other->cluster.name;
    if (other == nullptr && row.nics == 0 && !row.multi_node_nvlink) {
      t.reason = "the network between the nodes is not stated, or no cluster has it: '" +
                 row.network.substr(0, 80) + "'";
      return nullptr;
    }
    if (row.nics > 0) change.nics = row.nics, change.nic = row.nic;
    change.nodes = std::max(nodes, 2);
  }
  change.nccl_version = row.nccl_version;
  change.without_nvls = row.without_nvls || row.forced == "Ring";
  const Result<answer::Site*> own = sites.find(name, "", change);
  if (own && row.gpus % nodes == 0 && row.gpus / nodes <= (*own)->machine.cluster.node.gpus)
    return *own;
  t.reason = own ? fmt::format("{} GPUs on {} nodes of {}", row.gpus, nodes, name)
                 : own.errors().front().message;
  return nullptr;
}

}  // namespace

void time_collectives(const input::TableRow& row, answer::Sites& sites, std::vector<Timing>& out) {
  Timing& t = out.emplace_back();
  const CollectiveRow read = collective_row(row);
  t.group =
      fmt::format("{}, {} x{} on {}", read.gpu, collective::name(read.kind), read.gpus, read.nodes);
  const std::string carried = read.network.substr(0, read.network.find(" ("));
  if (!carried.empty())
    t.fabric = fmt::format("over {}{}", carried, read.nodes == 1 ? ", one node" : "");
  t.source = read.source;
  t.bytes = read.bytes;
  t.nodes = read.nodes;
  t.host_timed = read.host_timed;
  t.reason = read.reason;
  if (!t.reason.empty()) return;
  int nodes = 1;
  answer::Site* site = site_of_row(read, sites, t, nodes);
  if (site == nullptr) return;
  if (read.multi_node_nvlink) t.nodes = nodes;
  const network::Groups group = over_nodes(nodes, read.gpus, site->machine.cluster.node.gpus);
  const Result<network::Answer> answer = site->network->answer(read.kind, group, Bytes{read.bytes});
  if (!answer) {
    t.reason = answer.errors().front().message;
    return;
  }
  if (!read.forced.empty() && answer->algorithm != read.forced) {
    t.reason = fmt::format("algorithm forced to {}, where the model takes {}", read.forced,
                           answer->algorithm);
    return;
  }
  t.measured_us = read.measured_us;
  t.predicted_us = 1e6 * seconds(answer->duration);
  if (read.host_timed) t.predicted_us += 1e6 * seconds(site->profile.device.host.collective);
}

}  // namespace sim::calibrate
