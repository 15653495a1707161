// accuracy.cpp — errors of predictions, and intervals from past errors.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <map>
#include <tuple>

#include "sim/calibrate/rows/row_text.h"
#include "sim/calibrate/tables/error_statistics.h"
#include "sim/calibrate/validate.h"
#include "sim/output/csv.h"

namespace sim::calibrate {

namespace {

using input::ResidualOf;

bool compared(const Row& row, const Prediction& prediction) {
  return prediction.status == "predicted" && cell(row, "oom") != "1" && !prediction.assumes_gpus;
}

// ln(measured / predicted) of a time or of bytes; percentage points for a bubble.
std::optional<double> residual(const Row& row, const Prediction& prediction,
                               const Quantity& quantity) {
  if (!compared(row, prediction)) return std::nullopt;
  const std::optional<double> truth = measured(row, quantity);
  const std::optional<double> said = quantity.predicted(prediction);
  if (!truth || !said || *said <= 0) return std::nullopt;
  if (quantity.residual == ResidualOf::bubble) return *truth - *said;
  const double ratio = std::log(*truth / *said);
  return quantity.around == answer::around_inverse ? -ratio : ratio;
}

// The residual of a row in each quantity. Throughput and iteration time count once, as time.
std::map<ResidualOf, double> own_residuals(const Row& row, const Prediction& prediction) {
  std::map<ResidualOf, double> own;
  for (const Quantity& quantity : quantities())
    if (const std::optional<double> value = residual(row, prediction, quantity))
      own.try_emplace(quantity.residual, *value);
  return own;
}

// Whether the profile was fitted to this quantity of the row. Profiles are fitted to times, never
// to memory.
bool fitted_to(const Prediction& prediction, ResidualOf quantity) {
  return prediction.fitted && (quantity == ResidualOf::time || quantity == ResidualOf::bubble);
}

// Memory is equal on all ranks of a stage and for all batches that fill the pipeline. Rows that
// differ only in those count as one, by the row with the most memory. Stages hold different tensors
// and have different errors, so they count separately.
class Copies {
 public:
  Copies(const std::vector<Row>& rows, const std::vector<Prediction>& predictions) : rows_(rows) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (const auto& [quantity, value] : own_residuals(rows[i], predictions[i])) {
        if (!of_memory(quantity)) continue;
        const auto [most, first] = most_.try_emplace(what_ran(i, quantity), i);
        if (!first && amount(i, quantity) > amount(most->second, quantity)) most->second = i;
      }
    }
  }
  // The row that represents this one.
  std::size_t speaker(std::size_t row, ResidualOf quantity) const {
    return of_memory(quantity) ? most_.at(what_ran(row, quantity)) : row;
  }

 private:
  static bool of_memory(ResidualOf quantity) {
    return quantity == ResidualOf::allocated || quantity == ResidualOf::reserved;
  }
  using Ran = std::pair<ResidualOf, std::vector<std::string>>;
  Ran what_ran(std::size_t row, ResidualOf quantity) const {
    constexpr std::array columns = {
        "source_group", "model",   "layers",   "hidden",  "vocab",     "seq",       "gpu",
        "n_gpus",       "tp",      "pp",       "vp",      "dp",        "cp",        "ep",
        "sp",           "zero",    "schedule", "mbs",     "recompute", "precision", "attention",
        "framework",    "version", "extra",    "pp_stage"};
    Ran out{quantity, {}};
    for (const char* column : columns) out.second.push_back(cell(rows_[row], column));
    return out;
  }
  double amount(std::size_t row, ResidualOf quantity) const {
    const auto& all = quantities();
    const auto found = std::ranges::find(all, quantity, &Quantity::residual);
    return measured(rows_[row], *found).value_or(0);
  }

  const std::vector<Row>& rows_;
  std::map<Ran, std::size_t> most_;
};

// The residuals without the row's own. Files have four digits, so the own value is found by
// tolerance.
input::RunResiduals without(input::RunResiduals residuals, ResidualOf quantity, double own,
                            const std::string& source, const Prediction& prediction) {
  const answer::Situation& s = prediction.situation;
  for (input::ResidualGroup& g : residuals.groups) {
    if (g.quantity != quantity || g.source != source ||
        g.fitted != fitted_to(prediction, quantity) || g.profile != s.profile ||
        g.framework != s.framework || g.many_nodes != s.many_nodes ||
        g.context_parallel != s.context_parallel || g.shards != s.shards ||
        g.mixture != s.mixture || g.fp8 != s.fp8)
      continue;
    const auto at = std::ranges::find_if(g.values, [own](double value) {
      return std::abs(value - own) <= 1e-3 * std::abs(own) + 1e-7;
    });
    if (at != g.values.end()) g.values.erase(at);
  }
  std::erase_if(residuals.groups, [](const auto& g) { return g.values.empty(); });
  return residuals;
}

