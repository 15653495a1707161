#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "sim/calibrate/fit/fit.h"
#include "sim/calibrate/fit/minimum.h"
#include "sim/calibrate/fit/network_samples.h"
#include "sim/calibrate/fit/physical_ramps.h"

namespace sim::calibrate {

namespace {

constexpr double noise = 0.05;
constexpr double worse_noise = 0.002;  // scale of an error beyond the base's
constexpr double tolerance = 1e-3;     // relative, since durations are whole picoseconds
constexpr int evaluations = 4000;
constexpr int rounds = 2;  // of linearisation

// Linear model of the network around the current parameters: ln(rate) and latency of each sample.
struct Surrogate {
  std::vector<FittedParameter> moving;
  std::vector<double> priors, at;
  std::vector<PredictedTime> base;                       // of the samples
  std::vector<std::vector<double>> elasticity, latency;  // parameter -> sample
  std::vector<double> allowed;                           // error that each sample may have
  std::vector<bool> first;                               // parameters that a run moves first
  const NetworkSamples* items = nullptr;

  double objective(const double* x) const {
    double sum = 0;
    std::vector<double> logs(moving.size());
    for (std::size_t p = 0; p < moving.size(); ++p) {
      const double away = (x[p] - moving[p].base) / priors[p];
      sum += away * away / 2;
      logs[p] = at[p] > 0 && x[p] > 0 ? std::log(x[p] / at[p]) : 0;
    }
    for (std::size_t s = 0; s < base.size(); ++s) {
      PredictedTime said = base[s];
      double log_rate = 0;
      for (std::size_t p = 0; p < moving.size(); ++p) {
        log_rate += elasticity[p][s] * logs[p];
        said.latency += latency[p][s] * (x[p] - at[p]);
      }
      said.rate *= std::exp(log_rate);
      said.latency = std::max(said.latency, 1e-9);
      const double error = log_error((*items)[s], said);
      const double beyond = std::max(0.0, std::abs(error) - allowed[s]) / worse_noise;
      sum += (*items)[s].weight() * huber_loss(error, noise) + beyond * beyond;
    }
    return sum;
  }
};

// Collectives of a run: fits the parameters marked `first`, then the others. Other sources: all
// together.
std::vector<double> minimise(const Surrogate& surrogate) {
  const bool run =
      std::any_of(surrogate.items->begin(), surrogate.items->end(),
                  [](const NetworkSample& item) { return item.sample->groups.has_value(); });
  std::vector<double> x = surrogate.at;
  for (const bool turn : {true, false}) {
    if (!run && turn) continue;
    std::vector<std::size_t> which;
    std::vector<FittedParameter> moving;
    std::vector<double> priors, from;
    for (std::size_t p = 0; p < x.size(); ++p) {
      if (run && surrogate.first[p] != turn) continue;
      which.push_back(p);
      moving.push_back(surrogate.moving[p]);
      priors.push_back(surrogate.priors[p]);
      from.push_back(x[p]);
    }
    if (which.empty()) continue;
    const std::vector<double> found =
        calibrate::minimise(moving, priors, from, evaluations, [&](const double* some) {
          for (std::size_t k = 0; k < which.size(); ++k) x[which[k]] = some[k];
          return surrogate.objective(x.data());
        });
    for (std::size_t k = 0; k < which.size(); ++k) x[which[k]] = found[k];
  }
  return x;
}

// The draft with one value moved by a part of its prior. Unchanged if no such step passes the
// checks.
input::ProfileDraft nearby(const input::ProfileDraft& draft, const std::string& path, double prior,
                           const FittedParameter& p) {
  for (const double part : {1.0 / 3, -1.0 / 3, 1.0 / 30, -1.0 / 30}) {
    const double to = p.value + part * prior;
    if (to < p.lower || to > p.upper) continue;
    input::ProfileDraft moved = draft;
    moved.set(path, to);
    if (network::check(moved.communication()).empty()) return moved;
  }
  return draft;
}

// Builds the linear model: moves each parameter a little and predicts all samples again.
Surrogate linearised(const input::ProfileDraft& base, const input::ProfileDraft& draft,
                     const NetworkSamples& items, const std::vector<PredictedTime>& said,
                     const std::vector<double>& allowed, std::vector<FittedParameter>& all) {
  Surrogate out;
  out.items = &items;
  out.base = said;
  out.allowed = allowed;
  for (const Parameter& parameter : parameters()) {
    if (parameter.block != "communication") continue;
    for (const std::string& path : draft.paths(std::string(parameter.path))) {
      FittedParameter p;
      p.block = "communication";
      p.path = path;
      p.base = base.get(path);
      p.value = draft.get(path);
      p.lower = parameter.lower;
      p.upper = parameter.upper;
      p.level = parameter.level || parameter.of_runs;
      p.rate = parameter.level;
      const double prior =
          parameter.relative ? std::max(parameter.prior * p.base, 1e-12) : parameter.prior;
      const input::ProfileDraft moved = nearby(draft, path, prior, p);
      const double step = moved.get(path) - p.value;
      std::vector<double> elasticity(items.size()), latency(items.size());
      const auto after = predict(items, moved.communication());
      for (std::size_t s = 0; s < items.size() && step != 0; ++s) {
        if (!after[s] || after[s]->algorithm != said[s].algorithm) continue;
        const double bytes = static_cast<double>(items[s].sample->bytes.n);
        if (p.value > 0 && moved.get(path) > 0)
          elasticity[s] =
              std::log(after[s]->rate / said[s].rate) / std::log(moved.get(path) / p.value);
        latency[s] = (after[s]->latency - said[s].latency) / step;
        if (std::abs(after[s]->seconds(bytes) / said[s].seconds(bytes) - 1) > 5e-4)
          p.samples += static_cast<std::size_t>(items[s].weight());
      }
      p.fitted = p.samples >= least_network_samples && p.base >= p.lower && p.base <= p.upper;
      if (p.fitted) {
        out.moving.push_back(p);
        out.priors.push_back(prior);
        out.at.push_back(p.value);
        out.first.push_back(parameter.of_runs);
        out.elasticity.push_back(std::move(elasticity));
        out.latency.push_back(std::move(latency));
      }
      all.push_back(p);
    }
  }
  return out;
}

std::string group_of(const NetworkSample& item) {
  return fmt::format("{}, {}", collective::name(item.sample->kind),
                     item.cluster.nodes == 1 ? "one node" : "several nodes");
}

void add_residuals(const NetworkSamples& items, const std::vector<PredictedTime>& before,
                   const std::vector<std::optional<PredictedTime>>& after, Fit& out) {
  std::map<std::tuple<std::string, std::string, std::string>, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < items.size(); ++i)
    if (after[i])
      groups[{group_of(items[i]), items[i].sample->source, items[i].sample->gpu}].push_back(i);
  for (const auto& [key, some] : groups) {
    SourceResidual r;
    std::tie(r.group, r.source, r.gpu) = key;
    for (const std::size_t i : some) r.samples += static_cast<std::size_t>(items[i].sample->count);
    const double n = static_cast<double>(some.size());
    double sum = 0, squares = 0;
    for (const std::size_t i : some) {
      const double now = log_error(items[i], *after[i]);
      sum += now;
      squares += now * now;
      r.mean_absolute_percent += 100 * std::abs(std::exp(-now) - 1) / n;
      r.bias_percent += 100 * (std::exp(-now) - 1) / n;
      r.base_percent += 100 * std::abs(std::exp(-log_error(items[i], before[i])) - 1) / n;
    }
    r.noise_percent = 100 * std::sqrt(std::max(0.0, squares / n - sum * sum / n / n));
    r.standard_error_percent = n > 1 ? r.noise_percent / std::sqrt(n - 1) : 100 * noise;
    r.block = "communication";
    out.residuals.push_back(r);
  }
}

// Cross-validation on the linear model: fits some samples, predicts the others.
void cross_validate(const Surrogate& all, const NetworkSamples& items, Fit& out) {
  std::map<std::string, std::size_t> sources;
  for (const NetworkSample& item : items) sources.try_emplace(item.sample->source, sources.size());
  const bool by_source = sources.size() > 1;
  const std::size_t folds = by_source ? sources.size() : std::min<std::size_t>(5, items.size());
  Fit::Unseen unseen;
  unseen.block = "communication";
  unseen.of_one_source = !by_source;
  unseen.split = by_source ? "one source left out" : fmt::format("{} folds of one source", folds);
  for (std::size_t fold = 0; fold < folds; ++fold) {
    Surrogate some = all;
    NetworkSamples seen;
    std::vector<std::size_t> indices, left;
    for (std::size_t i = 0; i < items.size(); ++i) {
      const std::size_t of = by_source ? sources[items[i].sample->source] : i % folds;
      (of == fold ? left : indices).push_back(i);
    }
    if (indices.empty() || left.empty()) continue;
    const auto pick = [&](const auto& from, auto& to, const std::vector<std::size_t>& which) {
      to.clear();
      for (const std::size_t i : which) to.push_back(from[i]);
    };
    Surrogate test = all;
    NetworkSamples tested;
    pick(items, seen, indices);
    pick(items, tested, left);
    pick(all.base, some.base, indices);
    pick(all.base, test.base, left);
    pick(all.allowed, some.allowed, indices);
    for (std::size_t p = 0; p < all.moving.size(); ++p) {
      pick(all.elasticity[p], some.elasticity[p], indices);
      pick(all.latency[p], some.latency[p], indices);
    }
    some.items = &seen;
    const std::vector<double> x = minimise(some);
    for (std::size_t k = 0; k < left.size(); ++k) {
      PredictedTime said = all.base[left[k]];
      const double was = log_error(tested[k], said);
      for (std::size_t p = 0; p < all.moving.size(); ++p) {
        if (all.at[p] > 0 && x[p] > 0)
          said.rate *= std::pow(x[p] / all.at[p], all.elasticity[p][left[k]]);
        said.latency += all.latency[p][left[k]] * (x[p] - all.at[p]);
      }
      said.latency = std::max(said.latency, 1e-9);
      unseen.percent += 100 * std::abs(std::exp(-log_error(tested[k], said)) - 1);
      unseen.base_percent += 100 * std::abs(std::exp(-was) - 1);
      ++unseen.samples;
    }
  }
  if (unseen.samples == 0) return;
  unseen.percent /= static_cast<double>(unseen.samples);
  unseen.base_percent /= static_cast<double>(unseen.samples);
  out.unseen.push_back(unseen);
}

// Error that each sample may have: that of the base. With several sources there is no such bound.
std::vector<double> allowed_errors(const NetworkSamples& items,
                                   const std::vector<PredictedTime>& before) {
  const bool several = std::any_of(items.begin(), items.end(), [&](const NetworkSample& item) {
    return item.sample->source != items.front().sample->source;
  });
  std::vector<double> allowed;
  for (std::size_t i = 0; i < items.size(); ++i)
    allowed.push_back(several ? std::numeric_limits<double>::max()
                              : std::abs(log_error(items[i], before[i])));
  return allowed;
}

// Whether any sample has a larger error than allowed.
bool is_worse(const NetworkSamples& items, const std::vector<std::optional<PredictedTime>>& answers,
              const std::vector<double>& allowed) {
  for (std::size_t i = 0; i < items.size(); ++i)
    if (!answers[i] || std::abs(log_error(items[i], *answers[i])) > allowed[i] + tolerance)
      return true;
  return false;
}

// The point furthest from the base towards `fitted` at which no sample's error exceeds its bound.
// All parameters move together first, then each one alone.
input::ProfileDraft nowhere_worse(const input::ProfileDraft& base,
                                  const input::ProfileDraft& fitted, const NetworkSamples& items,
                                  const std::vector<FittedParameter>& moved,
                                  const std::vector<double>& allowed) {
  constexpr int parts = 8;
  const auto fits = [&](const input::ProfileDraft& draft) {
    return network::check(draft.communication()).empty() &&
           !is_worse(items, predict(items, draft.communication()), allowed);
  };
  const auto between = [&](const FittedParameter& p, int part) {
    return p.base + (fitted.get(p.path) - p.base) * part / parts;
  };
  if (fits(fitted)) return fitted;
  input::ProfileDraft best = base;
  int reached = 0;
  for (int part = parts - 1; part > 0 && reached == 0; --part) {
    input::ProfileDraft draft = base;
    for (const FittedParameter& p : moved) draft.set(p.path, between(p, part));
    make_physical(draft);
    if (!fits(draft)) continue;
    best = draft;
    reached = part;
  }
  for (const FittedParameter& p : moved) {
    if (fitted.get(p.path) == p.base) continue;
    for (int part = parts; part > reached; part -= 2) {
      input::ProfileDraft draft = best;
      draft.set(p.path, between(p, part));
      if (!fits(draft)) continue;
      best = draft;
      break;
    }
  }
  return best;
}

// Distinct sizes, kinds and groups of ranks.
std::size_t distinct_shapes(const NetworkSamples& items, bool of_tables) {
  std::set<std::tuple<collective::Kind, int, int, std::int64_t>> shapes;
  for (const NetworkSample& item : items)
    if (!of_tables || !item.sample->groups)
      shapes.insert(
          {item.sample->kind, item.sample->ranks, item.cluster.nodes, item.sample->bytes.n});
  return shapes.size();
}

}  // namespace

