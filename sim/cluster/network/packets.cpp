#include "sim/cluster/network/packets.h"

#include <algorithm>
#include <cmath>

#include "sim/base/text.h"
#include "sim/cluster/network/words.h"

namespace sim::network {
namespace {

bool within(double value, double least, double most) {
  return std::isfinite(value) && value >= least && value <= most;
}

}  // namespace

std::string text(const PacketQuery& query) {
  std::string out = std::string(packets_word) + " 1\nvertices " + std::to_string(query.vertices) +
                    "\ncables " + std::to_string(query.cables.size()) + "\n";
  for (const Cable& c : query.cables) {
    out += std::to_string(c.a) + " " + std::to_string(c.b) + " " + shortest(c.bytes_per_second) +
           " " + shortest(c.latency) + "\n";
  }
  out += "messages " + std::to_string(query.messages.size()) + "\n";
  for (const PacketMessage& m : query.messages) {
    out += std::to_string(m.round) + " " + std::to_string(m.from) + " " + std::to_string(m.to) +
           " " + shortest(m.bytes) + "\n";
  }
  return out;
}

Parsed<PacketQuery> parse_packets(std::string_view text) {
  Reader read(text);
  PacketQuery query;
  read.word(packets_word);
  if (read.number<int>() != 1) return "not a query of packets, version 1";
  read.word("vertices");
  query.vertices = read.number<int>();
  if (!read.good() || query.vertices < 2 || query.vertices > most_vertices)
    return "vertices: 2 to " + std::to_string(most_vertices);
  const auto vertex = [&](int v) { return v >= 0 && v < query.vertices; };
  read.word("cables");
  query.cables.resize(read.count());
  for (Cable& c : query.cables) {
    c.a = read.number<int>();
    c.b = read.number<int>();
    c.bytes_per_second = read.number<double>();
    c.latency = read.number<double>();
    if (!read.good() || !vertex(c.a) || !vertex(c.b) || c.a == c.b ||
        !within(c.bytes_per_second, 1, 1e15) || !within(c.latency, 0, 1e3))
      return "a cable is two vertices, a rate above 0 and a latency";
  }
  read.word("messages");
  query.messages.resize(read.count());
  int round = 0;
  for (PacketMessage& m : query.messages) {
    m.round = read.number<int>();
    m.from = read.number<int>();
    m.to = read.number<int>();
    m.bytes = read.number<double>();
    if (!read.good() || m.round < round || !vertex(m.from) || !vertex(m.to) || m.from == m.to ||
        !within(m.bytes, 1, 4e9))
      return "a message is a round, two vertices and bytes";
    round = m.round;
  }
  if (!read.at_end()) return "something follows the messages";
  return query;
}

TcpTime tcp_time(const std::vector<Cable>& way, double bytes) {
  const double segments = std::ceil(bytes / segment_bytes);
  // A full segment (if there is one) is stored and forwarded on each cable except the slowest.
  const double stored = std::min(bytes, segment_bytes);
  double latency = 0, slowest = 0, per_byte = 0;
  for (const Cable& c : way) {
    latency += c.latency;
    slowest = std::max(slowest, 1 / c.bytes_per_second);
    per_byte += 1 / c.bytes_per_second;
  }
  const double full = (segment_bytes + header_bytes) * slowest;
  TcpTime t;
  t.data = latency + bytes * slowest;
  t.headers = segments * header_bytes * slowest;
  t.start = 3 * latency + set_up_bytes * per_byte + (stored + header_bytes) * (per_byte - slowest);
  const double round_trip = 2 * latency + (segment_bytes + header_bytes + ack_bytes) * per_byte;
  double window = first_window;
  for (double sent = window; sent < segments; window *= 2, sent += window)
    t.slow_start += std::max(0.0, round_trip - window * full);
  return t;
}

}  // namespace sim::network
