#include "sim/calibrate/ranking.h"

#include <catch2/catch.hpp>

using namespace sim::calibrate;

TEST_CASE("calibrate: a ranking counts contests whose measured best is among the first three") {
  // Two groups of plans are ranked. With 8 GPUs the best of four plans (1 s) is predicted as the
  // last, the others are in order. Ranks 0 1 2 3 against 3 0 1 2 give Spearman's coefficient 1 - 6
  // x 12 / (4 x 15) = -0.2. With 16 GPUs all are in order: 1.
  std::vector<Row> rows;
  std::vector<Prediction> said;
  const auto add = [&](const char* gpus, const char* measured, double predicted) {
    rows.push_back({{"n_gpus", gpus}, {"iter_time_s", measured}, {"oom", "0"}});
    Prediction p;
    p.status = "predicted";
    p.iter_time_s = predicted;
    said.push_back(p);
  };
  add("8", "1", 9);
  add("8", "2", 2);
  add("8", "3", 3);
  add("8", "4", 4);
  add("16", "1", 1);
  add("16", "2", 5);
  add("32", "1", 1);  // alone: no contest
  const Ranking r = ranking(rows, said);
  CHECK(r.contests == 2);
  CHECK(r.best_first == 1);
  CHECK(r.best_in_three == 1);
  CHECK(r.missed.size() == 1);
  CHECK(r.spearman == Approx((3 * -0.2 + 1) / 4));
  CHECK(ranking_text(Ranking{}).empty());
}

TEST_CASE("calibrate: what is all alike has no rank and correlates with nothing") {
  const std::vector<double> alike = {2, 2, 2}, rising = {1, 2, 3}, falling = {3, 2, 1};
  CHECK(spearman(rising, rising) == Approx(1));
  CHECK(spearman(rising, falling) == Approx(-1));
  CHECK(spearman(alike, rising) == 0);
  CHECK(spearman(rising, alike) == 0);
  CHECK(spearman(alike, alike) == 0);
}
