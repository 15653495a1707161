// packet_writer.h — appends packets to a Perfetto trace one by one, so a trace is never held in
// memory.
//
// Invariant: every packet belongs to a sequence. The first packet of a sequence clears its state,
// the others build on it. A name is written once per sequence and later referred to by its number.
//
// Format: perfetto.proto in this folder.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sim/output/output.h"

namespace rehearse::perfetto {
class TracePacket;
}

namespace sim::output {

// Appends a packet: field 1 of the message Trace, length and bytes. Sets the packet's sequence.
void append(Stream& file, ::rehearse::perfetto::TracePacket& packet, std::uint64_t sequence,
            bool first = false);

// The number of a name in its sequence; a new name is added to `packet`.
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
