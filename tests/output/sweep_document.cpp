#include "sim/output/documents/sweep_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sim/output/record.h"
#include "tests/output/sample.h"
#include "tests/picture.h"

using namespace sim;

TEST_CASE("output: a sweep ends with counts and best points and reasons and the rule") {
  answer::Answer slow = sample::fits();
  for (answer::Rate& rate : slow.rates) rate.tflops_gpu -= 1;
  slow.plan.batch.micro_batch = 2;
  answer::Answer wrong = sample::out_of_memory();  // the estimate says that it fits
  const std::vector<output::Json> records = {
      output::record({"00000000000000a0", "toy/a", "toy"}, slow),
      output::record({"00000000000000b0", "toy/b", "toy"}, sample::fits()),
      output::record({"00000000000000c0", "toy/c", "toy"}, wrong),
      output::record({"00000000000000d0", "toy/d", "toy"}, "impossible",
                     "tp 3 does not divide 16 heads", slow.plan, "toy-cluster")};
  CHECK(text(output::sweep_answer(records)) ==
        "4 points: 2 fit, 1 run out of memory, 1 impossible\n"
        "\n"
        "fastest of each world size (per GPU; TFLOP/s as Megatron-LM counts them)\n"
        "  model  cluster       seq  GPUs  TP  CP  PP  DP  mbs  TFLOP/s  tokens/s  step s   GiB"
        "    of\n"
        "  toy    toy-cluster  4096     8   2   1   2   2    1    140.0       819   10.00  22.0"
        "  38.0\n"
        "\n"
        "where memory runs out\n"
        "  points  reason\n"
        "       1  stage 1 of 2, in step 1, forward\n"
        "\n"
        "impossible because\n"
        "  points  reason\n"
        "       1  tp 3 does not divide 16 heads\n"
        "\n"
        "the closed-form estimate against the replay (two different answers)\n"
        "  80 % rule of the closed form  replay fits  replay runs out of memory\n"
        "  says fits                               2                          1\n"
        "  says no                                 0                          0\n");
  const output::Json json = result(output::sweep_answer(records));
  CHECK(json["oom"] == 1);
  CHECK(json["rule_80_percent"]["says_fits_replay_oom"] == 1);
}

TEST_CASE("output: the best of a sweep are one for each world size and each global batch") {
  answer::Answer wide = sample::fits(), large = sample::fits();
  wide.plan.mesh.dp = 4;
  wide.plan.batch.global_batch = 32;
  large.plan.batch.global_batch = 32;
  const std::vector<output::Json> records = {
      output::record({"00000000000000a0", "toy/a", "toy"}, sample::fits()),
      output::record({"00000000000000b0", "toy/b", "toy"}, wide),
      output::record({"00000000000000c0", "toy/c", "toy"}, large)};
  const std::string said = text(output::sweep_answer(records));
  INFO(said);
  CHECK(said.find("fastest of each world size and global batch (per GPU") != std::string::npos);
  CHECK(said.find("seq  GPUs  batch  TP") != std::string::npos);
  const output::Json best = result(output::sweep_answer(records))["best"];
  REQUIRE(best.size() == 3);
  CHECK(best[0]["gbs"] == 16);
  CHECK(best[1]["gbs"] == 32);
  CHECK(best[2]["gpus"] == 16);
  // A page draws the throughput over GPUs where they vary.
  const auto scales = [](const std::vector<output::Json>& of) {
    const output::Document page = output::sweep_document("toy", of);
    return std::ranges::any_of(page.blocks, [](const output::Block& block) {
      const auto* series = std::get_if<output::Series>(&block);
      return series != nullptr && series->x == "gpus";
    });
  };
  CHECK(scales(records));
  CHECK(!scales({records[0], records[2]}));
}

TEST_CASE("output: the page of a sweep is as it was, and draws reasons only where there are any") {
  const auto one = [](const char* id, const char* point, const answer::Answer& answer) {
    return output::record({id, point, "toy"}, answer);
  };
  const output::Json fits = one("00000000000000a0", "toy/a", sample::fits());
  const output::Json runs_out = one("00000000000000b0", "toy/b", sample::out_of_memory());
  const auto charts = [](const output::Document& page) {
    std::string all;
    for (const output::Block& block : page.blocks) {
      if (const auto* series = std::get_if<output::Series>(&block))
        all += "series " + series->table + ": " + series->title + "\n";
      if (const auto* map = std::get_if<output::Heatmap>(&block))
        all += "heat map: " + map->title + "\n";
      if (const auto* table = std::get_if<output::Rows>(&block))
        all += fmt::format("table {}: {} rows\n", table->name, table->cells.size());
    }
    return all;
  };
  picture::same("output/pictures/sweep-page.txt",
                charts(output::sweep_document("toy", {fits, runs_out})));
  picture::same("output/pictures/sweep-page-fits.txt",
                charts(output::sweep_document("toy", {fits})));
}
