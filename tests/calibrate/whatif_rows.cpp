// whatif_rows.cpp — rows of what-ifs with a known answer: the ratio of two steps, and how many
// changes have the right direction and size.
#include <catch2/catch.hpp>

#include "sim/calibrate/tables/measured_table.h"

using namespace sim;
using namespace sim::calibrate;

namespace {

input::TableRow row(const std::string& what, const std::string& change, const std::string& ratio) {
  input::TableRow out;
  out.cells["what"] = what;
  out.cells["kind"] = "test";
  out.cells["base"] =
      "model=llama-2-7b; cluster=dgx-h100; gpus=8; tp=8; micro_batch=1; global_batch=8; "
      "sequence=4096";
  out.cells["change"] = change;
  out.cells["step_ratio"] = ratio;
  return out;
}

}  // namespace

TEST_CASE("calibrate: a what-if is the ratio of two steps, judged by direction and size") {
  input::Table table;
  table.columns = {"what", "kind", "base", "change", "step_ratio"};
  // A batch of twice the size takes nearly twice as long, and the same plan as long.
  table.rows = {row("right", "global_batch=16", "2"), row("small", "global_batch=16", "1.5"),
                row("wrong", "global_batch=16", "0.5"), row("equal", "global_batch=8", "1.01"),
                row("refused", "tp=3", "2")};
  const MeasuredTable* kind = measured_table(table);
  REQUIRE(kind != nullptr);
  CHECK(kind->name == "what-ifs with a known answer");
  answer::Sites sites;
  const std::vector<RowAnswer> answers = predict(*kind, table, sites);
  REQUIRE(answers.size() == 5);
  REQUIRE(answers[0].predicted[0]);
  CHECK(*answers[0].predicted[0] == Approx(2).margin(0.1));
  CHECK(*answers[3].predicted[0] == 1);
  CHECK(answers[4].reason != "");
  const std::string summary = kind->summary(table, answers);
  CHECK(summary.find("direction right in 3 of 4, size within 30 % in 2") != std::string::npos);
}
