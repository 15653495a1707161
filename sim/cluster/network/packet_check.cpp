#include "sim/cluster/network/packet_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <map>
#include <tuple>

#include "sim/cluster/network/flows.h"
#include "sim/cluster/network/layout.h"

namespace sim::network {
namespace {

using collective::Kind;

// A message of the algorithm, and the links of its path.
struct Sent {
  std::vector<int> links;
  double bytes = 0;
};
using SentRound = std::vector<Sent>;

const collective::Algorithm& algorithm_of(Kind kind) {
  const auto all = collective::catalog();
  const auto found = std::ranges::find(all, kind, &collective::Algorithm::kind);
  assert(found != all.end());
  return *found;
}

// An all-to-all as NCCL sends it: each rank to its next peers, some at once (NCCL's work batch).
collective::Rounds all_to_all(int ranks) {
  constexpr int at_once = 8;
  collective::Rounds rounds;
  for (int step = 1; step < ranks; ++step) {
    if ((step - 1) % at_once == 0) rounds.emplace_back();
    for (int rank = 0; rank < ranks; ++rank)
      rounds.back().push_back({rank, (rank + step) % ranks, 0, 1, false});
  }
  return rounds;
}

collective::Rounds rounds_of(Kind kind, int ranks) {
  return kind == Kind::all_to_all ? all_to_all(ranks) : algorithm_of(kind).rounds(ranks);
}

// The rounds of all groups; those with the same number start together.
std::vector<SentRound> rounds_of(const topology::Routes& routes, Kind kind, const Groups& groups,
                                 double bytes) {
  // A message of send_receive and ring_exchange is the whole array; other kinds divide the array.
  const bool whole = kind == Kind::send_receive || kind == Kind::ring_exchange;
  std::map<std::pair<int, int>, std::vector<int>> ways;  // by GPUs
  LinkPlaces places;
  std::vector<SentRound> all;
  for (const std::vector<int>& gpus : groups.ranks) {
    const int ranks = static_cast<int>(gpus.size());
    const collective::Rounds rounds = rounds_of(kind, ranks);
    all.resize(std::max(all.size(), rounds.size()));
    for (std::size_t r = 0; r < rounds.size(); ++r) {
      for (const collective::Message& m : rounds[r]) {
        const std::vector<int> pair = {gpus[static_cast<std::size_t>(m.from)],
                                       gpus[static_cast<std::size_t>(m.to)]};
        std::vector<int>& way = ways[{pair[0], pair[1]}];
        if (way.empty()) {
          const Traffic one = traffic(Pattern::sends, {spread(pair, routes.cluster())}, {pair},
                                      routes, Achieved{}, 1, places, Of::all_nodes);
          for (const Use& use : one.query.flows.front().uses)
            way.push_back(one.links[static_cast<std::size_t>(use.link)]);
        }
        const double size = whole ? bytes : bytes * m.chunks / ranks;
        all[r].push_back({way, std::max(1.0, std::round(size))});
      }
    }
  }
  return all;
}

// The other direction of a cable.
int reverse(int link) {
  return link ^ 1;
}

// The vertices and cables that the messages use, renumbered.
class Map {
 public:
  explicit Map(const topology::Routes& routes) : routes_(routes) {}

  // The vertices of a path, from the first to the last.
  std::vector<int> add(const std::vector<int>& way) {
    std::vector<int> passed = {vertex(routes_.source(way.front()))};
    for (const int link : way) {
      const int a = passed.back(), b = vertex(routes_.target(link));
      passed.push_back(b);
      const auto [at, added] = cables_.try_emplace(std::pair<int, int>(std::minmax(a, b)),
                                                   static_cast<int>(query.cables.size()));
      if (added) {
        const topology::Link& up = routes_.link(link);
        const double both = seconds(up.latency) + seconds(routes_.link(reverse(link)).latency);
        query.cables.push_back({a, b, static_cast<double>(up.capacity.bytes_per_second), both / 2});
      }
    }
    return passed;
  }

  std::vector<Cable> cables_of(const std::vector<int>& passed) const {
    std::vector<Cable> all;
    for (std::size_t i = 1; i < passed.size(); ++i)
      all.push_back(
          query
              .cables[static_cast<std::size_t>(cables_.at(std::minmax(passed[i - 1], passed[i])))]);
    return all;
  }

  // Whether the path is the only one with the fewest cables.
  bool only_way(const std::vector<int>& passed) const {
    std::vector<std::vector<int>> next(static_cast<std::size_t>(query.vertices));
    for (const Cable& c : query.cables) {
      next[static_cast<std::size_t>(c.a)].push_back(c.b);
      next[static_cast<std::size_t>(c.b)].push_back(c.a);
    }
    std::vector<int> distance(next.size(), -1), ways(next.size(), 0), queue = {passed.front()};
    distance[static_cast<std::size_t>(passed.front())] = 0;
    ways[static_cast<std::size_t>(passed.front())] = 1;
    for (std::size_t i = 0; i < queue.size(); ++i) {
      const auto v = static_cast<std::size_t>(queue[i]);
      for (const int w : next[v]) {
        const auto to = static_cast<std::size_t>(w);
        if (distance[to] < 0) {
          distance[to] = distance[v] + 1;
          queue.push_back(w);
        }
        if (distance[to] == distance[v] + 1) ways[to] = std::min(2, ways[to] + ways[v]);
      }
    }
    const auto last = static_cast<std::size_t>(passed.back());
    return distance[last] + 1 == std::ssize(passed) && ways[last] == 1;
  }

