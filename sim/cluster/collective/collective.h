// collective.h — what a collective algorithm is: the rounds of messages that carry it out. A
// round's messages all start together; the next round starts on a rank when that rank's messages
// of this round have arrived.
//
// What the rounds are for: packets (cluster/network/packet_check.cpp) send them message by message,
// to hold the fluid answer against; the counts below are theirs; tests hold rounds to what a
// collective is. How long one lasts in a step is NCCL's own cost model on solved rates
// (cluster/network/cost.h, flows.h), which picks among NCCL's algorithms and knows no other: a row
// added here changes no step time.
//
// The buffer is cut into `ranks` equal chunks. An algorithm moves chunks; it never sees bytes,
// links or time. What a rank starts and ends with, by kind:
//
//     all_reduce      its share of every chunk          every chunk, summed over all ranks
//     reduce_scatter  its share of every chunk          chunk r on rank r, summed over all ranks
//     all_gather      chunk r on rank r                 every chunk
//     broadcast       every chunk on rank 0             every chunk
//     send_receive    every chunk                       also those of rank r - 1 (not rank 0)
//     ring_exchange   chunk r on rank r                 also chunk r - 1, of its left neighbour
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
  std::string_view name;  // "ring-all-reduce", also the stem of its file
  Kind kind;
  std::string_view summary;
  std::string_view source;
  Rounds (*rounds)(int ranks);
};

std::span<const Algorithm> catalog();
const Algorithm* find(std::string_view name);  // nullptr when there is none
std::string_view name(Kind kind);

// Bytes that every edge of a ring carries, per byte of the whole array: nccl-tests' factor between
// algorithm and bus bandwidth (NVIDIA/nccl-tests doc/PERFORMANCE.md). All-reduce 2(n-1)/n,
// all-gather, reduce-scatter and all-to-all (n-1)/n, the others 1. REQUIRES: ranks >= 1.
double bus_factor(Kind kind, int ranks);

// Steps one after the other that a ring takes: all-reduce 2(n-1), all-gather, reduce-scatter and
// all-to-all n-1, broadcast n-1, one exchange 1. A ring of one rank takes none.
int ring_steps(Kind kind, int ranks);

}  // namespace sim::collective
