// ranking.h — does a prediction put plans in the order in which they were measured: plans of one
// model on one machine, at one sequence length and batch and on as many GPUs, are one contest.
#pragma once

#include <string>
#include <vector>

#include "sim/calibrate/rows/row_plan.h"
#include "sim/calibrate/validate.h"

namespace sim::calibrate {

struct Ranking {
  int contests = 0;       // of at least two plans that ran and were predicted
  int best_in_three = 0;  // the plan measured fastest is among the three said to be fastest
  int best_first = 0;     // it is said to be the fastest
  double spearman = 0;    // mean over contests, each weighed by its plans less one
  std::vector<std::string> missed;  // contests whose best is not in the three
};

// Spearman's coefficient of two orders, equal values sharing the mean of their places; 0 where one
// side has no order. REQUIRES: as many values on both sides, at least one.
double spearman(const std::vector<double>& one, const std::vector<double>& other);

Ranking ranking(const std::vector<Row>& rows, const std::vector<Prediction>& predictions);

// "" where the table has no contest.
std::string ranking_text(const Ranking& ranking);

}  // namespace sim::calibrate
