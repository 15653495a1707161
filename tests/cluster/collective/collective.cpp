// collective.cpp — runs every algorithm of the catalog on symbolic chunks. It checks that each rank
// ends with the right contributions, each exactly once.
#include "sim/cluster/collective/collective.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>

#include "sim/cluster/collective/tree.h"

using namespace sim::collective;

namespace {

// The number of times each rank's contribution is in a chunk: count[contributor].
using Chunk = std::vector<int>;
using Buffers = std::vector<std::vector<Chunk>>;  // [rank][chunk]

Chunk one(int ranks, int contributor) {
  Chunk chunk(static_cast<std::size_t>(ranks), 0);
  chunk[static_cast<std::size_t>(contributor)] = 1;
  return chunk;
}

Buffers before(Kind kind, int ranks) {
  const Chunk nothing(static_cast<std::size_t>(ranks), 0);
  Buffers all(static_cast<std::size_t>(ranks),
              std::vector<Chunk>(static_cast<std::size_t>(ranks), nothing));
  for (int rank = 0; rank < ranks; ++rank) {
    for (int chunk = 0; chunk < ranks; ++chunk) {
      bool holds = true;
      if (kind == Kind::all_gather || kind == Kind::ring_exchange) holds = chunk == rank;
      if (kind == Kind::broadcast) holds = rank == 0;
      if (holds)
        all[static_cast<std::size_t>(rank)][static_cast<std::size_t>(chunk)] = one(ranks, rank);
    }
  }
  return all;
}

// The contributions that a chunk must have afterwards; empty: any.
Chunk wanted(Kind kind, int ranks, int rank, int chunk) {
  const Chunk sum(static_cast<std::size_t>(ranks), 1);
  const int left = (rank + ranks - 1) % ranks;
  switch (kind) {
    case Kind::all_reduce:
      return sum;
    case Kind::reduce_scatter:
      return chunk == rank ? sum : Chunk{};
    case Kind::all_gather:
      return one(ranks, chunk);
    case Kind::broadcast:
      return one(ranks, 0);
    case Kind::send_receive:
      return one(ranks, std::max(0, rank - 1));
    case Kind::ring_exchange:
      return chunk == rank || chunk == left ? one(ranks, chunk) : Chunk{};
    case Kind::all_to_all:
      break;
  }
  return {};
}

// Runs the rounds; all messages of a round read the state before it.
Buffers run(const Algorithm& algorithm, int ranks) {
  Buffers now = before(algorithm.kind, ranks);
  for (const Round& round : algorithm.rounds(ranks)) {
    const Buffers was = now;
    for (const Message& m : round) {
      REQUIRE(m.from != m.to);
      REQUIRE(std::min(m.from, m.to) >= 0);
      REQUIRE(std::max(m.from, m.to) < ranks);
      REQUIRE(m.chunks <= ranks);
      for (int i = 0; i < m.chunks; ++i) {
        const auto c = static_cast<std::size_t>((m.first_chunk + i) % ranks);
        const Chunk& sent = was[static_cast<std::size_t>(m.from)][c];
        Chunk& target = now[static_cast<std::size_t>(m.to)][c];
        if (!m.reduce) target = sent;
        for (std::size_t r = 0; m.reduce && r < sent.size(); ++r) target[r] += sent[r];
      }
    }
  }
  return now;
}

int chunks_sent(const Rounds& rounds, int rank = -1) {
  int sum = 0;
  for (const Round& round : rounds) {
    for (const Message& m : round) sum += rank < 0 || m.from == rank ? m.chunks : 0;
  }
  return sum;
}

}  // namespace

TEST_CASE("collective: every algorithm leaves every contribution exactly once where it belongs") {
  for (const Algorithm& algorithm : catalog()) {
    for (int n = 1; n <= 17; ++n) {
      INFO(algorithm.name << " on " << n << " ranks");
      const Buffers after = run(algorithm, n);
      for (int rank = 0; rank < n; ++rank) {
        for (int chunk = 0; chunk < n; ++chunk) {
          const Chunk expected = wanted(algorithm.kind, n, rank, chunk);
          if (expected.empty()) continue;
          REQUIRE(after[static_cast<std::size_t>(rank)][static_cast<std::size_t>(chunk)] ==
                  expected);
        }
      }
    }
  }
}