void fit_network(const input::Machine& machine, const std::vector<CollectiveSample>& samples,
                 Fit& out) {
  NetworkSamples items = usable_samples(machine, samples, out.passed);
  const input::ProfileDraft base = out.profile;
  const std::vector<PredictedTime> before = keep_answered(items, base.communication(), out.passed);
  if (items.empty()) return;
  out.shapes["communication"] = distinct_shapes(items, false);
  if (std::ranges::any_of(items, [](const NetworkSample& item) { return !item.sample->groups; }))
    out.shapes_of_tables["communication"] = distinct_shapes(items, true);
  input::ProfileDraft best = base;
  const auto cost = [&](const std::vector<std::optional<PredictedTime>>& answers) {
    double sum = 0;
    for (std::size_t i = 0; i < items.size(); ++i)
      sum += answers[i] ? std::min(std::abs(log_error(items[i], *answers[i])), 1.0) : 1.0;
    return sum;
  };
  double best_cost = cost(predict(items, base.communication()));
  const std::vector<double> allowed = allowed_errors(items, before);
  std::vector<FittedParameter> all;
  std::vector<PredictedTime> here = before;
  input::ProfileDraft draft = base;
  for (int round = 0; round < rounds; ++round) {
    std::vector<FittedParameter> now;
    Surrogate surrogate = linearised(base, draft, items, here, allowed, now);
    if (round == 0) {
      all = now;
      if (!surrogate.moving.empty()) cross_validate(surrogate, items, out);
    }
    if (surrogate.moving.empty()) break;
    const std::vector<double> x = minimise(surrogate);
    for (std::size_t p = 0; p < x.size(); ++p) draft.set(surrogate.moving[p].path, x[p]);
    make_physical(draft);
    const auto answers = predict(items, draft.communication());
    const double reached = cost(answers);
    if (reached >= best_cost) break;
    best_cost = reached;
    best = draft;
    for (std::size_t i = 0; i < items.size(); ++i)
      if (answers[i]) here[i] = *answers[i];
  }
  best = nowhere_worse(base, best, items, all, allowed);
  for (FittedParameter& p : all) {
    p.value = best.get(p.path);
    // A monotone ramp may also move points without measurements.
    if (!p.fitted && p.value != p.base) p.fitted = true;
  }
  out.profile = best;
  out.parameters.insert(out.parameters.end(), all.begin(), all.end());
  const std::vector<std::optional<PredictedTime>> after = predict(items, best.communication());
  add_residuals(items, before, after, out);
  for (std::size_t i = 0; i < items.size(); ++i) {
    out.collectives.push_back(compared_of(items[i], before[i]));
    if (after[i])
      out.collectives.back().fitted_s =
          after[i]->seconds(static_cast<double>(items[i].sample->bytes.n));
  }
}

}  // namespace sim::calibrate
