// topo_packets.cpp — `rehearse topo time --network ns-3`: simulates the same messages packet by
// packet and explains the difference.
#include <fmt/format.h>

#include <algorithm>

#include "sim/cluster/network/packet_check.h"
#include "sim/command/topo/topo.h"
#include "sim/output/document.h"

namespace sim::command {

int topo_packets(const topology::Cluster& cluster, const CollectiveAsked& asked, Globals globals) {
  const network::Groups groups{asked.groups};
  std::size_t gpus = 0;
  int nodes = 1;
  for (const std::vector<int>& group : asked.groups) {
    gpus += group.size();
    for (const int gpu : group) nodes = std::max(nodes, gpu / cluster.node.gpus + 1);
  }
  const topology::Routes routes(topology::first_nodes(cluster, nodes));
  // Checks the largest array before simulating the others.
  need(network::packet_query(routes, asked.kind, groups, static_cast<double>(asked.most)));
  network::Solver solver;
  const auto us = [](const char* key, const char* heading) {
    return output::Column{key, heading, "us", 2, false, "", 1e6};
  };
  output::Rows rows{
      "rows",
      fmt::format("{} of {} GPUs on {}, packet by packet (ns-3)", asked.name, gpus, cluster.name),
      {{"bytes", "size", "", 0, false, "", 1, output::Show::bytes},
       {"rounds", "rounds", ""},
       us("max_min_seconds", "max-min"),
       us("ns3_seconds", "ns-3"),
       {"ratio", "ratio", "", 3},
       us("headers_seconds", "headers"),
       us("connect_seconds", "connect"),
       us("slow_start_seconds", "slow start"),
       us("left_seconds", "left")},
      {}};
  for (std::int64_t bytes = asked.least; bytes <= asked.most; bytes *= 2) {
    const network::PacketCheck c =
        need(network::packet_check(routes, solver, asked.kind, groups, static_cast<double>(bytes)));
    rows.cells.push_back({bytes, c.rounds, c.max_min, c.packets, c.packets / c.max_min, c.headers,
                          c.start, c.slow_start, c.left()});
    if (bytes > asked.most / 2) break;
  }
  rows.footnote =
      "max-min: the messages of the same rounds as they share the links, raw rates. ns-3 speaks "
      "TCP:\nheaders of 42 bytes on 1000, a connection for each message (connect, with the "
      "switches' store\nand forward and the last acknowledgement), windows that grow from ten "
      "segments (slow start).\n";
  output::Document document;
  document.blocks.emplace_back(output::Values{"", {output::value("collective", "", asked.name)}});
  document.blocks.emplace_back(std::move(rows));
  say(globals, "topo-packets", document);
  return exit_yes;
}

}  // namespace sim::command
