#include "sim/calibrate/fit/fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "sim/calibrate/fit/minimum.h"
#include "sim/cluster/device/kernel.h"

namespace sim::calibrate {

namespace {

constexpr std::size_t least_samples = 5;
constexpr double noise = 0.03;  // of one sample, relative
constexpr int evaluations = 1500;
constexpr int evaluations_again = 500;  // for each fold of a cross-validation

// A sample with its group and its relation to the profile's GPU.
struct Item {
  const KernelSample* sample;
  std::size_t group;  // index of (source, gpu); samples of a group share a level
  bool sibling;
  // Instances of one shape share the model's error, so the weight stops growing at least_samples.
  std::size_t weight() const {
    return static_cast<std::size_t>(
        std::clamp<std::int64_t>(sample->count, 1, static_cast<std::int64_t>(least_samples)));
  }
};
using Items = std::vector<Item>;

bool from_a_run(const Items& items) {
  return std::any_of(items.begin(), items.end(), [](const Item& i) { return i.sample->in_run; });
}

std::string block_of(const KernelSample& sample) {
  switch (sample.operations.front().kind) {
    case model::OperationKind::gemm:
      return "gemm";
    case model::OperationKind::attention_forward:
    case model::OperationKind::attention_backward:
      return "attention";
    case model::OperationKind::norm:
      return "norm";
    case model::OperationKind::elementwise:
      return "elementwise";
    case model::OperationKind::softmax:
      return "softmax";
    case model::OperationKind::copy:
      return "copy";
    case model::OperationKind::reduction:
      return "reduction";
    case model::OperationKind::optimizer:
      return "optimizer";
    case model::OperationKind::embedding:
      return "embedding";
    case model::OperationKind::host_copy:
    case model::OperationKind::pageable_copy:
    case model::OperationKind::cpu_update:
      break;
  }
  return "";
}

// Predicts samples by one draft. Holds a copy of the profile per attention implementation, with
// that implementation first.
class Predictor {
 public:
  Predictor(const input::ProfileDraft& draft, const device::Gpu& gpu)
      : gpu_(gpu), profile_(draft.device()), run_(profile_) {
    // Tables of kernels come from short runs: the sustained rate does not apply.
    profile_.gemm.sustained = 1;
    profile_.gemm.alone = true;
    for (device::AttentionProfile& one : profile_.attention) one.sustained = 1;
    for (std::size_t i = 0; i < profile_.attention.size(); ++i) {
      device::Profile turned = profile_;
      std::swap(turned.attention[0], turned.attention[i]);
      by_name_.emplace(profile_.attention[i].implementation, std::move(turned));
    }
  }

  double seconds(const KernelSample& sample) const {
    const auto found = by_name_.find(sample.implementation);
    const device::Profile& profile = sample.in_run             ? run_
                                     : found == by_name_.end() ? profile_
                                                               : found->second;
    Duration sum{};
    for (const model::Operation& operation : sample.operations)
      sum += device::time(operation, gpu_, profile);
    return sim::seconds(sum);
  }
  bool knows(const KernelSample& sample) const {
    if (!sample.implementation.empty() && !by_name_.count(sample.implementation)) return false;
    return std::all_of(sample.operations.begin(), sample.operations.end(),
                       [&](const model::Operation& o) {
                         return (o.kind != model::OperationKind::gemm &&
                                 o.kind != model::OperationKind::attention_forward &&
                                 o.kind != model::OperationKind::attention_backward) ||
                                device::supports(gpu_, profile_, o.precision);
                       });
  }

 private:
  const device::Gpu& gpu_;
  device::Profile profile_, run_;  // at the rate of short runs; at that of a training run
  std::map<std::string, device::Profile> by_name_;
};

// ln(measured / predicted) of each item. For siblings the mean of their group is subtracted.
std::vector<double> log_errors(const Items& items, const Predictor& predictor, std::size_t groups) {
  std::vector<double> errors;
  std::vector<double> sum(groups), count(groups);
  for (const Item& item : items) {
    errors.push_back(std::log(item.sample->seconds / predictor.seconds(*item.sample)));
    sum[item.group] += errors.back();
    ++count[item.group];
  }
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (items[i].sibling) errors[i] -= sum[items[i].group] / count[items[i].group];
  }
  return errors;
}

double mean_absolute_percent(const std::vector<double>& log_errors) {
  if (log_errors.empty()) return 0;
  double sum = 0;
  for (const double e : log_errors) sum += std::abs(std::exp(-e) - 1);  // of the measured time
  return 100 * sum / static_cast<double>(log_errors.size());
}

// The search over the parameters of one block.
struct Search {
  const device::Gpu& gpu;
  const Items& items;
  std::size_t groups;
  input::ProfileDraft draft;
  std::vector<FittedParameter> moving;
  std::vector<double> priors;
  std::vector<bool> first;  // parameters that kernels of a run move first

