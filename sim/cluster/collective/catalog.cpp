// catalog.cpp — every collective algorithm, in one table.
//
// To add one: write collective/<name>.cpp, then add its two lines here. `list collectives` and the
// shared tests of algorithms read this table. Step times do not depend on it (collective.h).
#include <array>
#include <cassert>

#include "sim/cluster/collective/collective.h"

namespace sim::collective {

Rounds ring_all_gather(int ranks);
Rounds ring_reduce_scatter(int ranks);
Rounds ring_all_reduce(int ranks);
Rounds tree_all_reduce(int ranks);
Rounds ring_broadcast(int ranks);
Rounds point_to_point(int ranks);
Rounds ring_exchange(int ranks);

std::span<const Algorithm> catalog() {
  static constexpr std::array table{
      Algorithm{"ring-all-gather", Kind::all_gather, "chunks go once around a ring",
                "Patarasuk and Yuan 2009; NCCL", ring_all_gather},
      Algorithm{"ring-reduce-scatter", Kind::reduce_scatter, "sums collect once around a ring",
                "Patarasuk and Yuan 2009; NCCL", ring_reduce_scatter},
      Algorithm{"ring-all-reduce", Kind::all_reduce, "reduce-scatter, then all-gather on a ring",
                "Patarasuk and Yuan 2009; NCCL", ring_all_reduce},
      Algorithm{"tree-all-reduce", Kind::all_reduce,
                "up and down two binary trees, half of the data on each",
                "Sanders, Speck and Traeff 2009; NCCL", tree_all_reduce},
      Algorithm{"ring-broadcast", Kind::broadcast, "pieces go down a chain from rank 0", "NCCL",
                ring_broadcast},
      Algorithm{"point-to-point", Kind::send_receive, "every rank sends to the next one, at once",
                "NCCL", point_to_point},
      Algorithm{"ring-exchange", Kind::ring_exchange,
                "every rank sends one block to its right neighbour", "arXiv:2310.01889",
                ring_exchange},
  };
  return table;
}

const Algorithm* find(std::string_view name) {
  for (const Algorithm& algorithm : catalog()) {
    if (algorithm.name == name) return &algorithm;
  }
  return nullptr;
}

std::string_view name(Kind kind) {
  constexpr std::array<std::string_view, 7> names = {"all-reduce",   "all-gather", "reduce-scatter",
                                                     "broadcast",    "all-to-all", "send-receive",
                                                     "ring-exchange"};
  return names[static_cast<std::size_t>(kind)];
}

double bus_factor(Kind kind, int ranks) {
  assert(ranks >= 1);
  const double n = ranks;
  switch (kind) {
    case Kind::all_reduce:
      return 2.0 * (n - 1.0) / n;
    case Kind::all_gather:
    case Kind::reduce_scatter:
    case Kind::all_to_all:
      return (n - 1.0) / n;
    case Kind::broadcast:
    case Kind::send_receive:
    case Kind::ring_exchange:
      break;
  }
  return 1.0;
}

int ring_steps(Kind kind, int ranks) {
  assert(ranks >= 1);
  if (kind == Kind::all_reduce) return 2 * (ranks - 1);
  if (kind == Kind::send_receive || kind == Kind::ring_exchange) return ranks > 1 ? 1 : 0;
  return ranks - 1;
}

}  // namespace sim::collective
