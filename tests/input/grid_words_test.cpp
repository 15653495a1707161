#include <catch2/catch.hpp>

#include "sim/input/plan/grid.h"
#include "support.h"

using sim::input::grid_of_words;
using support::contains;
using support::problems;

namespace {

using Words = std::vector<std::string>;

const Words job = {"model=llama-3.1-8b", "cluster=dgx-h100", "gpus=16", "gbs=64", "seq=8192"};

// The words of the job and more.
Words with(const Words& more) {
  Words all = job;
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace

TEST_CASE("input: words with several values are a grid, the first key the slowest") {
  const auto grid = grid_of_words(with({"tp=2,4", "pp=1,2"}));
  CAPTURE(problems(grid));
  REQUIRE(grid);
  REQUIRE(grid->size() == 4);
  CHECK(grid->name() == "llama-3.1-8b");
  CHECK(grid->point(0).name == "llama-3.1-8b/tp2-pp1");
  CHECK(grid->point(1).name == "llama-3.1-8b/tp2-pp2");
  CHECK(grid->point(2).name == "llama-3.1-8b/tp4-pp1");
  const auto point = grid->point(3);
  CHECK(point.plan.mesh.tp == 4);
  CHECK(point.plan.mesh.pp == 2);
  CHECK(point.plan.mesh.dp == 2);
  CHECK(point.plan.batch.global_batch == 64);
  CHECK(point.machine->cluster.name == "dgx-h100");
  CHECK(point.problems.empty());
}

TEST_CASE("input: words with one value each are one point") {
  const auto grid = grid_of_words(with({"tp=2"}));
  CAPTURE(problems(grid));
  REQUIRE(grid);
  CHECK(grid->size() == 1);
  CHECK(grid->point(0).plan.mesh.tp == 2);
}

TEST_CASE("input: models and clusters vary in words, a quoted list is one value") {
  const auto grid = grid_of_words({"model=llama-3.1-8b,llama-2-7b", "cluster=dgx-h100,abci-a",
                                   "gpus=16", "gbs=64", "seq=4096", "recompute=selective",
                                   "recompute_modules=\"core_attn,mlp\""});
  CAPTURE(problems(grid));
  REQUIRE(grid);
  REQUIRE(grid->size() == 4);
  CHECK(grid->name() == "sweep");
  CHECK(grid->machines().size() == 2);
  const auto last = grid->point(3);
  CHECK(last.plan.architecture.name == "llama-2-7b");
  CHECK(last.machine->cluster.name == "abci-a");
  CHECK(last.plan.policy.recompute_modules.mlp);
  CHECK(last.plan.policy.recompute_modules.core_attention);
}

TEST_CASE("input: mistakes in the words of a grid name the word") {
  const auto said = [](const Words& words) { return problems(grid_of_words(words)); };
  CHECK(contains(said(with({"tp=2,x"})), "command line, tp=2,x: 'tp' is a whole number"));
  CHECK(contains(said(with({"tp=2,2"})), "is there twice (tp2)"));
  CHECK(contains(said(with({"tp=2,4", "tp=1"})), "'tp' varies in the family"));
  CHECK(contains(said(with({"tp=2,4", "tp=8,16"})), "'tp' varies twice in the family"));
  CHECK(contains(said(with({"mbss=1,2"})), "no setting 'mbss'; did you mean 'mbs'?"));
  CHECK(contains(said(with({"tp="})), "a setting to vary is key=value,value..."));
  CHECK(contains(said(with({"tp"})), "a setting to vary is key=value,value..."));
  CHECK(contains(said(with({"tp=2,,4"})), "'tp' has an empty value"));
  CHECK(contains(said(with({"pipeline_layout=Et|tL,EtL"})), "has a blank or '|' and cannot vary"));
  CHECK(contains(said({"tp=1,2", "cluster=dgx-h100"}), "'Plan' needs the field 'global_batch'"));
}

TEST_CASE("input: a name that is not there is answered with names that add to it") {
  const auto said = [](const std::string& setting) {
    return problems(grid_of_words({"cluster=dgx-h100", "gpus=16", "gbs=64", "seq=8192", setting}));
  };
  for (const char* name : {"meta-llama/Llama-3.1-70B", "llama3-70b", "Llama-3.1-70b"}) {
    CAPTURE(name);
    CHECK(contains(said(std::string("model=") + name), "did you mean 'llama-3.1-70b'?"));
  }
  const std::string clusters = problems(
      grid_of_words({"model=llama-3.1-8b", "gpus=16", "gbs=64", "seq=8192", "cluster=H100"}));
  CHECK(contains(clusters, "did you mean 'dgx-h100' or "));
  // Without a name that adds to it, the nearest.
  CHECK(contains(said("model=llama-3.1-8c"), "did you mean 'llama-3.1-8b'?"));
}
