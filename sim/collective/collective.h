// collective.h — what a collective algorithm is: the rounds of messages that carry it out. A
// round's messages all start together; the next round starts on a rank when that rank's messages
// of this round have arrived.
//
// The buffer is cut into `ranks` equal chunks. An algorithm moves chunks; it never sees bytes,
// links or time.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace sim::collective {

enum class Kind : std::uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  broadcast,
  all_to_all,
  send_receive,   // one pipeline edge, one direction
  ring_exchange,  // every rank sends one block to its neighbour (ring attention's K/V step)
};

struct Message {
  int from, to;
  int first_chunk, chunks;  // a contiguous run, wrapping past the end
  bool reduce;              // add into the receiver's chunk, rather than replace it
};
using Round = std::vector<Message>;
using Rounds = std::vector<Round>;

struct Algorithm {
  std::string_view name;  // "ring all-reduce"
  Kind kind;
  std::string_view summary;
  std::string_view source;
  Rounds (*rounds)(int ranks);
};

std::span<const Algorithm> catalog();
std::string_view name(Kind kind);

}  // namespace sim::collective