  double objective(const double* x) {
    double sum = 0;
    for (std::size_t i = 0; i < moving.size(); ++i) {
      draft.set(moving[i].path, x[i]);
      const double away = (x[i] - moving[i].base) / priors[i];
      sum += away * away / 2;
    }
    const Predictor predictor(draft, gpu);
    const std::vector<double> errors = log_errors(items, predictor, groups);
    for (std::size_t i = 0; i < items.size(); ++i)
      sum += static_cast<double>(items[i].weight()) * huber_loss(errors[i], noise);
    return sum;
  }
};

// Moves the values of `search.moving` to the optimum and writes them to the draft.
void minimise(Search& search, int most) {
  const std::size_t n = search.moving.size();
  if (n == 0) return;
  std::vector<double> from;
  for (const FittedParameter& p : search.moving) from.push_back(p.value);
  const std::vector<double> found =
      calibrate::minimise(search.moving, search.priors, std::move(from), most,
                          [&](const double* x) { return search.objective(x); });
  for (std::size_t i = 0; i < n; ++i) {
    search.draft.set(search.moving[i].path, found[i]);
    search.moving[i].value = search.draft.get(search.moving[i].path);
  }
}

// Kernels of a run: fits the parameters marked `first`, then the others. Other sources: all
// together.
void minimise_in_turn(Search& search, int most) {
  if (!from_a_run(search.items)) {
    minimise(search, most);
    return;
  }
  for (const bool first : {true, false}) {
    Search some{search.gpu, search.items, search.groups, search.draft, {}, {}, {}};
    std::vector<std::size_t> which;
    for (std::size_t i = 0; i < search.moving.size(); ++i) {
      if (search.first[i] != first) continue;
      which.push_back(i);
      some.moving.push_back(search.moving[i]);
      some.priors.push_back(search.priors[i]);
    }
    minimise(some, most);
    search.draft = some.draft;
    for (std::size_t i = 0; i < which.size(); ++i) search.moving[which[i]] = some.moving[i];
  }
}

// The samples that depend on a parameter, and how many distinct shapes they have.
struct Felt {
  std::size_t samples = 0, shapes = 0;
};

std::size_t distinct_shapes(const Items& items, const std::vector<bool>& counted) {
  std::set<std::vector<model::Operation>> shapes;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!counted[i]) continue;
    std::vector<model::Operation> shape = items[i].sample->operations;
    for (model::Operation& operation : shape) operation.name = {};
    shapes.insert(std::move(shape));
  }
  return shapes.size();
}

// Samples whose residual changes by more than 0.05 % for a step of half a prior. A level does not
// count samples of siblings: their mean error is subtracted anyway.
Felt feel(const input::ProfileDraft& draft, const device::Gpu& gpu, const Items& items,
          std::size_t groups, const std::string& path, double step, const Parameter& parameter) {
  const double at = draft.get(path);
  const std::vector<double> before = log_errors(items, Predictor(draft, gpu), groups);
  std::vector<bool> moved(items.size());
  for (const double to :
       {std::min(parameter.upper, at + step), std::max(parameter.lower, at - step)}) {
    input::ProfileDraft changed = draft;
    changed.set(path, to);
    const std::vector<double> after = log_errors(items, Predictor(changed, gpu), groups);
    for (std::size_t i = 0; i < items.size(); ++i)
      if (std::abs(after[i] - before[i]) > 5e-4 && !(parameter.level && items[i].sibling))
        moved[i] = true;
  }
  Felt felt;
  for (std::size_t i = 0; i < items.size(); ++i) felt.samples += moved[i] ? items[i].weight() : 0;
  felt.shapes = distinct_shapes(items, moved);
  return felt;
}

// Levels alone move if there are fewer distinct shapes than parameters.
void keep_shapes(std::size_t shapes, Search& search, std::vector<FittedParameter>& all) {
  if (search.moving.size() <= shapes) return;
  Search levels = search;
  levels.moving.clear();
  levels.priors.clear();
  levels.first.clear();
  for (std::size_t i = 0; i < search.moving.size(); ++i) {
    if (search.moving[i].level) {
      levels.moving.push_back(search.moving[i]);
      levels.priors.push_back(search.priors[i]);
      levels.first.push_back(search.first[i]);
      continue;
    }
    for (FittedParameter& p : all)
      if (p.path == search.moving[i].path) p.fitted = false;
  }
  search.moving = std::move(levels.moving);
  search.priors = std::move(levels.priors);
  search.first = std::move(levels.first);
}

