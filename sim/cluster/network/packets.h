// packets.h — what a packet-level simulator is asked: cables between vertices, and messages that
// cross them in rounds; a round starts when every message of the round before has arrived.
//
// The simulator is ns-3 below SimGrid, and it speaks TCP: every message opens a connection, is cut
// into segments of 1000 bytes with 42 bytes of headers, starts slowly, and has ended when its last
// acknowledgement is back. On cables that nobody else uses that takes, exactly,
//
//     T = 4 L + sum over cables (s + c) + (n - 1) s_max + sum over k max(0, RTT - 10 2^k s_max)
//
// with L the latency of the way, s the time of a full segment (1042 bytes) on a cable, c that of
// the 163 bytes of connection set-up, n the segments, RTT = 2 L + sum over cables of s and of an
// acknowledgement's 44 bytes; the last sum is over the windows of slow start that end before the
// data do. Queues are without end, as in a fabric that never drops.
//
// NewReno: RFC 6582; initial window of ten segments: RFC 6928. SimGrid 3.32
// src/surf/network_ns3.cpp (segments of 1000 bytes, every segment acknowledged), ns-3.37.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/quantity.h"

namespace sim::network {

struct Cable {
  int a = 0, b = 0;  // vertices; both directions alike
  double bytes_per_second = 0;
  double latency = 0;  // seconds
  friend bool operator==(const Cable&, const Cable&) = default;
};

struct PacketMessage {
  int round = 0;
  int from = 0, to = 0;  // vertices
  double bytes = 0;
  friend bool operator==(const PacketMessage&, const PacketMessage&) = default;
};

// Invariants: vertices are in range and joined; messages are in order of their rounds and cross
// cables by the fewest vertices, which leaves one way.
struct PacketQuery {
  int vertices = 0;
  std::vector<Cable> cables;
  std::vector<PacketMessage> messages;
  friend bool operator==(const PacketQuery&, const PacketQuery&) = default;
};

constexpr int most_vertices = 512;

// Begins with a word that no other query begins with.
inline constexpr std::string_view packets_word = "packets";
std::string text(const PacketQuery& query);
Parsed<PacketQuery> parse_packets(std::string_view text);

// TCP as ns-3 runs it.
constexpr double segment_bytes = 1000, header_bytes = 42, set_up_bytes = 163, ack_bytes = 44;
constexpr int first_window = 10;  // segments

// One message on cables of its own, above: its parts.
struct TcpTime {
  double data = 0;        // bytes over the slowest cable, and the latency of the way
  double headers = 0;     // of the segments
  double start = 0;       // connection, store and forward, last acknowledgement
  double slow_start = 0;  // waiting for acknowledgements while the window is small
  double total() const { return data + headers + start + slow_start; }
};
TcpTime tcp_time(const std::vector<Cable>& way, double bytes);

}  // namespace sim::network
