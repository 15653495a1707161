#include "sim/input/plan/grid.h"

#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <tuple>

#include "sim/input/tables/runs_csv.h"
#include "support.h"

using sim::input::Grid;
using sim::input::GridPoint;
using sim::input::load_grid;
using support::contains;
using support::problems;
using support::replaced;

namespace {

const std::string grid_text = R"(
bases {
  name: "a"
  plan { model: "llama-3.1-8b" cluster: "abci-a" global_batch: 1024 sequence: 8192 }
}
families {
  name: "f"
  base: "a"
  vary { keys: "gpus" rows: "8|16" }
  vary { keys: "tp pp mbs" rows: ["4 2 1|2", "2 4 1"] }
}
)";

std::string with(const std::string& from, const std::string& to) {
  support::Scratch scratch;
  return problems(load_grid(scratch.write("g.textproto", replaced(grid_text, from, to))));
}

Grid paper() {
  static support::Scratch scratch;
  const auto grid = load_grid(support::in_repository("workloads/paper-454.textproto"));
  CAPTURE(problems(grid));
  REQUIRE(grid);
  return *grid;
}

}  // namespace

TEST_CASE("input: a grid is the product of its rows with the first the slowest") {
  support::Scratch scratch;
  const auto grid = load_grid(scratch.write("g.textproto", grid_text));
  CAPTURE(problems(grid));
  REQUIRE(grid);
  // 2 worlds x (2 + 1) tuples.
  REQUIRE(grid->size() == 6);
  CHECK(grid->name() == "g");
  CHECK(grid->point(0).name == "f/gpus8-tp4-pp2-mbs1");
  CHECK(grid->point(1).name == "f/gpus8-tp4-pp2-mbs2");
  CHECK(grid->point(2).name == "f/gpus8-tp2-pp4-mbs1");
  CHECK(grid->point(5).name == "f/gpus16-tp2-pp4-mbs1");
  CHECK(grid->point(5).plan.mesh.dp == 2);
  CHECK(grid->machines().size() == 1);
}

TEST_CASE("input: an impossible point of a grid is a point with its reason") {
  support::Scratch scratch;
  const auto grid =
      load_grid(scratch.write("g.textproto", replaced(grid_text, "\"2 4 1\"", "\"3 4 1\"")));
  REQUIRE(grid);
  REQUIRE(grid->size() == 6);
  const GridPoint point = grid->point(2);
  std::string all;
  for (const sim::Diagnostic& reason : point.problems) all += reason.message + '\n';
  CHECK(contains(all, "8 GPUs do not factor into tp x cp x pp = 12"));
  CHECK(contains(all, "tp 3 does not divide the 32 attention heads"));
  CHECK(grid->point(0).problems.empty());
}

TEST_CASE("input: settings of the command line hold for every point of a grid") {
  support::Scratch scratch;
  const std::string path = scratch.write("g.textproto", grid_text);
  const auto grid = load_grid(path, {"avoid_record_streams=true", "cluster=dgx-h100"});
  CAPTURE(problems(grid));
  REQUIRE(grid);
  for (std::size_t i = 0; i < grid->size(); ++i) {
    CHECK(grid->point(i).plan.environment.avoid_record_streams);
    CHECK(grid->point(i).machine->cluster.name == "dgx-h100");
  }
  CHECK(contains(problems(load_grid(path, {"tp=8"})), "'tp' varies in the family 'f'"));
}

TEST_CASE("input: mistakes in a grid are reported at their place") {
  CHECK(contains(with("base: \"a\"", "base: \"b\""), "there is no base 'b'"));
  CHECK(contains(with("tp pp mbs", "tp pp mbss"), "no setting 'mbss'; did you mean 'mbs'?"));
  CHECK(contains(with("4 2 1|2", "4 2"), "has 2 values for the 3 keys"));
  CHECK(contains(with("4 2 1|2", "4 two 1"), "'pp' is a whole number, got 'two'"));
  CHECK(contains(with("4 2 1|2", "4 -2 1"), "'pp' is -2; it must be between"));
  CHECK(contains(with("\"2 4 1\"", "\"4 2 2\""), "is there twice (tp4-pp2-mbs2)"));
  CHECK(contains(with("keys: \"gpus\"", "keys: \"tp\""), "'tp' varies twice in the family"));
  CHECK(contains(with("sequence: 8192", ""), "'Plan' needs the field 'sequence'"));
  CHECK(contains(with("llama-3.1-8b", "llama-3.1-8c"), "did you mean 'llama-3.1-8b'?"));
  CHECK(contains(with("families {", "familys {"), "no field 'familys'; did you mean 'families'?"));
  CHECK(contains(with("sequence: 8192", "sequence: 8192 tpp: 4"), "'Plan' has no field 'tpp'"));
  CHECK(contains(with(grid_text, ""), "'Grid' needs the field 'bases'"));
  CHECK(
      contains(with("families {", "bases { name: \"a\" plan { } }\nfamilies {"), "two bases 'a'"));
  // The same family twice, with the same points.
  const std::string again = grid_text.substr(grid_text.find("families"));
  CHECK(contains(with("families", again + "families"), "two points 'f/gpus8-tp4-pp2-mbs1'"));
}

TEST_CASE("input: a setting of the cluster does not vary in a grid; whatif varies it") {
  CHECK(contains(with("keys: \"tp", "keys: \"fabric.oversubscription tp"),
                 "'fabric.oversubscription' is a setting of the cluster, and a grid varies plans; "
                 "write `rehearse whatif PLAN --vary fabric.oversubscription="));
}

