// packet_writer.h — appends packets to a Perfetto trace, one after the other, so that no trace is
// held in memory.
//
// Invariant: every packet belongs to a sequence. The first packet of one clears its state, the
// others build on it. A name is written once in a sequence and meant by its number afterwards.
//
// Format: perfetto.proto beside this file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sim/output/output.h"

namespace rehearse::perfetto {
class TracePacket;
}

namespace sim::output {

// A packet as a trace file holds it: field 1 of the message Trace, length and bytes. Sets the
// packet's sequence.
void append(Stream& file, ::rehearse::perfetto::TracePacket& packet, std::uint64_t sequence,
            bool first = false);

// The number of a name in its sequence; a new one is added to `packet`.
template <class Names, class Add>
std::uint64_t number_of(Names& names, std::string_view name, Add add) {
  const auto there = names.find(name);
  if (there != names.end()) return there->second;
  const std::uint64_t number = names.size() + 1;
  names.emplace(std::string(name), number);
  auto* interned = add();
  interned->set_iid(number);
  interned->set_name(std::string(name));
  return number;
}

}  // namespace sim::output