Search prepare(const std::string& block, const input::ProfileDraft& draft, const device::Gpu& gpu,
               const Items& items, std::size_t groups, std::vector<FittedParameter>& all) {
  Search search{gpu, items, groups, draft, {}, {}, {}};
  for (const Parameter& parameter : parameters()) {
    if (parameter.block != block) continue;
    if (parameter.of_runs_alone && !from_a_run(items)) continue;
    for (const std::string& path : draft.paths(std::string(parameter.path))) {
      FittedParameter p;
      p.block = block;
      p.path = path;
      p.element = draft.element(path);
      p.base = p.value = draft.get(path);
      p.lower = parameter.lower;
      p.upper = parameter.upper;
      const double prior =
          parameter.relative ? std::max(parameter.prior * std::abs(p.base), 1e-9) : parameter.prior;
      const Felt felt = feel(draft, gpu, items, groups, path, prior / 2, parameter);
      p.samples = felt.samples;
      p.shapes = felt.shapes;
      p.level = parameter.level || parameter.of_runs;
      p.rate = parameter.level;
      // A step of a plan has the shapes of the plan, and its levels are those of these shapes.
      const bool enough = p.shapes >= least_samples || (p.level && from_a_run(items));
      p.fitted = p.samples >= least_samples && enough && p.base >= p.lower && p.base <= p.upper;
      if (p.fitted) {
        search.moving.push_back(p);
        search.priors.push_back(prior);
        search.first.push_back(parameter.of_runs);
      }
      all.push_back(p);
    }
  }
  keep_shapes(distinct_shapes(items, std::vector<bool>(items.size(), true)), search, all);
  return search;
}

// Folds of a cross-validation: one per source; with a single source, every fifth sample.
struct Folds {
  std::vector<std::size_t> of;  // item -> fold
  std::size_t count = 0;
  std::string split;
  bool of_one_source = false;
};

Folds folds_of(const Items& items, std::size_t groups) {
  Folds folds;
  std::vector<std::size_t> seen(groups, groups);
  for (const Item& item : items) {
    if (seen[item.group] == groups) seen[item.group] = folds.count++;
    folds.of.push_back(seen[item.group]);
  }
  folds.split = "one source left out";
  if (folds.count < 2) {
    folds.of_one_source = true;
    folds.count = std::min<std::size_t>(5, items.size());
    folds.split = fmt::format("{} folds of one source", folds.count);
    for (std::size_t i = 0; i < items.size(); ++i) folds.of[i] = i % folds.count;
  }
  return folds;
}

Fit::Unseen cross_validate(const Search& fitted, const input::ProfileDraft& base,
                           const std::string& block) {
  const Items& items = fitted.items;
  const Folds folds = folds_of(items, fitted.groups);
  std::vector<double> errors, base_errors;
  for (std::size_t fold = 0; fold < folds.count; ++fold) {
    Items seen, unseen;
    for (std::size_t i = 0; i < items.size(); ++i)
      (folds.of[i] == fold ? unseen : seen).push_back(items[i]);
    if (seen.empty() || unseen.empty()) continue;
    Search search{fitted.gpu,    seen,          fitted.groups, base,
                  fitted.moving, fitted.priors, fitted.first};
    for (FittedParameter& p : search.moving) p.value = p.base;  // each fold starts at the base
    minimise_in_turn(search, evaluations_again);
    const auto add = [&](const input::ProfileDraft& draft, std::vector<double>& to) {
      const std::vector<double> some =
          log_errors(unseen, Predictor(draft, fitted.gpu), fitted.groups);
      to.insert(to.end(), some.begin(), some.end());
    };
    add(search.draft, errors);
    add(base, base_errors);
  }
  return {block,
          folds.split,
          errors.size(),
          mean_absolute_percent(errors),
          mean_absolute_percent(base_errors),
          folds.of_one_source};
}

