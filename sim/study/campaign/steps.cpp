#include "sim/study/campaign/steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace sim::campaign {
namespace {

std::string joined(const Diagnostics& problems) {
  std::string text;
  for (const Diagnostic& problem : problems) text += (text.empty() ? "" : "; ") + problem.message;
  return text;
}

std::vector<std::string> with(std::vector<std::string> settings,
                              const std::vector<std::string>& more) {
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

std::vector<std::string> sized(const Degrees& full, int tp, int cp, int pp, int dp) {
  // Every replica runs whole microbatches, as near to the global batch as possible.
  const int share =
      std::max(1, (full.global_batch + dp * full.micro_batch / 2) / (dp * full.micro_batch));
  std::vector<std::string> settings = {
      fmt::format("tp={}", tp), fmt::format("pp={}", pp), fmt::format("dp={}", dp),
      fmt::format("gpus={}", tp * cp * pp * dp),
      fmt::format("global_batch={}", share * dp * full.micro_batch)};
  if (cp != full.cp) settings.push_back(fmt::format("cp={}", cp));
  return settings;
}

}  // namespace

Degrees degrees_of(const program::Plan& plan) {
  return {plan.mesh.tp,           plan.mesh.cp,
          plan.mesh.pp,           plan.mesh.dp,
          plan.batch.micro_batch, plan.batch.global_batch,
          plan.batch.sequence,    plan.architecture.layers,
          plan.mesh.rank_order};
}

Result<input::PlanFile> Steps::load(const std::vector<std::string>& settings) const {
  return input::load_plan(path_, with(base_, settings));
}

const Step& Steps::of(const std::vector<std::string>& settings) {
  const std::string key = fmt::format("{}", fmt::join(settings, "\n"));
  if (const auto there = known_.find(key); there != known_.end()) return there->second;
  Step step;
  const Result<input::PlanFile> file = load(settings);
  if (!file) {
    step.problem = joined(file.errors());
    return known_[key] = step;
  }
  step.degrees = degrees_of(file->plan);
  const Result<answer::Site*> found = site(*file);
  if (!found) {
    step.problem = joined(found.errors());
    return known_[key] = step;
  }
  const Result<answer::CheckedPlan> plan = answer::check(file->plan, **found);
  if (!plan) {
    step.problem = fmt::format("{}", fmt::join(messages(plan.errors()), "; "));
    return known_[key] = step;
  }
  const answer::Answer answer = answer::evaluate_once(*plan);
  ++replays_;
  step.fits = answer.run.fits();
  if (step.fits) {
    step.seconds = answer::step_seconds(answer);
    step.tokens = std::int64_t{step.degrees.global_batch} * step.degrees.sequence;
  } else {
    step.problem = "out of memory: " + answer::oom_reason(answer.run);
  }
  return known_[key] = step;
}

std::vector<std::string> shrunk(const Degrees& full, int gpus) {
  const int dp = std::min(full.dp, gpus / (full.tp * full.cp * full.pp));
  if (dp < 1) return {};
  return sized(full, full.tp, full.cp, full.pp, dp);
}

namespace {

// A degree, its half, and its double if that is at most `most`.
std::set<int> near(int degree, int most) {
  std::set<int> all = {degree};
  if (degree % 2 == 0) all.insert(degree / 2);
  if (degree > 1 && 2 * degree <= most) all.insert(2 * degree);
  return all;
}

// Settings of plans that are replayed, for at most `gpus`.
std::vector<std::vector<std::string>> candidates(const Degrees& full, int gpus, int gpus_per_node) {
  std::vector<std::vector<std::string>> all;
  std::set<int> tensor = near(full.tp, gpus_per_node);
  if (2 * full.tp <= gpus_per_node) tensor.insert(2 * full.tp);
  for (const int tp : tensor) {
    for (const int cp : near(full.cp, gpus)) {
      for (int pp = 1; pp <= std::min<std::int64_t>(full.layers, 4 * full.pp); ++pp) {
        const int dp = gpus / (tp * cp * pp);
        const bool even = full.layers % pp == 0 || pp == full.pp;
        // At most one replica per microbatch. Plans that leave one eighth of the GPUs idle are not
        // tried.
        if (!even || dp < 1 || dp * full.micro_batch > full.global_batch) continue;
        if (8 * tp * cp * pp * dp < 7 * gpus) continue;
        all.push_back(sized(full, tp, cp, pp, dp));
      }
    }
  }
  return all;
}

}  // namespace

std::vector<std::string> replanned(Steps& steps, const std::vector<std::string>& settings,
                                   const Degrees& full, int gpus, int gpus_per_node, int* tried) {
  std::vector<std::string> best;
  double fastest = 0;
  const auto consider = [&](const std::vector<std::string>& shape) {
    for (const char* recompute : {"", "recompute=selective", "recompute=full"}) {
      std::vector<std::string> candidate = shape;
      if (*recompute != '\0') candidate.emplace_back(recompute);
      const Step& step = steps.of(with(settings, candidate));
      if (tried != nullptr) ++*tried;
      if (step.fits && step.per_second() > fastest) {
        fastest = step.per_second();
        best = candidate;
      }
      // More recomputation is tried only if the plan runs out of memory.
      if (step.fits || step.problem.rfind("out of memory", 0) != 0) return;
    }
  };
  // The same plan with fewer replicas is always tried, even if it leaves many GPUs idle.
  if (const std::vector<std::string> fewer = shrunk(full, gpus); !fewer.empty()) consider(fewer);
  for (const std::vector<std::string>& shape : candidates(full, gpus, gpus_per_node))
    consider(shape);
  return best;
}

}  // namespace sim::campaign