TEST_CASE("input: a grid's name is one folder's, not a way out of the one that is there") {
  for (const char* name : {"../../x", "..", ".", "/tmp/x", "a/b", "a\\nb"}) {
    CAPTURE(name);
    CHECK(contains(with("bases {", std::string("name: \"") + name + "\" bases {"),
                   "is the name of a folder"));
  }
  CHECK(with("bases {", "name: \"..x\" bases {").empty());
}

TEST_CASE("input: a grid that explodes is refused before it is built") {
  std::string many = "1";
  for (int i = 2; i <= 300; ++i) many += "|" + std::to_string(i);
  const auto family = [](const std::string& vary) {
    return "families { name: \"big\" base: \"a\" " + vary + " }\nfamilies";
  };
  const auto block = [&](const std::string& keys, const std::string& row) {
    return "vary { keys: \"" + keys + "\" rows: \"" + row + "\" } ";
  };
  // 300 x 300 tuples are possible; with 300 world sizes they make 27 million points, too many.
  const std::string product = block("tp pp", many + " " + many) + block("gpus", many);
  CHECK(contains(with("families", family(product)), "more than 10000000 points with family 'big'"));
  // 300^5 tuples do not overflow the count.
  const std::string row = many + " " + many + " " + many + " " + many + " " + many;
  CHECK(contains(with("families", family(block("tp pp mbs cp dp", row))),
                 "more than 100000 rows in one block"));
}

TEST_CASE("input: the paper grid has 331 feasible points and 123 that complete it") {
  const Grid grid = paper();
  CHECK(grid.size() == 454);
  std::map<std::string, int> points;
  std::set<std::string> names;
  int paper_points = 0;
  for (std::size_t i = 0; i < grid.size(); ++i) {
    const GridPoint point = grid.point(i);
    CAPTURE(point.name);
    CHECK(names.insert(point.name).second);
    CHECK(point.problems.empty());
    ++points[point.family];
    if (!point.family.starts_with("completion-")) {
      ++paper_points;
      CHECK(point.plan.architecture.name == "llama-3.1-8b");
    }
  }
  CHECK(paper_points == 331);
  CHECK(points["a100-8k"] == 101);
  CHECK(points["h100-8k"] == 102);
  CHECK(points["h100-16k"] == 128);
  CHECK(points["completion-70b-h100"] == 27);
  CHECK(points["completion-70b-a100"] == 27);
  CHECK(points["completion-32k-h100"] == 25);
  CHECK(points["completion-32k-a100"] == 20);
  CHECK(points["completion-128k-h100"] == 15);
  CHECK(points["completion-128k-a100"] == 9);
}

TEST_CASE("input: every published point of the paper is in the paper grid once") {
  const auto table =
      sim::input::load_runs(support::in_repository("calibration/measured/paper_points.csv"));
  REQUIRE(table);
  REQUIRE(table->rows.size() == 292);
  using Key = std::tuple<std::string, std::int64_t, int, int, int, int, int>;
  std::map<Key, int> points;
  const Grid grid = paper();
  for (std::size_t i = 0; i < grid.size(); ++i) {
    const GridPoint point = grid.point(i);
    if (point.family.starts_with("completion-")) continue;
    const sim::program::Plan& plan = point.plan;
    ++points[{point.machine->cluster.name, plan.batch.sequence, plan.world(), plan.mesh.tp,
              plan.mesh.cp, plan.mesh.pp, plan.batch.micro_batch}];
    CHECK(plan.batch.global_batch == 1024);
  }
  for (const auto& row : table->rows) {
    const auto number = [&](const char* column) {
      return static_cast<int>(row.number(column).value());
    };
    const bool a100 = contains(row.text("gpu"), "A100");
    const Key key{a100 ? "abci-a" : "tsubame4",
                  number("seq"),
                  number("n_gpus"),
                  number("tp"),
                  number("cp"),
                  number("pp"),
                  number("mbs")};
    CAPTURE(row.line, row.text("row_id"));
    CHECK(points[key] == 1);
  }
}

TEST_CASE("input: the paper grid runs with the flags of the paper's scripts") {
  const Grid grid = paper();
  for (std::size_t i = 0; i < grid.size(); ++i) {
    const GridPoint point = grid.point(i);
    const sim::program::Plan& plan = point.plan;
    const bool a100 = point.machine->cluster.name == "abci-a";
    CHECK(plan.stack.attention ==
          (a100 ? sim::program::AttentionBackend::flash : sim::program::AttentionBackend::cudnn));
    CHECK((plan.mesh.sequence_parallel && plan.sharding.distributed_optimizer &&
           plan.sharding.overlap_grad_reduce));
    CHECK((plan.sharding.overlap_param_gather && plan.numerics.fp32_gradients &&
           !plan.environment.avoid_record_streams));
    CHECK(plan.policy.recompute == sim::program::Recompute::none);
    CHECK(plan.numerics.precision == sim::model::Precision::bf16);
  }
}

TEST_CASE(
    "input: a grid's name is that of a folder: blanks and letters of any tongue may be in it") {
  const auto named = [](const std::string& name) {
    support::Scratch scratch;
    return problems(
        load_grid(scratch.write("g.textproto", "name: \"" + name + "\"\n" + grid_text)));
  };
  for (const char* name : {"strong scaling", "grö\303\237e", "a.b", "..a", "~"}) {
    CAPTURE(name);
    CHECK(named(name) == "");
  }
  for (const char* name : {".", "..", "a/b", "a\\tb", "a\\037b", "a\\177b"}) {
    CAPTURE(name);
    CHECK(contains(named(name), "'name' is the name of a folder"));
  }
}
