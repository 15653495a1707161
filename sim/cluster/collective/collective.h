// collective.h — collective algorithms as rounds of messages. All messages of a round start
// together. A rank starts the next round when its messages of this round have arrived.
//
// Packet simulation sends the rounds message by message, to check the fluid model
// (cluster/network/packet_check.cpp). The functions at the end count bytes and steps of the rounds.
// Tests check the rounds against the definition of each collective. Rounds do not decide the time
// of a training step: network.h computes it from NCCL's cost model and solved rates.
//
// The buffer is divided into `ranks` equal chunks. An algorithm moves chunks and never sees bytes,
// links or time. Each kind defines what a rank holds before and after:
//
//     all_reduce      its share of every chunk          every chunk, summed over all ranks
//     reduce_scatter  its share of every chunk          chunk r on rank r, summed over all ranks
//     all_gather      chunk r on rank r                 every chunk
//     broadcast       every chunk on rank 0             every chunk
//     all_to_all      a chunk for each rank             the chunk that each rank has for it
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
  bool reduce;              // adds to the receiver's chunk instead of replacing it
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

// Bytes that each edge of a ring carries, per byte of the whole array: nccl-tests' factor from
// algorithm to bus bandwidth (NVIDIA/nccl-tests doc/PERFORMANCE.md). All-reduce: 2(n-1)/n;
// all-gather, reduce-scatter and all-to-all: (n-1)/n; others: 1. REQUIRES: ranks >= 1.
double bus_factor(Kind kind, int ranks);

// Sequential steps of a ring: all-reduce 2(n-1); all-gather, reduce-scatter, all-to-all and
// broadcast n-1; one exchange 1. A ring of one rank has no steps.
int ring_steps(Kind kind, int ranks);

}  // namespace sim::collective