std::optional<answer::Interval> interval(const Quantity& quantity, const Prediction& prediction,
                                         const std::optional<answer::ResidualRange>& spread) {
  const std::optional<double> said = quantity.predicted(prediction);
  if (!said || !spread) return std::nullopt;
  return quantity.around(*said, *spread);
}

void count_inside(const Row& row, const Prediction& prediction, const Quantity& quantity,
                  Errors& out) {
  const auto q = static_cast<std::size_t>(&quantity - quantities().data());
  const double truth = measured(row, quantity).value();
  const auto count = [&](const std::vector<std::optional<answer::Interval>>& intervals,
                         std::size_t& all, std::size_t& inside) {
    if (q >= intervals.size() || !intervals[q]) return;
    ++all;
    if (intervals[q]->low <= truth && truth <= intervals[q]->high) ++inside;
  };
  count(prediction.intervals, out.with_interval, out.inside);
  count(prediction.intervals_elsewhere, out.with_interval_elsewhere, out.inside_elsewhere);
}

std::string cell_of(const std::optional<double>& value, int digits) {
  return value ? fmt::format("{:.{}f}", *value, digits) : "";
}

}  // namespace

const std::vector<Quantity>& quantities() {
  static const std::vector<Quantity> all = {
      {"throughput", "tflops_gpu", 4, [](const Prediction& p) { return p.tflops_gpu; },
       ResidualOf::time, answer::around_inverse},
      {"iteration time", "iter_time_s", 6, [](const Prediction& p) { return p.iter_time_s; },
       ResidualOf::time, answer::around},
      {"peak allocated", "mem_alloc_peak_gib", 4,
       [](const Prediction& p) { return p.allocated_gib; }, ResidualOf::allocated, answer::around},
      {"peak reserved", "mem_reserved_peak_gib", 4,
       [](const Prediction& p) { return p.reserved_gib; }, ResidualOf::reserved, answer::around},
      {"bubble", "bubble_pct", 4, [](const Prediction& p) { return p.bubble_pct; },
       ResidualOf::bubble, answer::around_points},
  };
  return all;
}

std::optional<double> measured(const Row& row, const Quantity& quantity) {
  const std::optional<double> value = number(cell(row, quantity.column));
  return value && *value > 0 ? value : std::nullopt;
}

std::optional<double> relative_error(const Row& row, const Prediction& prediction,
                                     const Quantity& quantity) {
  if (!compared(row, prediction)) return std::nullopt;
  const std::optional<double> truth = measured(row, quantity);
  const std::optional<double> said = quantity.predicted(prediction);
  if (!truth || !said) return std::nullopt;
  return (*said - *truth) / *truth;
}

void add_intervals(const std::vector<Row>& rows, std::vector<Prediction>& predictions,
                   const input::RunResiduals& residuals,
                   const std::optional<answer::ResidualRange>& own_time) {
  assert(rows.size() == predictions.size());
  // Rows of one situation share the spread of other sources, or of all sources if they have no
  // residual.
  using Key =
      std::tuple<ResidualOf, std::string, std::string, bool, bool, bool, bool, bool, std::string>;
  std::map<Key, std::optional<answer::ResidualRange>> known;
  const Copies copies(rows, predictions);
  const auto spread = [&](ResidualOf quantity, const answer::Situation& s,
                          const std::string& source) {
    if (own_time && quantity == ResidualOf::time) return own_time;
    const Key key{quantity, s.profile, s.framework, s.many_nodes, s.context_parallel,
                  s.shards, s.mixture, s.fp8,       source};
    const auto [at, fresh] = known.try_emplace(key);
    if (fresh) at->second = answer::spread(residuals, quantity, s, source);
    return at->second;
  };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Prediction& p = predictions[i];
    p.intervals.clear();
    p.intervals_elsewhere.clear();
    const std::string& source = cell(rows[i], "source_group");
    std::map<ResidualOf, std::optional<answer::ResidualRange>> spreads;
    for (const auto& [quantity, own] : own_residuals(rows[i], p)) {
      if (own_time && quantity == ResidualOf::time) {
        spreads[quantity] = own_time;
        continue;
      }
      const std::size_t said = copies.speaker(i, quantity);
      const double of_copies =
          said == i ? own : own_residuals(rows[said], predictions[said])[quantity];
      spreads[quantity] =
          answer::spread(without(residuals, quantity, of_copies, source, p), quantity, p.situation);
    }
    for (const Quantity& quantity : quantities()) {
      const auto [at, fresh] = spreads.try_emplace(quantity.residual);
      if (fresh) at->second = spread(quantity.residual, p.situation, "");
      p.intervals.push_back(interval(quantity, p, at->second));
      p.intervals_elsewhere.push_back(
          interval(quantity, p, spread(quantity.residual, p.situation, source)));
    }
  }
}

