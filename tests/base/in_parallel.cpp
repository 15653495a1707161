#include "sim/base/in_parallel.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

TEST_CASE("base: a team does each piece of work once, whatever its size") {
  for (const int threads : {-1, 0, 1, 2, 3, 8}) {
    sim::Team team(threads);
    for (int round = 0; round < 200; ++round) {
      const auto count = static_cast<std::size_t>((round * 7) % 19);
      std::vector<std::atomic<int>> done(count);
      team.in_parallel(count, [&](std::size_t i) { ++done[i]; });
      CHECK(std::all_of(done.begin(), done.end(), [](const auto& times) { return times == 1; }));
    }
  }
}

TEST_CASE("base: a team has no more threads than it was given, the caller's among them") {
  sim::Team team(3);
  std::mutex seeing;
  std::set<std::thread::id> seen;
  for (int round = 0; round < 50; ++round) {
    team.in_parallel(20, [&](std::size_t) {
      const std::scoped_lock lock(seeing);
      seen.insert(std::this_thread::get_id());
    });
  }
  CHECK(seen.size() <= 3);
  std::set<std::thread::id> alone;
  sim::in_parallel(20, 1, [&](std::size_t) { alone.insert(std::this_thread::get_id()); });
  CHECK(alone == std::set{std::this_thread::get_id()});
}

TEST_CASE("base: what work throws is thrown on, and a team goes on afterwards") {
  for (const int threads : {1, 4}) {
    sim::Team team(threads);
    for (int round = 0; round < 20; ++round) {
      std::atomic<int> done = 0;
      const auto some = [&](std::size_t i) {
        if (i == 3) throw std::runtime_error("three");
        ++done;
      };
      CHECK_THROWS_WITH(team.in_parallel(1000, some), "three");
      CHECK(done < 1000);
      done = 0;
      team.in_parallel(1000, [&](std::size_t) { ++done; });
      CHECK(done == 1000);
    }
  }
}
