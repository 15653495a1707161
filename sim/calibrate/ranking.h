// ranking.h — tests whether predictions put plans in the order in which they were measured. The
// command `validate` calls it. A contest is a set of rows with the same source, model, GPU, number
// of GPUs, sequence length and batch.
#pragma once

#include <string>
#include <vector>

#include "sim/calibrate/rows/row_plan.h"
#include "sim/calibrate/validate.h"

namespace sim::calibrate {

struct Ranking {
  int contests = 0;       // with at least two plans that ran and have a prediction
  int best_in_three = 0;  // contests where the measured best is predicted among the best three
  int best_first = 0;     // contests where it is predicted as the best
  double spearman = 0;    // mean over contests, weighted by number of plans - 1
  std::vector<std::string> missed;  // contests without the best among the three
};

// Spearman's rank correlation; ties share the mean of their ranks. 0 if one side has only ties.
// REQUIRES: as many values on both sides, at least one.
double spearman(const std::vector<double>& one, const std::vector<double>& other);

Ranking ranking(const std::vector<Row>& rows, const std::vector<Prediction>& predictions);

// Summary of the ranking as text; "" without a contest.
std::string ranking_text(const Ranking& ranking);

}  // namespace sim::calibrate