std::optional<double> residual_of(const Row& row, const Prediction& prediction,
                                  ResidualOf quantity) {
  const std::map<ResidualOf, double> own = own_residuals(row, prediction);
  const auto found = own.find(quantity);
  return found == own.end() ? std::nullopt : std::optional<double>(found->second);
}

std::optional<double> time_residual(const Row& row, const Prediction& prediction) {
  return residual_of(row, prediction, ResidualOf::time);
}

input::RunResiduals residuals_of(const std::vector<Row>& rows,
                                 const std::vector<Prediction>& predictions,
                                 const std::string& command) {
  assert(rows.size() == predictions.size());
  std::map<std::tuple<ResidualOf, std::string, std::string, bool, bool, std::string, bool, bool,
                      bool, bool>,
           std::vector<double>>
      groups;
  const Copies copies(rows, predictions);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const answer::Situation& s = predictions[i].situation;
    for (const auto& [quantity, value] : own_residuals(rows[i], predictions[i])) {
      if (copies.speaker(i, quantity) != i) continue;
      groups[{quantity, s.profile, s.framework, s.many_nodes, s.context_parallel,
              cell(rows[i], "source_group"), fitted_to(predictions[i], quantity), s.shards,
              s.mixture, s.fp8}]
          .push_back(value);
    }
  }
  input::RunResiduals out;
  out.command = command;
  for (auto& [key, values] : groups) {
    std::sort(values.begin(), values.end());
    const auto& [quantity, profile, framework, many, context, source, fitted, shards, mixture,
                 fp8] = key;
    out.groups.push_back({quantity, profile, framework, many, context, source, fitted, shards,
                          mixture, values, fp8});
  }
  return out;
}

std::vector<SourcesApart> sources_apart(const input::RunResiduals& residuals) {
  constexpr std::size_t least = 5;  // fewest rows of a source for its scatter
  struct Source {
    std::string situation, name;
    double middle = 0, scatter = 0, error = 0;
  };
  std::vector<Source> sources;
  for (const input::ResidualGroup& g : residuals.groups) {
    if (g.quantity != ResidualOf::time || g.values.size() < least) continue;
    const std::size_t n = g.values.size();
    Source s;
    s.situation = fmt::format("{}, {}{}", g.profile, g.many_nodes ? "several nodes" : "one node",
                              g.context_parallel ? ", context parallel" : "");
    s.name = fmt::format("{} ({}{})", g.source, g.framework, g.fitted ? ", fitted on" : "");
    s.middle = g.values[n / 2];
    double squares = 0;
    for (const double value : g.values) squares += (value - s.middle) * (value - s.middle);
    s.scatter = std::sqrt(squares / static_cast<double>(n - 1));
    // standard error of a median: sqrt(pi / 2) times that of a mean
    s.error = 1.2533 * s.scatter / std::sqrt(static_cast<double>(n));
    sources.push_back(s);
  }
  std::vector<SourcesApart> out;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    for (std::size_t j = i + 1; j < sources.size(); ++j) {
      const Source &a = sources[i], &b = sources[j];
      if (a.situation != b.situation) continue;
      const double apart = std::abs(a.middle - b.middle);
      const double scatter = std::max(a.scatter, b.scatter);
      if (apart <= scatter || apart <= 2 * std::hypot(a.error, b.error)) continue;
      out.push_back({a.situation, a.name, b.name, 100 * apart, 100 * scatter});
    }
  }
  return out;
}