void residuals_of_block(const Items& items, const input::ProfileDraft& base,
                        const input::ProfileDraft& fitted, const device::Gpu& gpu,
                        std::size_t groups, std::vector<SourceResidual>& out) {
  const Predictor before(base, gpu), after(fitted, gpu);
  const std::vector<double> old_errors = log_errors(items, before, groups);
  const std::vector<double> errors = log_errors(items, after, groups);
  std::map<std::pair<std::string, std::size_t>, std::vector<std::size_t>> by_source;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const KernelSample& sample = *items[i].sample;
    std::string group = sample.group;
    if (!sample.implementation.empty()) group += ", " + sample.implementation;
    by_source[{group, items[i].group}].push_back(i);
  }
  for (const auto& [key, some] : by_source) {
    SourceResidual r;
    r.group = key.first;
    r.source = items[some.front()].sample->source;
    r.gpu = items[some.front()].sample->gpu;
    for (const std::size_t i : some) r.samples += static_cast<std::size_t>(items[i].sample->count);
    std::vector<double> now, was;
    double sum = 0, squares = 0, level = 0;
    for (const std::size_t i : some) {
      now.push_back(errors[i]);
      was.push_back(old_errors[i]);
      sum += errors[i];
      squares += errors[i] * errors[i];
      r.bias_percent += 100 * (std::exp(-errors[i]) - 1) / static_cast<double>(some.size());
      level += std::log(items[i].sample->seconds / after.seconds(*items[i].sample)) - errors[i];
    }
    const double n = static_cast<double>(some.size());
    r.mean_absolute_percent = mean_absolute_percent(now);
    r.base_percent = mean_absolute_percent(was);
    r.level = std::exp(level / n);
    r.noise_percent = 100 * std::sqrt(std::max(0.0, squares / n - sum * sum / n / n));
    r.standard_error_percent = n > 1 ? r.noise_percent / std::sqrt(n - 1) : 100 * noise;
    r.block = block_of(*items[some.front()].sample);
    out.push_back(r);
  }
}

// Whether the fit has a larger error than its start in any group of measurements.
bool is_worse(const Search& search, const input::ProfileDraft& before) {
  std::vector<SourceResidual> groups;
  residuals_of_block(search.items, before, search.draft, search.gpu, search.groups, groups);
  return std::any_of(groups.begin(), groups.end(), [](const SourceResidual& r) {
    return r.mean_absolute_percent > r.base_percent + 1e-9;
  });
}

}  // namespace

Fit fit(const input::ProfileDraft& base, const device::Gpu& gpu,
        const std::vector<KernelSample>& samples) {
  Fit out{base, {}, {}, {}, {}, {}};
  std::map<std::string, Items> blocks;
  std::map<std::string, std::map<std::pair<std::string, std::string>, std::size_t>> groups;
  const Predictor known(base, gpu);
  for (const KernelSample& sample : samples) {
    assert(!sample.operations.empty() && sample.seconds > 0);
    const Kinship kin = kinship(sample.gpu, gpu.name);
    if (kin == Kinship::stranger) {
      ++out.passed[fmt::format("kernels of another GPU ({})", sample.gpu)];
      continue;
    }
    if (!known.knows(sample)) {
      ++out.passed[sample.implementation.empty()
                       ? "kernels in a precision that the profile does not have"
                       : fmt::format("attention '{}': not in the profile", sample.implementation)];
      continue;
    }
    const std::string block = block_of(sample);
    auto& ids = groups[block];
    const auto id = ids.try_emplace({sample.source, sample.gpu}, ids.size()).first->second;
    blocks[block].push_back({&sample, id, kin == Kinship::sibling});
  }
  for (const auto& [block, items] : blocks) {
    const std::size_t count = groups[block].size();
    out.shapes[block] = distinct_shapes(items, std::vector<bool>(items.size(), true));
    if (!from_a_run(items)) out.shapes_of_tables[block] = out.shapes[block];
    Search search = prepare(block, out.profile, gpu, items, count, out.parameters);
    const input::ProfileDraft before = out.profile;
    minimise_in_turn(search, evaluations);
    if (from_a_run(items) && is_worse(search, before)) {
      for (FittedParameter& p : search.moving) p.value = p.base;
      search.draft = before;
    }
    for (const FittedParameter& moved : search.moving) {
      out.profile.set(moved.path, moved.value);
      for (FittedParameter& p : out.parameters)
        if (p.path == moved.path) p.value = out.profile.get(p.path);
    }
    residuals_of_block(items, before, out.profile, gpu, count, out.residuals);
    if (!search.moving.empty()) out.unseen.push_back(cross_validate(search, before, block));
  }
  out.disagreements = disagreements(out.residuals);
  return out;
}

}  // namespace sim::calibrate
