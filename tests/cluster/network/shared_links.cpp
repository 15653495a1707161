// shared_links.cpp — transfers on shared links: examples by hand, and a comparison with SimGrid.
#include "sim/cluster/network/shared_links.h"

#include <catch2/catch.hpp>
#include <random>

#include "sim/cluster/network/solver.h"

using namespace sim;
using namespace sim::network;

namespace {

constexpr std::int64_t second = 1'000'000'000'000;

// Runs transfers that all start at 0 to their ends, in seconds.
std::vector<double> run_all(const std::vector<SharedKind>& kinds,
                            const std::vector<double>& alone) {
  SharedLinks links(kinds);
  std::vector<SharedLinks::Handle> handles;
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    handles.push_back(links.start(Time{0}, k, from_seconds(alone[k])));
  }
  std::vector<double> ends(kinds.size());
  for (std::size_t left = kinds.size(); left > 0; --left) {
    std::size_t first = kinds.size();
    for (std::size_t k = 0; k < kinds.size(); ++k) {
      if (links.active(handles[k]) &&
          (first == kinds.size() || links.end(handles[k]) < links.end(handles[first])))
        first = k;
    }
    const Time end = links.end(handles[first]);
    ends[first] = static_cast<double>(end.ps) * 1e-12;
    links.finish(end, handles[first]);
  }
  CHECK(links.fullest() <= 1 + 1e-9);
  return ends;
}

// A speed that is not a power of two costs at most a picosecond of rounding; never earlier.
bool about(Time end, std::int64_t ps) {
  return end.ps >= ps && end.ps <= ps + 1;
}

}  // namespace

TEST_CASE("network: a transfer that shares nothing ends after its own duration exactly") {
  SharedLinks links({{{{0, 0.9}, {1, 0.3}}, 1e9}, {{{2, 1.0}}, 1e9}});
  const auto a = links.start(Time{5}, 0, Duration{second + 7});
  const auto b = links.start(Time{9}, 1, Duration{second});
  CHECK(links.end(a) == Time{second + 12});
  CHECK(links.end(b) == Time{second + 9});
  CHECK(links.take_changed().empty());
}

TEST_CASE("network: two transfers on one link take turns at half speed while both are there") {
  // A alone 1 s, B alone 1 s from 0.5 s on, same flows: A has 0.5 s left, at half speed until 1.5;
  // B has then 0.5 s left alone: 2.0 s.
  SharedLinks links({{{{0, 1.0}}, 1e9}, {{{0, 1.0}}, 1e9}});
  const auto a = links.start(Time{0}, 0, Duration{second});
  const auto b = links.start(Time{second / 2}, 1, Duration{second});
  CHECK(about(links.end(a), 3 * second / 2));
  CHECK(links.take_changed() == std::vector{a, b});
  links.finish(links.end(a), a);
  CHECK(about(links.end(b), 2 * second));
}

TEST_CASE("network: a follower keeps the pace of the transfer it follows") {
  SharedLinks links({{{{0, 1.0}}, 1e9}, {{{0, 1.0}}, 1e9}});
  const auto a = links.start(Time{0}, 0, Duration{second});
  const auto echo = links.start(Time{0}, 0, Duration{second / 2}, a);
  CHECK(links.end(echo) == Time{second / 2});  // it loads nothing
  const auto b = links.start(Time{0}, 1, Duration{second});
  CHECK(about(links.end(a), 2 * second));
  CHECK(about(links.end(b), 2 * second));
  CHECK(about(links.end(echo), second));
}

TEST_CASE("network: shared links are those of SimGrid for any flows that start together") {
  std::mt19937 random(7);
  SolverOptions options;
  options.cache = "";
  options.reduce = false;
  Solver solver(options);
  std::vector<Query> queries;
  std::vector<std::vector<double>> ours;
  for (int round = 0; round < 40; ++round) {
    const auto pick = [&](int below) {
      return static_cast<int>(random() % static_cast<unsigned>(below));
    };
    Query query;
    const int links = 2 + pick(5), flows = 2 + pick(6);
    for (int l = 0; l < links; ++l) query.capacities.push_back(1e9 * (1 + pick(9)));
    for (int f = 0; f < flows; ++f) {
      Flow flow{1e9 * (1 + pick(20)), {}};
      for (int l = 0; l < links; ++l) {
        if (pick(2) == 0) flow.uses.push_back({l, 1 + pick(2)});
      }
      if (flow.uses.empty()) flow.uses.push_back({pick(links), 1});
      query.flows.push_back(flow);
    }
    // An undisturbed flow runs at its tightest link's capacity over its weight there.
    std::vector<SharedKind> kinds;
    std::vector<double> alone;
    for (const Flow& flow : query.flows) {
      SharedKind& kind = kinds.emplace_back();
      kind.flow_bytes = flow.bytes;
      double longest = 0;
      for (const Use& use : flow.uses) {
        const double busy =
            flow.bytes * use.weight / query.capacities[static_cast<std::size_t>(use.link)];
        kind.uses.push_back({use.link, busy});
        longest = std::max(longest, busy);
      }
      alone.push_back(longest);
    }
    ours.push_back(run_all(kinds, alone));
    queries.push_back(query);
  }
  const auto finish = solver.solve(queries);
  REQUIRE(finish);
  for (std::size_t q = 0; q < queries.size(); ++q) {
    for (std::size_t f = 0; f < queries[q].flows.size(); ++f) {
      INFO("query " << q << " flow " << f);
      CHECK(ours[q][f] == Approx((*finish)[q][f]).epsilon(1e-9));
    }
  }
}
