// ring-exchange.cpp — every rank sends one block to its right neighbour. This is one step of ring
// attention: keys and values travel around the ring while each rank works on its current block.
//
// Liu, Zaharia and Abbeel, "Ring Attention with Blockwise Transformers for Near-Infinite Context",
// ICLR 2024 (arXiv:2310.01889), algorithm 1.
#include "sim/cluster/collective/collective.h"

namespace sim::collective {

Rounds ring_exchange(int ranks) {
  if (ranks < 2) return {};
  Rounds rounds(1);
  for (int rank = 0; rank < ranks; ++rank) {
    rounds[0].push_back({rank, (rank + 1) % ranks, rank, 1, false});
  }
  return rounds;
}

}  // namespace sim::collective
