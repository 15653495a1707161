// places.cpp — an operation is told with its place in the program: the same by both engines, and by
// a replay of times alone, which runs shorter programs.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/engine/sample.h"

using namespace sim;

namespace {

struct Places final : engine::Observer {
  using Place = std::tuple<std::string, int, int, int, int, std::string, std::string>;
  std::map<std::pair<int, int>, std::vector<Place>> all;  // by class and stream

  void operation(int c, program::Stream stream, std::string_view name,
                 const engine::ProgramLocation& at, Time, Time, Time) override {
    all[{c, static_cast<int>(stream)}].emplace_back(std::string(name), at.step, at.microbatch,
                                                    at.chunk, at.layer, at.block, at.label);
  }
  void memory(const engine::MemoryChange&) override {}
};

std::map<std::pair<int, int>, std::vector<Places::Place>> places(const program::Job& job,
                                                                 engine::Options options) {
  Places seen;
  options.observer = &seen;
  engine::run(job, sample::times(job), sample::memory(job), options);
  return std::move(seen.all);
}

// The operations of the last step alone, whatever its number.
auto last_step(std::map<std::pair<int, int>, std::vector<Places::Place>> all) {
  int last = 0;
  for (const auto& [of, list] : all)
    for (const Places::Place& one : list) last = std::max(last, std::get<1>(one));
  for (auto& [of, list] : all) {
    std::erase_if(list, [&](const Places::Place& one) { return std::get<1>(one) != last; });
    for (Places::Place& one : list) std::get<1>(one) = 0;
  }
  return all;
}

}  // namespace

TEST_CASE("engine: operations have the same places with and without tensors, by both engines") {
  for (const program::Plan& plan : {sample::plan(2, 1, 2, 2, 4), sample::plan(1, 2, 2, 1, 4)}) {
    const program::Job job = sample::job(plan);
    engine::Options options;
    const auto exact = places(job, options);
    REQUIRE(exact.size() > 4);
    for (const auto& [of, list] : exact)
      for (const Places::Place& one : list) CHECK(std::get<0>(one) == std::get<6>(one));
    options.method = engine::Method::reference;
    CHECK(places(job, options) == exact);
    options.method = engine::Method::fast;
    options.memory = engine::MemoryDetail::none;
    CHECK(last_step(places(job, options)) == last_step(exact));
  }
}