  PacketQuery query;

 private:
  int vertex(const topology::Vertex& v) {
    const auto [at, added] =
        vertices_.try_emplace(std::tuple{v.kind, v.node, v.index}, query.vertices);
    query.vertices += added ? 1 : 0;
    return at->second;
  }

  const topology::Routes& routes_;
  std::map<std::tuple<topology::VertexKind, int, int>, int> vertices_;
  std::map<std::pair<int, int>, int> cables_;
};

Diagnostics refuse(std::string why) {
  return {{"network", std::move(why)}};
}

struct PacketCase {
  std::vector<SentRound> rounds;
  Map map;
  std::vector<std::vector<int>> passed;  // of each message, in order
};

Result<PacketCase> ask(const topology::Routes& routes, Kind kind, const Groups& groups,
                       double bytes) {
  std::size_t gpus = 0;
  for (const std::vector<int>& group : groups.ranks) gpus += group.size();
  if (gpus > 64)  // some thousand messages
    return refuse(
        fmt::format("{} GPUs are more than the 64 that are simulated packet by packet", gpus));
  PacketCase asked{rounds_of(routes, kind, groups, bytes), Map(routes), {}};
  PacketQuery& query = asked.map.query;
  double hops = 0;
  for (std::size_t r = 0; r < asked.rounds.size(); ++r) {
    for (const Sent& sent : asked.rounds[r]) {
      for (const int link : sent.links) {
        if (routes.link(link).kind == topology::LinkKind::measured)
          return refuse("ns-3 has cables; rates measured between nodes are none");
      }
      asked.passed.push_back(asked.map.add(sent.links));
      const std::vector<int>& passed = asked.passed.back();
      query.messages.push_back({static_cast<int>(r), passed.front(), passed.back(), sent.bytes});
      hops += std::ceil(sent.bytes / segment_bytes) * static_cast<double>(sent.links.size());
    }
    if (hops > most_packet_hops)
      return refuse(
          fmt::format("more than {:.0f} packets over a cable; smaller arrays or fewer "
                      "GPUs, for ns-3 follows each packet",
                      most_packet_hops));
  }
  if (query.vertices > most_vertices)
    return refuse(
        fmt::format("{} GPUs, NICs and switches are more than the {} that are simulated "
                    "packet by packet",
                    query.vertices, most_vertices));
  for (const std::vector<int>& passed : asked.passed) {
    if (!asked.map.only_way(passed))
      return refuse("ns-3 takes the fewest cables, and for some message that is another way");
  }
  return asked;
}

}  // namespace

Result<PacketQuery> packet_query(const topology::Routes& routes, Kind kind, const Groups& groups,
                                 double bytes) {
  const Result<PacketCase> asked = ask(routes, kind, groups, bytes);
  if (!asked) return asked.errors();
  return asked->map.query;
}

Result<PacketCheck> packet_check(const topology::Routes& routes, Solver& solver, Kind kind,
                                 const Groups& groups, double bytes) {
  const Result<PacketCase> asked = ask(routes, kind, groups, bytes);
  if (!asked) return asked.errors();
  const Result<Finish> finish = solver.simulate(asked->map.query);
  if (!finish) return finish.errors();
  PacketCheck check;
  check.rounds = static_cast<int>(asked->rounds.size());
  std::size_t message = 0;
  for (const SentRound& round : asked->rounds) {
    Query query;
    std::map<int, int> places;
    for (const Sent& sent : round) {
      Flow& flow = query.flows.emplace_back();
      flow.bytes = sent.bytes;
      for (const int link : sent.links) {
        const auto [at, added] =
            places.try_emplace(link, static_cast<int>(query.capacities.size()));
        if (added)
          query.capacities.push_back(
              static_cast<double>(routes.link(link).capacity.bytes_per_second));
        flow.uses.push_back({at->second, 1});
      }
    }
    const Result<Finish> shared = solver.solve(query);
    if (!shared) return shared.errors();
    double last = 0, headers = 0;
    TcpTime slowest;
    for (std::size_t i = 0; i < round.size(); ++i, ++message) {
      const std::vector<Cable> way = asked->map.cables_of(asked->passed[message]);
      double latency = 0;
      for (const Cable& c : way) latency += c.latency;
      const double arrived = (*shared)[i] + latency;
      if (arrived <= last) continue;
      last = arrived;
      slowest = tcp_time(way, round[i].bytes);
      // Headers share the cables in the same way as their data.
      const double segments = std::ceil(round[i].bytes / segment_bytes);
      headers = (*shared)[i] * segments * header_bytes / round[i].bytes;
    }
    check.max_min += last;
    check.headers += headers;
    check.start += slowest.start;
    check.slow_start += slowest.slow_start;
  }
  check.packets = *std::ranges::max_element(*finish);
  return check;
}

}  // namespace sim::network
