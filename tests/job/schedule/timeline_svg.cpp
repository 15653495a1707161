// timeline_svg.cpp — the picture of a schedule has a box for every pass and a legend of its kinds.
#include "sim/job/schedule/timeline_svg.h"

#include <catch2/catch.hpp>
#include <string>

#include "tests/picture.h"

using namespace sim::schedule;
using picture::count;

TEST_CASE("schedule: the picture has a box for every pass, and both passes of a split backward") {
  for (const char* name : {"1f1b", "zb-h1"}) {
    const Schedule* schedule = find(name);
    REQUIRE(schedule != nullptr);
    const PipelineShape shape{.stages = 4, .microbatches = 8};
    const Timeline timeline = run(*schedule, shape);
    std::size_t passes = 0;
    for (const auto& row : timeline.rows) passes += row.size();
    const std::string svg = timeline_svg(timeline, "a < b");
    CHECK(count(svg, "<title>") == passes);
    CHECK(count(svg, ">stage ") == 4);
    CHECK(svg.find("a &lt; b") != std::string::npos);
    CHECK((svg.find(">gradients of weights<") != std::string::npos) ==
          (schedule->splits != Splits::none));
  }
}

TEST_CASE("schedule: the picture of a small split schedule is as it was drawn") {
  const Timeline timeline = run(*find("zb-h1"), PipelineShape{.stages = 2, .microbatches = 3});
  picture::same("job/schedule/pictures/zb-h1.svg", timeline_svg(timeline, "zb-h1"));
}
