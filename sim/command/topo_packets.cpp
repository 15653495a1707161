// topo_packets.cpp — `rehearse topo time --network ns-3`: what a packet-level simulator
// says about the same messages, and why it differs.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/command/topo.h"
#include "sim/core/text.h"
#include "sim/network/packet_check.h"
#include "sim/report/json.h"
#include "sim/report/table.h"

namespace sim::command {

int topo_packets(const topology::Cluster& cluster, const CollectiveAsked& asked, Globals globals) {
  if (asked.kind == collective::Kind::all_to_all)
    throw Stop{exit_usage, "--network ns-3: an alltoall has too many messages; another collective"};
  const std::vector<int>& gpus = asked.groups.front();
  int nodes = 1;
  for (const int gpu : gpus) nodes = std::max(nodes, gpu / cluster.node.gpus + 1);
  const topology::Routes routes(topology::first_nodes(cluster, nodes));
  // The largest array is refused before the others are simulated.
  need(network::packet_query(routes, asked.kind, gpus, static_cast<double>(asked.most)));
  network::Solver solver;
  report::Table table({"size", "rounds", "max-min us", "ns-3 us", "ratio", "headers us",
                       "connect us", "slow start us", "left us"});
  report::Json rows = report::Json::array();
  for (std::int64_t bytes = asked.least; bytes <= asked.most; bytes *= 2) {
    const network::PacketCheck c =
        need(network::packet_check(routes, solver, asked.kind, gpus, static_cast<double>(bytes)));
    const auto us = [](double seconds) { return fmt::format("{:.2f}", seconds * 1e6); };
    table.row({human(Bytes{bytes}), fmt::format("{}", c.rounds), us(c.max_min), us(c.packets),
               fmt::format("{:.3f}", c.packets / c.max_min), us(c.headers), us(c.start),
               us(c.slow_start), us(c.left())});
    rows.push_back({{"bytes", bytes},
                    {"rounds", c.rounds},
                    {"max_min_seconds", c.max_min},
                    {"ns3_seconds", c.packets},
                    {"headers_seconds", c.headers},
                    {"connect_seconds", c.start},
                    {"slow_start_seconds", c.slow_start},
                    {"left_seconds", c.left()}});
    if (bytes > asked.most / 2) break;
  }
  if (globals.json) {
    print(report::document("topo-packets", {{"collective", asked.name}, {"rows", rows}}).dump(2) +
          "\n");
    return exit_yes;
  }
  print(fmt::format("{} of {} GPUs on {}, packet by packet (ns-3)\n", asked.name, gpus.size(),
                    cluster.name) +
        table.text() +
        "max-min: the messages of the same rounds as they share the links, raw rates. ns-3 speaks "
        "TCP:\nheaders of 42 bytes on 1000, a connection for each message (connect, with the "
        "switches' store\nand forward and the last acknowledgement), windows that grow from ten "
        "segments (slow start).\n");
  return exit_yes;
}

}  // namespace sim::command