std::string predictions_csv(const std::vector<Prediction>& predictions) {
  std::vector<std::string> columns = {"row_id",
                                      "status",
                                      "reason",
                                      "predicted_iter_time_s",
                                      "predicted_tflops_gpu",
                                      "predicted_mem_alloc_peak_gib",
                                      "predicted_mem_reserved_peak_gib",
                                      "predicted_oom",
                                      "predicted_bubble_pct"};
  for (const Quantity& quantity : quantities()) {
    for (const char* end : {"lo90", "hi90"})
      columns.push_back(fmt::format("predicted_{}_{}", quantity.column, end));
  }
  for (const char* last : {"fitted", "predicted_tight", "predicted_fits_probability"})
    columns.emplace_back(last);
  std::string text = output::csv_line(columns);
  for (const Prediction& p : predictions) {
    std::vector<std::string> cells = {p.row_id,
                                      p.status,
                                      p.reason,
                                      cell_of(p.iter_time_s, 6),
                                      cell_of(p.tflops_gpu, 4),
                                      cell_of(p.allocated_gib, 4),
                                      cell_of(p.reserved_gib, 4),
                                      p.oom ? (*p.oom ? "1" : "0") : "",
                                      cell_of(p.bubble_pct, 4)};
    for (std::size_t q = 0; q < quantities().size(); ++q) {
      const bool known = q < p.intervals.size() && p.intervals[q];
      const int digits = quantities()[q].digits;
      cells.push_back(known ? fmt::format("{:.{}f}", p.intervals[q]->low, digits) : "");
      cells.push_back(known ? fmt::format("{:.{}f}", p.intervals[q]->high, digits) : "");
    }
    cells.emplace_back(p.status == "predicted" ? (p.fitted ? "1" : "0") : "");
    cells.emplace_back(p.tight ? (*p.tight ? "1" : "0") : "");
    cells.push_back(cell_of(p.fits_probability, 2));
    text += output::csv_line(cells);
  }
  return text;
}

Errors errors(const std::vector<Row>& rows, const std::vector<Prediction>& predictions,
              const Quantity& quantity) {
  assert(rows.size() == predictions.size());
  std::vector<std::pair<double, std::string>> found;
  Errors out;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::optional<double> error = relative_error(rows[i], predictions[i], quantity);
    if (!error) continue;
    found.emplace_back(std::abs(*error) * 100, predictions[i].row_id);
    out.mean += std::abs(*error) * 100;
    out.bias += *error * 100;
    count_inside(rows[i], predictions[i], quantity, out);
  }
  if (found.empty()) return out;
  std::sort(found.begin(), found.end());
  const std::size_t n = found.size();
  out.rows = n;
  out.mean /= static_cast<double>(n);
  out.bias /= static_cast<double>(n);
  out.median = n % 2 == 1 ? found[n / 2].first : (found[n / 2 - 1].first + found[n / 2].first) / 2;
  out.p90 = found[p90_index(n)].first;
  out.most = found.back().first;
  out.worst = found.back().second;
  return out;
}

std::size_t Outcomes::rows() const {
  return counts[0][0] + counts[0][1] + counts[1][0] + counts[1][1];
}

double Outcomes::right_pct() const {
  const std::size_t all = rows();
  return all == 0
             ? 0
             : 100.0 * static_cast<double>(counts[0][0] + counts[1][1]) / static_cast<double>(all);
}

namespace {

std::optional<bool> says_out_of_memory(const Prediction& p, Judge judge) {
  switch (judge) {
    case Judge::replay:
      return p.oom;
    case Judge::decided:
      return p.tight == true ? std::nullopt : p.oom;
    case Judge::likely:
      if (p.fits_probability) return *p.fits_probability < 0.5;
      return p.oom;
    case Judge::rule:
      break;
  }
  return p.rule_says_oom;
}

}  // namespace

std::optional<bool> measured_out_of_memory(const Row& row) {
  const std::string& text = cell(row, "oom");
  if (text != "0" && text != "1") return std::nullopt;
  return text == "1";
}

Outcomes outcomes(const std::vector<Row>& rows, const std::vector<Prediction>& predictions,
                  Judge judge) {
  assert(rows.size() == predictions.size());
  Outcomes out;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::optional<bool> truth = measured_out_of_memory(rows[i]);
    const std::optional<bool> said = says_out_of_memory(predictions[i], judge);
    if (!truth || !said) continue;
    ++out.counts[*truth][*said];
  }
  return out;
}

}  // namespace sim::calibrate
