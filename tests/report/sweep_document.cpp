#include "sim/report/sweep_document.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sim/report/record.h"
#include "tests/report/sample.h"

using namespace sim;

TEST_CASE("report: a sweep ends with counts and best points and reasons and the rule") {
  report::Answer slow = sample::fits();
  slow.rates[0].tflops_gpu = 149;
  slow.plan.batch.micro_batch = 2;
  report::Answer wrong = sample::out_of_memory();  // the estimate says that it fits
  const std::vector<report::Json> records = {
      report::record({"00000000000000a0", "toy/a", "toy"}, slow),
      report::record({"00000000000000b0", "toy/b", "toy"}, sample::fits()),
      report::record({"00000000000000c0", "toy/c", "toy"}, wrong),
      report::record({"00000000000000d0", "toy/d", "toy"}, "impossible",
                     "tp 3 does not divide 16 heads", slow.plan, "toy-cluster")};
  CHECK(text(report::sweep_answer(records)) ==
        "4 points: 2 fit, 1 run out of memory, 1 impossible\n"
        "\n"
        "fastest of each world size (per GPU; TFLOP/s by the paper's formula)\n"
        "  model  cluster       seq  GPUs  TP  CP  PP  DP  mbs  TFLOP/s  tokens/s  step s   GiB"
        "    of\n"
        "  toy    toy-cluster  4096     8   2   1   2   2    1    150.0       819   10.00  22.0"
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
  const report::Json json = result(report::sweep_answer(records));
  CHECK(json["oom"] == 1);
  CHECK(json["rule_80_percent"]["says_fits_replay_oom"] == 1);
}
