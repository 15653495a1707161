// Every schedule of the catalog over all small worlds: p <= 5, m <= 7, v <= 3.
#include "sim/schedule/schedule.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "tests/schedule/executor.h"

namespace sim::schedule {
namespace {

void for_each_world(const std::function<void(const Schedule&, Shape)>& check) {
  for (const Schedule& schedule : catalog())
    for (int p = 1; p <= 5; ++p)
      for (int m = 1; m <= 7; ++m)
        for (int v = 1; v <= 3; ++v)
          if (schedule.problem({p, m, v}).empty()) check(schedule, {p, m, v});
}

// The most (microbatch, chunk) pairs whose activations a stage holds: from the forward until the
// last pass that reads them.
int most_live(const Schedule& schedule, Shape shape, int stage) {
  const Pass last = schedule.splits_backward ? Pass::weight : Pass::backward;
  int live = 0;
  int most = 0;
  for (const Step step : schedule.order(shape, stage)) {
    if (step.pass == Pass::forward) most = std::max(most, ++live);
    if (step.pass == last) --live;
  }
  return most;
}

}  // namespace

TEST_CASE(
    "schedule: every pass runs exactly once per microbatch and chunk and in the order F B W") {
  int worlds = 0;
  for_each_world([&](const Schedule& schedule, Shape shape) {
    ++worlds;
    for (int stage = 0; stage < shape.stages; ++stage) {
      CAPTURE(schedule.name, shape.stages, shape.microbatches, shape.chunks, stage);
      std::map<std::pair<int, int>, int> passes;  // (microbatch, chunk) -> passes run
      for (const Step step : schedule.order(shape, stage)) {
        REQUIRE(step.microbatch >= 0);
        REQUIRE(step.microbatch < shape.microbatches);
        REQUIRE(step.chunk >= 0);
        REQUIRE(step.chunk < shape.chunks);
        CHECK(passes[{step.microbatch, step.chunk}]++ == static_cast<int>(step.pass));
      }
      CHECK(static_cast<int>(passes.size()) == shape.microbatches * shape.chunks);
      for (const auto& [key, count] : passes) CHECK(count == (schedule.splits_backward ? 3 : 2));
    }
  });
  // gpipe, 1f1b, zb-h1: 35 shapes each. Interleaved, m a multiple of p, v = 2 and 3:
  // p = 2: 2 4 6, p = 3: 3 6, p = 4: 4, p = 5: 5 -> 7 x 2.
  CHECK(worlds == 3 * 35 + 14);
}

TEST_CASE("schedule: no schedule deadlocks") {
  for_each_world([](const Schedule& schedule, Shape shape) {
    CAPTURE(schedule.name, shape.stages, shape.microbatches, shape.chunks);
    CHECK_FALSE(execute(schedule, shape).deadlock);
  });
}

TEST_CASE("schedule: live microbatches stay within the bound that each schedule promises") {
  const std::map<std::string, std::function<int(Shape, int)>> bounds{
      {"gpipe", [](Shape x, int) { return x.microbatches; }},
      {"1f1b", [](Shape x, int s) { return std::min(x.microbatches, x.stages - s); }},
      // In chunks. Megatron-LM runs all forwards first when m = p.
      {"interleaved-1f1b",
       [](Shape x, int s) {
         const int total = x.microbatches * x.chunks;
         if (x.microbatches == x.stages) return total;
         return std::min(total, 2 * (x.stages - s - 1) + (x.chunks - 1) * x.stages + 1);
       }},
      // On every stage what 1f1b holds on its first.
      {"zb-h1", [](Shape x, int) { return std::min(x.microbatches, x.stages); }},
  };
  for_each_world([&](const Schedule& schedule, Shape shape) {
    for (int stage = 0; stage < shape.stages; ++stage) {
      CAPTURE(schedule.name, shape.stages, shape.microbatches, shape.chunks, stage);
      // Not only a bound: it is reached.
      CHECK(most_live(schedule, shape, stage) ==
            bounds.at(std::string(schedule.name))(shape, stage));
    }
  });
}

TEST_CASE("schedule: zb-h1 keeps at most p - s microbatches between F and B like 1f1b") {
  const Schedule& zb = *find("zb-h1");
  for (int p = 1; p <= 5; ++p)
    for (int m = 1; m <= 7; ++m)
      for (int stage = 0; stage < p; ++stage) {
        int live = 0;
        int most = 0;
        for (const Step step : zb.order({p, m, 1}, stage)) {
          if (step.pass == Pass::forward) most = std::max(most, ++live);
          if (step.pass == Pass::backward) --live;
        }
        CAPTURE(p, m, stage);
        CHECK(most == std::min(m, p - stage));
      }
}

TEST_CASE("schedule: makespan of unit passes equals the closed form") {
  const std::map<std::string, std::function<int(Shape)>> closed_form{
      // Fill p - 1, then m F and m B, and p - 1 to drain.
      {"gpipe", [](Shape x) { return 2 * (x.microbatches + x.stages - 1); }},
      {"1f1b", [](Shape x) { return 2 * (x.microbatches + x.stages - 1); }},
      // A pass is 1/v of a stage: the work is 2 m v and the bubble still 2 (p - 1) passes.
      {"interleaved-1f1b", [](Shape x) { return 2 * (x.microbatches * x.chunks + x.stages - 1); }},
      // See zb-h1.cpp.
      {"zb-h1",
       [](Shape x) {
         return std::max(3 * x.microbatches + x.stages - 1,
                         2 * x.microbatches + 2 * (x.stages - 1) + 1);
       }},
  };
  for_each_world([&](const Schedule& schedule, Shape shape) {
    CAPTURE(schedule.name, shape.stages, shape.microbatches, shape.chunks);
    CHECK(execute(schedule, shape).makespan == closed_form.at(std::string(schedule.name))(shape));
  });
  // Larger worlds, sampled.
  for (const Shape shape : {Shape{8, 64, 1}, Shape{16, 16, 1}, Shape{16, 15, 1}})
    for (const char* name : {"gpipe", "1f1b", "zb-h1"}) {
      CAPTURE(name, shape.stages, shape.microbatches);
      CHECK(execute(*find(name), shape).makespan == closed_form.at(name)(shape));
    }
  for (const Shape shape : {Shape{8, 64, 6}, Shape{12, 24, 8}, Shape{8, 8, 4}})
    CHECK(execute(*find("interleaved-1f1b"), shape).makespan ==
          closed_form.at("interleaved-1f1b")(shape));
}

TEST_CASE("schedule: interleaving shrinks the bubble of 1f1b by the number of chunks") {
  // In units of a whole stage: bubble = makespan / v - 2m.
  for (int v = 2; v <= 4; ++v) {
    const int interleaved = execute(*find("interleaved-1f1b"), {4, 8, v}).makespan - 2 * 8 * v;
    const int plain = execute(*find("1f1b"), {4, 8, 1}).makespan - 2 * 8;
    CHECK(interleaved == plain);  // of passes that are v times shorter
  }
}

TEST_CASE("schedule: the pictures everyone knows") {
  CHECK(draw(*find("1f1b"), {4, 6, 1}) == R"(
abcd...AeBfC.D.E.F
.abc..AdBeCfD.E.F.
..ab.AcBdCeDfE.F..
...aAbBcCdDeEfF...
)");
  CHECK(draw(*find("gpipe"), {4, 6, 1}) == R"(
abcdef......FEDCBA
.abcdef....FEDCBA.
..abcdef..FEDCBA..
...abcdefFEDCBA...
)");
}

TEST_CASE("schedule: the picture of zb-h1 idles p - 1 units per stage") {
  // 4 stages, 8 microbatches, 3 x 8 + (4 - 1) columns; digits are weight passes.
  CHECK(draw(*find("zb-h1"), {4, 8, 1}) == R"(
abcd...A0eB1fC2gD3hE4F5G6H7
.abc..AdB0eC1fD2gE3hF4G5H67
..ab.AcBdC0eD1fE2gF3hG4H567
...aAbBcCdD0eE1fF2gG3hH4567
)");
}

TEST_CASE("schedule: the picture of interleaved-1f1b with 2 chunks") {
  // 4 stages, 8 microbatches, 2 chunks; the second row of a stage is the chunk.
  CHECK(draw(*find("interleaved-1f1b"), {4, 8, 2}) == R"(
abcdabcdefgAhB..eCfDgAhBCD.E.F.G.HEFGH
00001111000101  1111101000 1 1 1 10000
.abcdabcdeAfBgChDeAfBgChD.E.F.G.HEFGH.
 000011110101010110101010 1 1 1 10000
..abcdabcAdBeCfDgAhBeCfDgEhF.G.HEFGH..
  00001111110101000010101111 1 10000
...abcdaAbBcCdDeAfBgChDeEfFgGhHEFGH...
   00001111111100000000111111110000
)");
}

TEST_CASE("schedule: interleaved-1f1b runs all forwards first when m = p like Megatron-LM") {
  CHECK(draw(*find("interleaved-1f1b"), {2, 2, 2}) == R"(
abab..ABAB
0011  1100
.ababABAB.
 00111100
)");
}

TEST_CASE("schedule: impossible shapes name the rule and what would do") {
  CHECK(find("1f1b")->problem({4, 6, 2}) ==
        "the schedule runs one model chunk per stage, not 2 virtual stages; write 1, or use "
        "interleaved-1f1b");
  const auto interleaved = [](Shape shape) { return find("interleaved-1f1b")->problem(shape); };
  CHECK(interleaved({4, 8, 2}) == "");
  CHECK(interleaved({1, 8, 2}) ==
        "interleaving needs at least 2 pipeline stages, not 1; use 1f1b for one stage");
  CHECK(interleaved({4, 8, 1}) ==
        "interleaving needs at least 2 virtual stages, not 1; use 1f1b for one");
  CHECK(interleaved({4, 10, 2}) ==
        "interleaving needs a number of microbatches that is a multiple of the 4 stages, not 10; "
        "write 8 or 12");
  CHECK(interleaved({4, 3, 2}) ==
        "interleaving needs a number of microbatches that is a multiple of the 4 stages, not 3; "
        "write 4");
}

TEST_CASE("schedule: hostile shapes are refused by every schedule before anything is allocated") {
  constexpr int huge = 2147483647;
  for (const Schedule& schedule : catalog())
    for (const Shape shape :
         {Shape{0, 4, 1}, Shape{-1, 4, 1}, Shape{huge, huge, 1}, Shape{2, 0, 2}, Shape{2, huge, 2},
          Shape{2, 4, 0}, Shape{2, 4, huge}, Shape{2, max_passes, 2}}) {
      CAPTURE(schedule.name, shape.stages, shape.microbatches, shape.chunks);
      CHECK(schedule.problem(shape) != "");
    }
  CHECK(find("gpipe")->problem({0, 4, 1}) ==
        "the number of pipeline stages is 0; it must be 1 to 65536");
}

TEST_CASE("schedule: an unknown name is answered with the nearest one and all of them") {
  CHECK(find("1f1") == nullptr);
  CHECK(unknown("1f1") ==
        "no schedule '1f1'; did you mean '1f1b'? There are gpipe, 1f1b, interleaved-1f1b and "
        "zb-h1");
  CHECK(unknown("chimera-wave") ==
        "no schedule 'chimera-wave'; there are gpipe, 1f1b, interleaved-1f1b and zb-h1");
}

TEST_CASE("schedule: each entry of the catalog has its own file and no file is left out") {
  std::vector<std::string> files, names;
  for (const auto& entry : std::filesystem::directory_iterator(REHEARSE_SOURCE_DIR "/sim/schedule"))
    if (entry.path().extension() == ".cpp" && entry.path().stem() != "catalog")
      files.push_back(entry.path().stem().string());
  for (const Schedule& schedule : catalog()) {
    names.emplace_back(schedule.name);
    CHECK_FALSE(schedule.summary.empty());
    CHECK_FALSE(schedule.source.empty());
  }
  std::sort(files.begin(), files.end());
  std::sort(names.begin(), names.end());
  CHECK(files == names);
}

}  // namespace sim::schedule
