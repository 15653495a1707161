#include "sim/output/perfetto/packet_writer.h"

#include <string>

#include "sim/output/perfetto/perfetto.pb.h"

namespace sim::output {
namespace {

constexpr std::uint32_t state_cleared = 1;
constexpr std::uint32_t needs_state = 2;

}  // namespace

void append(Stream& file, ::rehearse::perfetto::TracePacket& packet, std::uint64_t sequence,
            bool first) {
  packet.set_trusted_packet_sequence_id(static_cast<std::uint32_t>(sequence));
  packet.set_sequence_flags(first ? state_cleared : needs_state);
  std::string bytes;
  packet.SerializeToString(&bytes);
  std::string head = "\x0a";
  for (std::size_t n = bytes.size(); true; n >>= 7) {
    head += static_cast<char>((n & 0x7f) | (n > 0x7f ? 0x80 : 0));
    if (n <= 0x7f) break;
  }
  file.write(head);
  file.write(bytes);
}

}  // namespace sim::output
