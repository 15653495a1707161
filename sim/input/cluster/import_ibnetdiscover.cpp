// import_ibnetdiscover.cpp — reads ibnetdiscover's listing: switches, channel adapters, and the
// peer of each port.
//
//     Switch  41 "S-0002c9030060dc60"   # "leaf0" enhanced port 0 lid 4 lmc 0
//     [1]     "H-0002c90300f51b90"[1](2c90300f51b91)   # "node1 mlx5_0" lid 17 4xHDR
//
// Source: linux-rdma, infiniband-diags, ibnetdiscover(8).
#include <algorithm>
#include <map>

#include "sim/input/cluster/import.h"
#include "sim/input/cluster/import_text.h"
#include "sim/input/text/textproto.h"

namespace sim::input {
namespace {

// The text between the first two quotes at or after `from`.
std::string_view quoted(std::string_view line, std::size_t from = 0) {
  const std::size_t open = line.find('"', from);
  if (open == line.npos) return {};
  const std::size_t close = line.find('"', open + 1);
  if (close == line.npos) return {};
  return line.substr(open + 1, close - open - 1);
}

// Bytes per second of a width and speed such as 4xHDR; 0: not given.
double rate_of(std::string_view line) {
  const std::pair<std::string_view, double> lanes[] = {
      {"SDR", 0.25e9},  {"DDR", 0.5e9},  {"QDR", 1e9},    {"FDR", 1.7045e9},
      {"EDR", 3.125e9}, {"HDR", 6.25e9}, {"NDR", 12.5e9}, {"XDR", 25e9}};
  for (const std::string_view word : words_of(line)) {
    const std::size_t x = word.find('x');
    if (x == word.npos) continue;
    const int width = number_of(word.substr(0, x));
    for (const auto& [name, lane] : lanes) {
      if (width > 0 && width <= 12 && word.substr(x + 1).starts_with(name)) return width * lane;
    }
  }
  return 0;
}

struct Device {
  bool is_switch = false;
  std::string name;
  bool is_host = true;  // for adapters: belongs to a host
};

// True for adapters without a host: the aggregation node of a switch (SHARP), or an adapter whose
// name is still its model ("MT4123 ConnectX6   Mellanox Technologies"), because its node is off or
// not set up.
bool is_no_host(std::string_view description) {
  if (description.find("Aggregation Node") != description.npos) return true;
  return description.starts_with("MT") && description.size() > 2 && description[2] >= '0' &&
         description[2] <= '9' && description.find("Mellanox") != description.npos;
}

// The host of an adapter: "node1" for "node1 mlx5_0" and for "node1 HCA-1".
std::string host_name(std::string_view description, std::string_view guid) {
  const std::string_view word = description.substr(0, description.find(' '));
  return std::string(word.empty() ? guid : word);
}

struct Port {
  std::string from, to;
  double rate = 0;
  std::string peer;  // peer's description in the listing
};

struct Listing {
  std::map<std::string, Device> devices;  // by GUID
  std::vector<Port> ports;
};

// Adapters that appear only in a switch's ports are hosts too.
void add_unlisted_peers(Listing& listing) {
  for (const Port& port : listing.ports) {
    if (listing.devices.contains(port.to)) continue;
    const bool is_switch = port.to.starts_with("S-");
    listing.devices[port.to] = {is_switch, is_switch ? port.to : host_name(port.peer, port.to),
                                is_switch || !is_no_host(port.peer)};
  }
}

Result<Listing> read_listing(const std::string& text, const std::string& path) {
  Listing listing;
  Diagnostics problems;
  std::string here;
  const std::vector<std::string_view> lines = lines_of(text);
  for (std::size_t i = 0; i < lines.size() && problems.size() < max_problems; ++i) {
    const std::string_view line = lines[i];
    const std::size_t hash = std::min(line.find('#'), line.size());
    const bool is_switch = line.starts_with("Switch");
    if (is_switch || line.starts_with("Ca") || line.starts_with("Rt")) {
      here = quoted(line.substr(0, hash));
      if (here.empty()) {
        problems.push_back({at_line(path, i), "a device needs its GUID in quotes"});
        continue;
      }
      const std::string_view description = quoted(line, hash);
      listing.devices[here] = {is_switch,
                               is_switch ? std::string(description.empty() ? here : description)
                                         : host_name(description, here),
                               is_switch || !is_no_host(description)};
      if (listing.devices.size() > max_hosts)
        return Diagnostics{{at_line(path, i), fmt::format("more than {} devices", max_hosts)}};
    } else if (line.starts_with('[')) {
      const std::string_view peer = quoted(line.substr(0, hash));
      if (here.empty() || peer.empty()) {
        problems.push_back({at_line(path, i), here.empty()
                                                  ? "a port before the first device"
                                                  : "a port needs its peer's GUID in quotes"});
        continue;
      }
      listing.ports.push_back(
          {here, std::string(peer), rate_of(line.substr(hash)), std::string(quoted(line, hash))});
    }
  }
  if (listing.devices.empty() && problems.empty())
    problems.push_back({path, "no device is listed"});
  if (!problems.empty()) return problems;
  add_unlisted_peers(listing);
  return listing;
}

topology::Wiring wiring_of(const Listing& listing) {
  topology::Wiring wiring;
  std::map<std::string, int> number, host_number;
  for (const auto& [guid, device] : listing.devices) {
    if (!device.is_switch) continue;
    number[guid] = static_cast<int>(wiring.switches.size());
    wiring.switches.push_back(device.name);
  }
  for (const auto& [guid, device] : listing.devices) {
    if (device.is_switch || !device.is_host) continue;
    const auto [at, added] =
        host_number.try_emplace(device.name, static_cast<int>(wiring.hosts.size()));
    if (added) wiring.hosts.push_back(device.name);
    number[guid] = static_cast<int>(wiring.switches.size()) + at->second;
  }
  for (const Port& port : listing.ports) {
    // Both ends list a cable. Use the switch's line; of two switches, the first one's.
    const Device& to = listing.devices.at(port.to);
    const bool from_switch = listing.devices.at(port.from).is_switch;
    if (!from_switch || (to.is_switch && port.to < port.from)) continue;
    if (!to.is_host) continue;
    wiring.cables.push_back({number.at(port.from), number.at(port.to), port.rate});
  }
  return wiring;
}

}  // namespace

Result<Imported> import_ibnetdiscover(const std::string& text, const std::string& path) {
  const Result<Listing> listing = read_listing(text, path);
  if (!listing) return listing.errors();
  return Imported{"ibnetdiscover", std::nullopt, wiring_of(*listing)};
}

}  // namespace sim::input
