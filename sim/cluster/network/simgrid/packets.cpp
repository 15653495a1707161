#include "sim/cluster/network/simgrid/packets.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <simgrid/s4u.hpp>
#include <vector>

#include "sim/base/text.h"

namespace sim::network {
namespace {

namespace s4u = simgrid::s4u;

// ns-3 counts time in nanoseconds. TCP without timers does not depend on the length of a second, so
// time is slowed until a segment takes ten microseconds on the fastest cable.
constexpr double fastest_cable = 1e8;  // bytes per second

bool has_ns3() {
  return ::dlsym(RTLD_DEFAULT, "_Z27surf_network_model_init_NS3v") != nullptr;
}

std::string name_of(int vertex) {
  return "v" + std::to_string(vertex);
}

// SimGrid builds ns-3's routing tables only for platforms that it reads from a file.
std::string platform(const PacketQuery& query, double slower) {
  std::vector<bool> host(static_cast<std::size_t>(query.vertices), false);
  for (const PacketMessage& m : query.messages)
    host[static_cast<std::size_t>(m.from)] = host[static_cast<std::size_t>(m.to)] = true;
  std::string xml =
      "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
      "<platform version=\"4.1\">\n<zone id=\"z\" routing=\"Full\">\n";
  for (int v = 0; v < query.vertices; ++v) {
    const bool is_host = host[static_cast<std::size_t>(v)];
    xml += std::string(is_host ? "<host id=\"" : "<router id=\"") + name_of(v) + "\"" +
           (is_host ? " speed=\"1Gf\"/>\n" : "/>\n");
  }
  for (std::size_t i = 0; i < query.cables.size(); ++i) {
    const Cable& c = query.cables[i];
    xml += "<link id=\"l" + std::to_string(i) + "\" bandwidth=\"" +
           shortest(c.bytes_per_second / slower) + "Bps\" latency=\"" +
           shortest(c.latency * slower) + "s\"/>\n";
  }
  for (std::size_t i = 0; i < query.cables.size(); ++i) {
    const Cable& c = query.cables[i];
    xml += "<route src=\"" + name_of(c.a) + "\" dst=\"" + name_of(c.b) + "\"><link_ctn id=\"l" +
           std::to_string(i) + "\"/></route>\n";
  }
  return xml + "</zone>\n</platform>\n";
}

}  // namespace

std::variant<Finish, std::string> simulate_packets(const PacketQuery& query) {
  if (query.messages.empty()) return Finish{};
  if (!has_ns3())
    return std::string(
        "this SimGrid was built without ns-3; Debian's package libsimgrid-dev has it");
  const double fastest =
      std::ranges::max(query.cables, {}, &Cable::bytes_per_second).bytes_per_second;
  const double slower = std::max(1.0, fastest / fastest_cable);
  char program[] = "rehearse-network";
  char quiet[] = "--log=root.thres:critical";
  char model[] = "--cfg=network/model:ns-3";
  char tcp[] = "--cfg=ns3/TcpModel:NewReno";
  char* arguments[] = {program, quiet, model, tcp, nullptr};
  int count = 4;
  s4u::Engine engine(&count, arguments);

  const std::string xml = platform(query, slower);
  const int file = ::memfd_create("platform", 0);
  if (file < 0 || ::write(file, xml.data(), xml.size()) != static_cast<ssize_t>(xml.size()))
    return std::string("no memory for the platform");
  engine.load_platform("/proc/self/fd/" + std::to_string(file));
  ::close(file);

  Finish finish(query.messages.size(), 0);
  // Connections need the routing tables, which exist once an actor runs.
  s4u::Actor::create("rounds", engine.host_by_name(name_of(query.messages.front().from)), [&] {
    for (std::size_t i = 0; i < query.messages.size();) {
      std::vector<std::pair<std::size_t, s4u::CommPtr>> round;
      for (const int number = query.messages[i].round;
           i < query.messages.size() && query.messages[i].round == number; ++i) {
        const PacketMessage& m = query.messages[i];
        s4u::CommPtr comm = s4u::Comm::sendto_init(s4u::Host::by_name(name_of(m.from)),
                                                   s4u::Host::by_name(name_of(m.to)));
        comm->set_payload_size(static_cast<std::uint64_t>(m.bytes + 0.5));
        comm->vetoable_start();
        round.emplace_back(i, std::move(comm));
      }
      for (auto& [message, comm] : round) {
        comm->wait();
        finish[message] = comm->get_finish_time() / slower;
      }
    }
  });
  engine.run();
  return finish;
}

}  // namespace sim::network