TEST_CASE("collective: rings send the lower bound of chunks from every rank") {
  // All-reduce 2(n-1) chunks of S/n, reduce-scatter and all-gather n-1, in as many rounds.
  const std::map<std::string_view, int> passes = {
      {"ring-all-reduce", 2}, {"ring-all-gather", 1}, {"ring-reduce-scatter", 1}};
  for (const auto& [name, count] : passes) {
    const Algorithm* algorithm = find(name);
    REQUIRE(algorithm != nullptr);
    for (int n = 1; n <= 17; ++n) {
      const Rounds rounds = algorithm->rounds(n);
      CHECK(static_cast<int>(rounds.size()) == ring_steps(algorithm->kind, n));
      for (int rank = 0; rank < n; ++rank) CHECK(chunks_sent(rounds, rank) == count * (n - 1));
      // The factor of the bus bandwidth is the same bound in units of the buffer.
      CHECK(bus_factor(algorithm->kind, n) == Approx(count * (n - 1.0) / n));
    }
  }
}

TEST_CASE("collective: a ring's all-reduce is its reduce-scatter and then its all-gather") {
  const auto same = [](const Round& a, const Round& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const Message& x, const Message& y) {
                        return x.from == y.from && x.to == y.to && x.first_chunk == y.first_chunk &&
                               x.chunks == y.chunks && x.reduce == y.reduce;
                      });
  };
  for (int n = 1; n <= 17; ++n) {
    INFO(n << " ranks");
    const Rounds both = find("ring-all-reduce")->rounds(n);
    Rounds one = find("ring-reduce-scatter")->rounds(n);
    const Rounds two = find("ring-all-gather")->rounds(n);
    one.insert(one.end(), two.begin(), two.end());
    CHECK(std::equal(both.begin(), both.end(), one.begin(), one.end(), same));
  }
}

TEST_CASE("collective: the tree moves as much in total in a logarithmic number of rounds") {
  const Algorithm* tree = find("tree-all-reduce");
  REQUIRE(tree != nullptr);
  for (int n = 2; n <= 17; ++n) {
    const Rounds rounds = tree->rounds(n);
    CHECK(chunks_sent(rounds) == n * 2 * (n - 1));  // n chunks, 2(n-1) hops each
    int log2 = 0;
    while ((2 << log2) <= n) ++log2;
    CHECK(static_cast<int>(rounds.size()) <= 2 * (log2 + 1));
  }
}

TEST_CASE("collective: broadcast and exchanges send no chunk twice to a rank") {
  for (int n = 1; n <= 17; ++n) {
    CHECK(chunks_sent(find("ring-broadcast")->rounds(n)) == n * (n - 1));
    CHECK(chunks_sent(find("point-to-point")->rounds(n)) == n * (n - 1));
    CHECK(chunks_sent(find("ring-exchange")->rounds(n)) == (n > 1 ? n : 0));
  }
}

TEST_CASE("collective: the double binary tree of eight ranks is NCCL's picture") {
  // nccl trees.cc, 8 ranks: 0 <- 4 <- {2 <- {1 3} 6 <- {5 7}}, and its mirror.
  const auto trees = double_binary_tree(8);
  CHECK(trees[0] == Tree{-1, 2, 4, 2, 0, 6, 4, 6});
  CHECK(trees[1] == Tree{1, 3, 1, 7, 5, 3, 5, -1});
}

TEST_CASE("collective: a rank with children in one tree is a leaf in the other") {
  for (int n = 2; n <= 64; ++n) {
    const auto trees = double_binary_tree(n);
    for (int rank = 0; rank < n; ++rank) {
      INFO("rank " << rank << " of " << n);
      const auto first = std::count(trees[0].begin(), trees[0].end(), rank);
      const auto second = std::count(trees[1].begin(), trees[1].end(), rank);
      CHECK(first <= 2);
      CHECK(second <= 2);
      if (n % 2 == 0 || rank != 0) CHECK((first == 0 || second == 0));
    }
  }
}

TEST_CASE("collective: every algorithm is a file of its name") {
  for (const Algorithm& algorithm : catalog()) {
    const auto path = std::filesystem::path(REHEARSE_SOURCE_DIR) / "sim/cluster/collective" /
                      (std::string(algorithm.name) + ".cpp");
    INFO(path);
    CHECK(std::filesystem::exists(path));
    CHECK_FALSE(algorithm.summary.empty());
    CHECK_FALSE(algorithm.source.empty());
  }
}
