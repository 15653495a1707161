// pictures.cpp — the schedules as pictures, as in papers and sources: four stages, eight
// microbatches.
#include <catch2/catch.hpp>
#include <map>
#include <string>

#include "sim/job/schedule/timeline.h"

namespace sim::schedule {
namespace {

std::string picture(const char* name, double output = 0) {
  const Schedule& schedule = *find(name);
  PipelineShape shape{
      .stages = 4, .microbatches = 8, .chunks = schedule.chunks, .times = {.output = output}};
  REQUIRE(schedule.problem(shape) == "");
  return "\n" + draw(run(schedule, shape));
}

}  // namespace

TEST_CASE("schedule: the pictures everyone knows") {
  CHECK(picture("gpipe") == R"(
FFFFFFFF.........D-D-D-D-D-D-D-D-
.FFFFFFFF......D-D-D-D-D-D-D-D-..
..FFFFFFFF...D-D-D-D-D-D-D-D-....
...FFFFFFFFD-D-D-D-D-D-D-D-......
)");
  CHECK(picture("1f1b") == R"(
FFFF......D-FD-FD-FD-FD-.D-.D-.D-
.FFF....D-FD-FD-FD-FD-FD-.D-.D-..
..FF..D-FD-FD-FD-FD-FD-FD-.D-....
...FD-FD-FD-FD-FD-FD-FD-FD-......
)");
  CHECK(picture("interleaved-1f1b") == R"(
FFFFffffFFF...d-Fd-.fd-fd-fD-fD-D-.D-.d-.d-.d-.d-D-D-D-D-
.FFFFffffF..d-Fd-Fd-Fd-fD-fD-fD-fD-.d-.d-.d-.d-D-D-D-D-..
..FFFFfff.d-fd-Fd-Fd-FD-FD-fD-fD-fd-fd-.d-.d-D-D-D-D-....
...FFFFfd-fd-fd-fd-FD-FD-FD-FD-fd-fd-fd-fd-D-D-D-D-......
)");
  CHECK(picture("breadth-first") == R"(
FFFFFFFFffffffff.........d-d-d-d-d-d-d-d-D-D-D-D-D-D-D-D-
.FFFFFFFFffffffff......d-d-d-d-d-d-d-d-D-D-D-D-D-D-D-D-..
..FFFFFFFFffffffff...d-d-d-d-d-d-d-d-D-D-D-D-D-D-D-D-....
...FFFFFFFFffffffffd-d-d-d-d-d-d-d-D-D-D-D-D-D-D-D-......
)");
  CHECK(picture("local") == R"(
FD-FD-FD-FD-FD-FD-FD-FD-...
.FD-FD-FD-FD-FD-FD-FD-FD-..
..FD-FD-FD-FD-FD-FD-FD-FD-.
...FD-FD-FD-FD-FD-FD-FD-FD-
)");
}

TEST_CASE("schedule: the pictures of the schedules without a bubble") {
  CHECK(picture("zb-h1") == R"(
FFFF...BWFBWFBWFBWFBWBWBWBW
.FFF..BFBWFBWFBWFBWFBWBWBWW
..FF.BFBFBWFBWFBWFBWFBWBWWW
...FBFBFBFBWFBWFBWFBWFBWWWW
)");
  CHECK(picture("zb-h2") == R"(
FFFFFFFBWFBWBWBWBWBWBWBW...
.FFFFFBFBFBWFBWBWBWBWBWWW..
..FFFBFBFBFBFBWFBWBWBWWWWW.
...FBFBFBFBFBFBFBWFBWWWWWWW
)");
  CHECK(picture("zb-1p") == R"(
FFFF...BWFBWFBWFBWFBWBWBWBW
.FFF..BFBWFBWFBWFBWFBWBWBWW
..FF.BFBFBWFBWFBWFBWFBWBWWW
...FBFBFBFBWFBWFBWFBWFBWWWW
)");
  CHECK(picture("zb-2p") == R"(
FFFFFFFBFWBWBWBWBWBWBWBW...
.FFFFFBFBFBFBWBWBWBWBWWWW..
..FFFBFBFBFBFBFBWBWBWWWWWW.
...FBFBFBFBFBFBFBFBWWWWWWWW
)");
  CHECK(picture("zb-v") == R"(
FFFFFFFfbwfbwfbwfbwFBWfbwBWfbwBWfbwBWfbwBWBWBWBW...
.FFFFFfFfbwfbwfbwFBWfbwFBWfbwBWfbwBWfbwBbBWBWBWwW..
..FFFfFfFfbwfbwFBWfbwFBWfbwFBWfbwBWfbwBbBbBWBWwwWW.
...FfFfFfFfbwFBWfbwFBWfbwFBWfbwFBWfbwBbBbBbBWwwwWWW
)");
  CHECK(picture("interleaved-zb") == R"(
FFFFffff...bwFbwFbwFbwFBWfBWfBWfBWfbwbwbwbwBWBWBWBW
.FFFFfff..bfbwFbwFbwFBwFBWfBWfBWfbWfbwbwbwBwBWBWBWW
..FFFFff.bfbfbwFbwFBwFBwFBWfBWfbWfbWfbwbwBwBwBWBWWW
...FFFFfbfbfbfbwFBwFBwFBwFBWfbWfbWfbWfbwBwBwBwBWWWW
)");
  CHECK(picture("zeropp") == R"(
FFFFFFFFfffffffbfbwbwbwbwbwbwbwBwBWBWBWBWBWBWBWW...
.FFFFFFFFfffffbfbfbfbwbwbwbwbwBwBwBwBWBWBWBWBWWWW..
..FFFFFFFFfffbfbfbfbfbfbwbwbwBwBwBwBwBwBWBWBWWWWWW.
...FFFFFFFFfbfbfbfbfbfbfbfbwBwBwBwBwBwBwBwBWWWWWWWW
)");
}

TEST_CASE("schedule: the pictures of the schedules with controllable memory") {
  CHECK(picture("v-half") == R"(
FFFFF..fbwfbwf..BbwfWFBbwfWFBbwfWFBbwfbwBWWfbBwBWW.BW
.FFFF.f.fbwfbw.BWFfbwBWFfbwBWFfbwBFWfbwBbwfWBbBwWWBW.
..FFFf.f.fbwFbBwWfF.BbwfWFBbwfWFBbwfWFBbwfbBwBbwWBWWW
...FfFfFf..bwBWFfbwBWFfbwBWFfbwBFWfbBwFWfbBbBwwbBwWWW
)");
  CHECK(picture("v-min") == R"(
FFF....fbwfbw..BWF.fbBwWFfbBwWFfbBwWFfbBwWFfbBwW.fbBwW...BW
.FF...f.fbwF..BbwWfFBbwWfFBbwWfFBbwWfFBbwWfFBbwWf.BbwW..BW.
..FF.f.f..bwFBW.bfwBFWbfwBFWbfwBFWbfwBFWbfwBFWbfwBW.bw.BW..
...FfFf....bBwWFfbBwWFfbBwWFfbBwWFfbBwWFfbBwWFfbBwW..bBwW..
)");
}

TEST_CASE("schedule: the pictures of dualpipe and its half") {
  CHECK(picture("dualpipe") == R"(
FFFfbwfFd-fD-d-f.D-d-BWBW
.FfFfFd-fD-Fd-fD-d-D-bBwW
.fFfFfD-Fd-fD-Fd-D-d-BbWw
fffFBWFfD-Fd-D-F.d-D-bwbw
)");
  CHECK(picture("dualpipe-v") == R"(
FFFFFFFfbwfbwfbwfFd-fD-d-f.D-d-f.D-d-f.D-d-BWBWBWBW
.FFFFFfFfbwfbwfFd-fD-Fd-fD-d-f.D-d-f.D-d-D-bBwBWBWW
..FFFfFfFfbwfFd-fD-Fd-fD-Fd-fD-d-f.D-d-D-d-BbBWBwWW
...FfFfFfFfFd-fD-Fd-fD-Fd-fD-Fd-fD-d-D-d-D-bBbBwWwW
)");
}

// Vocabulary passes take one unit: S, and T of the previous microbatch.
TEST_CASE("schedule: the pictures of the schedules that cut the vocabulary") {
  CHECK(picture("vocab-1", 1) == R"(
FFFFSFSTFST...ST...STD-FSTD-FSTD-.STD-TD-D-.D-.D-
.FFFSFSTFST...STD-.STFD-STFD-STFD-STD-TD-.D-.D-..
..FFSFSTFSTD-.STFD-ST.FD-STFD-STFD-STD-TD-.D-....
...FSFSTFD-STFD-STFD-STFD-STFD-STFD-STD-TD-......
)");
  CHECK(picture("vocab-2", 1) == R"(
FFFFSFST...ST...STD-FSTD-FSTD-FSTD-.STD-TD-D-.D-
.FFFSFST...STD-.STFD-STFD-STFD-STFD-STD-TD-.D-..
..FFSFSTD-.STFD-ST.FD-STFD-STFD-STFD-STD-TD-....
...FSFD-STFD-STFD-STFD-STFD-STFD-STFD-STD-T.....
)");
  CHECK(picture("vocab-interlaced", 1) == R"(
FFFFFFS..S..S...SD-.SFD-SFD-SD-.SD-D-D-D-
.FFFFFS..S..SD-.SD-FSD-FSD-FSD-.SD-D-D-..
..FFFFS..SD-SD-.SFD-SFD-SFD-SFD-SD-D-....
...FFFSD-SD-SD-FSD-FSD-FSD-FSD-FSD-......
)");
}

TEST_CASE("schedule: a slice is a fraction of a pass and so is the bubble of terapipe") {
  const Schedule& schedule = *find("terapipe");
  const PipelineShape shape{.stages = 4, .microbatches = 2, .slices = 4};
  const Timeline timeline = run(schedule, shape);
  CHECK(timeline.makespan == 3 * 2 + 3 * 3 / 4.0);
  CHECK("\n" + draw(timeline, 0.25) == R"(
FFFFFFFF.........D-D-D-D-D-D-D-D-
.FFFFFFFF......D-D-D-D-D-D-D-D-..
..FFFFFFFF...D-D-D-D-D-D-D-D-....
...FFFFFFFFD-D-D-D-D-D-D-D-......
)");
}

// Makespans and peaks of eight stages and sixteen microbatches, twenty with dualpipe. Peaks count
// tasks of a chunk; span is the longest stage.
TEST_CASE("schedule: the totals of eight stages") {
  struct Expected {
    const char* name;
    int microbatches;
    double makespan, span;
    std::vector<int> live;
  };
  const auto all = [](int live) { return std::vector<int>(8, live); };
  for (const Expected& e : {Expected{"1f1b", 16, 69, 69, {8, 7, 6, 5, 4, 3, 2, 1}},
                            {"zb-1p", 16, 55, 55, all(8)},
                            {"zb-2p", 16, 55, 48, all(16)},
                            {"v-half", 16, 113, 113, all(10)},
                            {"v-min", 16, 123, 123, {7, 8, 8, 8, 8, 8, 8, 8}},
                            {"zb-v", 16, 103, 96, all(16)},
                            {"dualpipe-v", 16, 103, 103, all(17)},
                            {"interleaved-1f1b", 16, 117, 117, {23, 21, 19, 17, 15, 13, 11, 9}},
                            {"interleaved-zb", 16, 103, 103, all(16)},
                            {"breadth-first", 16, 117, 117, all(32)},
                            {"dualpipe", 20, 63, 63, all(9)}}) {
    CAPTURE(e.name);
    const Schedule& schedule = *find(e.name);
    const Timeline timeline = run(schedule, {8, e.microbatches, schedule.chunks});
    CHECK(timeline.makespan == e.makespan);
    CHECK(timeline.span == e.span);
    CHECK(timeline.live == e.live);
  }
}

TEST_CASE("schedule: an order is written with small letters for the second chunk") {
  CHECK(name({Pass::forward, 3}) == "F3");
  CHECK(name({Pass::input, 0, 1}) == "b0");
  CHECK(name({Pass::backward, 2, 2}) == "D2:2");
  CHECK(name({Pass::weight, 1, 0, 3}) == "W1.3");
}

TEST_CASE("schedule: chunks from the tenth on are drawn as letters") {
  const Schedule& schedule = *find("interleaved-1f1b");
  const PipelineShape shape{.stages = 2, .microbatches = 2, .chunks = 38};
  const std::string drawn = draw(run(schedule, shape));
  const std::size_t second = drawn.find('\n') + 1;
  const std::string chunks = drawn.substr(second, drawn.find('\n', second) - second);
  // Two microbatches pass through each chunk, one after the other; a follows z again.
  CHECK(chunks.rfind("00112233445566778899aabbccddeeffgghhiijjkkllmmnnooppqqrrssttuuvvwwxxyyzzaabb",
                     0) == 0);
  CHECK(chunks.size() == second - 1);  // the first stage works to the end
  CHECK(name({Pass::forward, 3, 0}) == "F3");
  CHECK(name({Pass::forward, 3, 1}) == "f3");
  CHECK(name({Pass::forward, 3, 2}) == "F3:2");
}

TEST_CASE("schedule: units of as many microbatches as stages have a closed form, fewer have none") {
  const Schedule& schedule = *find("zeropp");
  CHECK(schedule.makespan({4, 8, 2, 1, 4}) == 3 * 8 * 2 + 3);
  CHECK(schedule.makespan({4, 8, 2, 1, 8}) == 3 * 8 * 2 + 3);
  CHECK_FALSE(schedule.makespan({4, 6, 2, 1, 3}));
  CHECK_FALSE(schedule.makespan({4, 10, 2, 1, 4}));  // 4, 4 and 2
  CHECK(schedule.live({4, 8, 2, 1, 4}, 0) == 8);
  // By default: as many units as have 2 p - 1 microbatches.
  CHECK(schedule.live({4, 13, 2}, 0) == 26);
  CHECK(schedule.live({4, 14, 2}, 0) == 14);
  CHECK(schedule.live({4, 15, 2}, 0) == 16);
}

}  // namespace sim::schedule
