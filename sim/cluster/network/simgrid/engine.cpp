#include "sim/cluster/network/simgrid/engine.h"

#include <xbt/log.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <simgrid/s4u.hpp>

namespace sim::network {
namespace {

namespace s4u = simgrid::s4u;

// SimGrid compares dates with an absolute tolerance (1e-9 s after the setting below) and uses whole
// bytes. Units are scaled so that the widest link and the longest flow give runs of 10^6 s. Both
// roundings are then below 1e-14 of the answer.
constexpr double widest_link = 1e9;
constexpr double longest_flow = 1e15;

void configure() {
  for (const char* setting :
       {"network/model:CM02", "network/TCP-gamma:0", "network/crosstraffic:0",
        "network/bandwidth-factor:1", "network/latency-factor:1", "network/weight-S:0",
        "maxmin/precision:1e-12", "surf/precision:1e-9"}) {
    s4u::Engine::set_config(setting);
  }
}

}  // namespace

Finish solve_with_simgrid(const Query& query) {
  if (query.flows.empty()) return {};
  const double capacity_unit = std::ranges::max(query.capacities) / widest_link;
  const double byte_unit = std::ranges::max(query.flows, {}, &Flow::bytes).bytes / longest_flow;

  char program[] = "rehearse-network";
  char quiet[] = "--log=root.thres:critical";
  char* arguments[] = {program, quiet, nullptr};
  int count = 2;
  s4u::Engine engine(&count, arguments);
  configure();

  // One zone per flow, so that routing tables stay linear in the number of flows.
  s4u::NetZone* root = s4u::create_empty_zone("root");
  std::vector<s4u::LinkInRoute> links;
  links.reserve(query.capacities.size());
  for (std::size_t i = 0; i < query.capacities.size(); ++i) {
    s4u::Link* link =
        root->create_link("l" + std::to_string(i), query.capacities[i] / capacity_unit);
    link->set_latency(0.0)->seal();
    links.emplace_back(link);
  }
  std::vector<s4u::CommPtr> transfers;
  for (std::size_t i = 0; i < query.flows.size(); ++i) {
    const std::string id = std::to_string(i);
    s4u::NetZone* zone = s4u::create_full_zone("z" + id);
    zone->set_parent(root);
    s4u::Host* from = zone->create_host("a" + id, 1.0);
    s4u::Host* to = zone->create_host("b" + id, 1.0);
    std::vector<s4u::LinkInRoute> route;  // a link of weight w is crossed w times
    for (const Use& use : query.flows[i].uses) {
      route.insert(route.end(), static_cast<std::size_t>(use.weight),
                   links[static_cast<std::size_t>(use.link)]);
    }
    zone->add_route(from->get_netpoint(), to->get_netpoint(), nullptr, nullptr, route, false);
    zone->seal();
    s4u::CommPtr transfer = s4u::Comm::sendto_init(from, to);
    transfer->set_payload_size(
        static_cast<std::uint64_t>(std::llround(query.flows[i].bytes / byte_unit)));
    transfers.push_back(std::move(transfer));
  }
  root->seal();
  for (const s4u::CommPtr& transfer : transfers) transfer->vetoable_start();
  engine.run();

  Finish finish;
  for (const s4u::CommPtr& transfer : transfers) {
    finish.push_back(transfer->get_finish_time() * (byte_unit / capacity_unit));
  }
  return finish;
}

}  // namespace sim::network
