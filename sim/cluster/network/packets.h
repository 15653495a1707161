// packets.h — a query for a packet-level simulator: cables between vertices, and messages that
// cross them in rounds. A round starts when every message of the previous round has arrived.
//
// The simulator is ns-3 below SimGrid, and it uses TCP. Every message opens a connection and is cut
// into segments of 1000 bytes with 42 bytes of headers. It starts slowly and ends when its last
// acknowledgement is back. On otherwise idle cables this takes exactly
//
//     T = 4 L + sum over cables (s + c) + (n - 1) s_max + sum over k max(0, RTT - 10 2^k s_max)
//
// L is the latency of the path and n the number of segments. On a cable, s is the time of a full
// segment (1042 bytes), and c the time of the 163 bytes of connection set-up. RTT = 2 L + sum over
// cables of s and of an acknowledgement's 44 bytes. The last sum is over the windows of slow start
// that end before the data do. Queues are unlimited, as in a fabric that never drops.
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
  int a = 0, b = 0;  // vertices; both directions are equal
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

// Invariants: vertices are in range and connected. Messages are sorted by round and cross cables on
// the path with the fewest vertices, which is unique.
struct PacketQuery {
  int vertices = 0;
  std::vector<Cable> cables;
  std::vector<PacketMessage> messages;
  friend bool operator==(const PacketQuery&, const PacketQuery&) = default;
};

constexpr int most_vertices = 512;

// The first word of such a query; no other query begins with it.
inline constexpr std::string_view packets_word = "packets";
std::string text(const PacketQuery& query);
Parsed<PacketQuery> parse_packets(std::string_view text);

// The constants of TCP in ns-3.
constexpr double segment_bytes = 1000, header_bytes = 42, set_up_bytes = 163, ack_bytes = 44;
constexpr int first_window = 10;  // segments

// The parts of a message's time on otherwise idle cables (formula above).
struct TcpTime {
  double data = 0;        // bytes over the slowest cable, and the latency of the path
  double headers = 0;     // of the segments
  double start = 0;       // connection, store and forward, last acknowledgement
  double slow_start = 0;  // waiting for acknowledgements while the window is small
  double total() const { return data + headers + start + slow_start; }
};
TcpTime tcp_time(const std::vector<Cable>& way, double bytes);

}  // namespace sim::network
