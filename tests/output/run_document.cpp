// run_document.cpp — the tables of a run's page, from two timelines filled by hand.
#include "sim/output/documents/run_document.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sim/output/documents/class_rows.h"
#include "tests/output/sample.h"

using namespace sim;
using namespace sim::output;
using program::PassKind;

namespace {

// Kernels of one second each on the compute stream of a rank class, one after the other from
// `begin` on.
void run(PassTimeline& to, int rank_class, double begin,
         std::vector<engine::ProgramLocation> places) {
  for (const engine::ProgramLocation& place : places) {
    const Time start{std::llround(begin * 1e12)}, end{std::llround((begin + 1) * 1e12)};
    to.operation(rank_class, program::Stream::compute, "work", place, start, start, end);
    begin += 1;
  }
}

engine::ProgramLocation at(PassKind pass, int microbatch, int chunk = 0, int step = 2) {
  engine::ProgramLocation place{};
  place.step = step;
  place.microbatch = microbatch;
  place.pass = pass;
  place.chunk = chunk;
  return place;
}

std::string cells_of(const Document& document, const std::string& name) {
  std::string text;
  for (const Block& block : document.blocks)
    if (const Rows* rows = std::get_if<Rows>(&block); rows != nullptr && rows->name == name)
      for (const auto& cells : rows->cells) {
        for (const Json& cell : cells)
          text += (cell.is_string() ? cell.get<std::string>() : cell.dump()) + "|";
        text += "\n";
      }
  return text;
}

}  // namespace

TEST_CASE("output: the passes of a page are those of the last step, named by kind and number") {
  PassTimeline passes;
  run(passes, 0, 0, {at(PassKind::forward, 0, 0, 1)});  // a step before
  run(passes, 0, 10,
      {at(PassKind::forward, 0), at(PassKind::forward, 0), at(PassKind::output, 0),
       at(PassKind::output_gradient, 0), at(PassKind::backward, 0), at(PassKind::weight, 0),
       at(PassKind::step, -1)});
  run(passes, 1, 11,
      {at(PassKind::forward, 12, 2), at(PassKind::output, 12, 1), at(PassKind::exchange, -1),
       at(PassKind::step, -1)});
  const Document page = run_document(sample::fits(), "", passes, MemoryTimeline(), {});
  CHECK(cells_of(page, "passes") ==
        "stage 0|forward|F0|0.0|2.0|\n"
        "stage 0|output|S0|2.0|3.0|\n"
        "stage 0|output gradient|T0|3.0|4.0|\n"
        "stage 0|backward|B0|4.0|5.0|\n"
        "stage 0|weight|W0|5.0|6.0|\n"
        "stage 0|step|step|6.0|7.0|\n"
        "stage 1|forward|F12.2|1.0|2.0|\n"
        "stage 1|output|S12.1|2.0|3.0|\n"
        "stage 1|exchange|exchange|3.0|4.0|\n"
        "stage 1|step|step|4.0|5.0|\n");
  const Document none = run_document(sample::fits(), "", PassTimeline(), MemoryTimeline(), {});
  CHECK(cells_of(none, "passes").empty());
}

TEST_CASE("output: where the step's time goes and how busy links are stand as they were given") {
  const std::vector<LinkBusy> links = {{"NVLink", "node 3, GPU 1", "tp", 0.123456, 0.05, 64},
                                       {"NIC", "node 0, NIC 7", "dp, pp", 1, 0.5, 8}};
  const Document page = run_document(sample::fits(), "an interval", PassTimeline(),
                                     MemoryTimeline(), links, "<svg/>");
  CHECK(cells_of(page, "links") ==
        "NVLink|node 3, GPU 1|tp|12.346|5.0|64|\nNIC|node 0, NIC 7|dp, pp|100.0|50.0|8|\n");
  const auto drawn = [](const Document& document) {
    std::string names;
    for (const Block& block : document.blocks) {
      if (const Series* series = std::get_if<Series>(&block))
        names += series->table + fmt::format("({}) ", fmt::join(series->y, ","));
      if (std::holds_alternative<Picture>(block)) names += "picture ";
    }
    return names;
  };
  for (const Block& block : page.blocks)
    if (const Rows* rows = std::get_if<Rows>(&block))
      for (const Column& column : rows->columns) CHECK(column.key == key_of(column.key));
  // Of the accounts of time, the ones that are not zero.
  const std::string shown = drawn(page);
  INFO(shown);
  CHECK(shown.find("time(compute_s,pipeline_fill_drain_s) ") != std::string::npos);
  CHECK(shown.find("links(busy_pct) picture ") != std::string::npos);
  const std::string time = cells_of(page, "time");
  CHECK(time.find("stage 0, cp rank 0|8.0|") == 0);
  CHECK(time.find("\nstage 1, cp rank 0|10.0|") != std::string::npos);
  const Document without =
      run_document(sample::fits(), "", PassTimeline(), MemoryTimeline(), {}, "<svg/>");
  CHECK(drawn(without).find("picture") == std::string::npos);
  CHECK(cells_of(without, "links").empty());
}

TEST_CASE("output: numbers of ranks are written as ranges") {
  CHECK(output::ranges_text({}).empty());
  CHECK(output::ranges_text({3}) == "3");
  CHECK(output::ranges_text({0, 1, 2, 3, 8, 10, 11}) == "0-3,8,10-11");
  CHECK(output::ranges_text({0, 2, 4, 6}, 2) == "0,2,... (4 ranges)");
  CHECK(output::ranges_text({0, 2}, 2) == "0,2");
}
