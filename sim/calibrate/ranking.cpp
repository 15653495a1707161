#include "sim/calibrate/ranking.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <map>

#include "sim/calibrate/rows/row_text.h"

namespace sim::calibrate {

namespace {

struct Entry {
  double measured = 0, predicted = 0;  // seconds of one step
};

// Ranks from 0; ties share the mean of their ranks.
std::vector<double> ranks(const std::vector<double>& values) {
  std::vector<double> out;
  for (const double v : values) {
    const auto below = std::count_if(values.begin(), values.end(), [&](double w) { return w < v; });
    const auto equal = std::count(values.begin(), values.end(), v);
    out.push_back(static_cast<double>(below) + static_cast<double>(equal - 1) / 2);
  }
  return out;
}

}  // namespace

// Computed as Pearson's correlation of the ranks.
double spearman(const std::vector<double>& one, const std::vector<double>& other) {
  assert(one.size() == other.size() && !one.empty());
  const std::vector<double> a = ranks(one), b = ranks(other);
  const double mean = static_cast<double>(a.size() - 1) / 2;
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - mean) * (b[i] - mean);
    aa += (a[i] - mean) * (a[i] - mean);
    bb += (b[i] - mean) * (b[i] - mean);
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : 0;
}

Ranking ranking(const std::vector<Row>& rows, const std::vector<Prediction>& predictions) {
  assert(rows.size() == predictions.size());
  std::map<std::string, std::vector<Entry>> contests;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    const std::optional<double> time = number(cell(row, "iter_time_s"));
    if (predictions[i].status != "predicted" || cell(row, "oom") == "1" || !time || *time <= 0 ||
        !predictions[i].iter_time_s) {
      continue;
    }
    contests[fmt::format("{}, {}, {}, sequence {}, batch {}, {} GPUs", cell(row, "source_group"),
                         cell(row, "gpu"), cell(row, "model"), cell(row, "seq"), cell(row, "gbs"),
                         cell(row, "n_gpus"))]
        .push_back({*time, *predictions[i].iter_time_s});
  }
  Ranking out;
  double weight = 0;
  for (auto& [name, entries] : contests) {
    if (entries.size() < 2) continue;
    ++out.contests;
    const double w = static_cast<double>(entries.size() - 1);
    std::vector<double> measured, predicted;
    for (const Entry& e : entries) {
      measured.push_back(e.measured);
      predicted.push_back(e.predicted);
    }
    out.spearman += w * spearman(measured, predicted);
    weight += w;
    const Entry best =
        *std::min_element(entries.begin(), entries.end(),
                          [](const Entry& a, const Entry& b) { return a.measured < b.measured; });
    const auto ahead = std::count_if(entries.begin(), entries.end(),
                                     [&](const Entry& e) { return e.predicted < best.predicted; });
    out.best_first += ahead == 0;
    out.best_in_three += ahead < 3;
    if (ahead >= 3) out.missed.push_back(name);
  }
  if (weight > 0) out.spearman /= weight;
  return out;
}

std::string ranking_text(const Ranking& r) {
  if (r.contests == 0) return "";
  std::string text = fmt::format(
      "ranking of plans on one machine, at one sequence, batch and number of GPUs: {} contests\n"
      "  measured best said to be first in {}, among the first three in {}; Spearman {:.2f}\n",
      r.contests, r.best_first, r.best_in_three, r.spearman);
  for (const std::string& name : r.missed) text += "  missed: " + name + "\n";
  return text;
}

}  // namespace sim::calibrate
