#include "sim/study/tune/whatif.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "sim/answer/evaluate.h"
#include "sim/input/plan/plan.h"
#include "sim/output/record.h"
#include "sim/study/sweep/pool.h"
#include "sim/study/tune/link_use.h"

namespace sim::study {
namespace {

output::WhatifRow impossible(const input::Variant& variant, const Diagnostics& problems) {
  output::WhatifRow row;
  row.name = variant.name;
  row.settings = variant.settings;
  row.accounts.resize(engine::account_count, 0);
  for (const Diagnostic& problem : problems) {
    row.problem += (row.problem.empty() ? "" : "; ") + problem.message;
  }
  return row;
}

}  // namespace

output::WhatifRow whatif_row(const input::Variant& variant, const WhatifSettings& settings,
                             answer::Sites& sites) {
  std::vector<std::string> all = settings.settings;
  all.insert(all.end(), variant.settings.begin(), variant.settings.end());
  const Result<input::PlanFile> file = input::load_plan(settings.plan, all);
  if (!file) return impossible(variant, file.errors());
  const Result<answer::Site*> found = sites.of(file->machine);
  if (!found) return impossible(variant, found.errors());
  const Result<answer::CheckedPlan> plan = answer::check(file->plan, **found);
  if (!plan) return impossible(variant, plan.errors());
  if (settings.coupled && (*plan)->world() > most_coupled_gpus)
    return impossible(variant, {{"", fmt::format("--network coupled takes at most {} GPUs, not {}",
                                                 most_coupled_gpus, (*plan)->world())}});

  engine::Options how;
  how.couple = settings.coupled;
  how.memory = settings.memory;
  const answer::Answer answer = answer::evaluate(*plan, how);
  output::WhatifRow row;
  row.name = variant.name;
  row.settings = variant.settings;
  row.fits = answer.run.fits();
  const engine::ClassReport& fullest = answer::fullest(answer.run);
  row.reserved_gib = gib(fullest.peak_reserved);
  row.memory = settings.memory;
  if (answer.run.bounded) row.reserved_most_gib = gib(answer::reserved_most(answer.run));
  row.capacity_gib = gib(fullest.capacity);
  row.accounts = answer::mean_accounts(answer.run);
  if (!row.fits) {
    row.reason = answer::oom_reason(answer.run);
    return row;
  }
  row.step = answer::step_seconds(answer);
  row.tokens_gpu = answer::tokens_per_second_gpu(answer);
  row.tflops_gpu = answer.rates.front().tflops_gpu;
  row.bubble = answer.run.bubble;
  const double price = settings.price_per_gpu_hour > 0 ? settings.price_per_gpu_hour
                                                       : file->machine.price_per_gpu_hour;
  row.cost_per_million_tokens = price / 3600 / row.tokens_gpu * 1e6;
  const std::vector<LinkUse> uses = link_use(*plan, answer.run.step_time);
  if (!uses.empty()) {
    // The routes that define the numbers of the links.
    const topology::Routes& routes = plan->site().network->cover(1);
    for (const LinkKindUse& kind : by_kind(uses, routes)) {
      row.links.push_back(
          {kind.kind, kind.busiest, kind.traffic, kind.busy, kind.mean, kind.fabric});
    }
  }
  return row;
}

Result<std::vector<output::WhatifRow>> whatif(const WhatifSettings& settings,
                                              const std::vector<input::Variant>& variants,
                                              const std::function<bool(std::size_t)>& go_on) {
  const Result<input::PlanFile> base = input::load_plan(settings.plan, settings.settings);
  if (!base) return base.errors();
  std::vector<input::Variant> all = {{"base", {}}};
  all.insert(all.end(), variants.begin(), variants.end());
  std::vector<output::WhatifRow> rows(all.size());
  std::vector<std::size_t> items(all.size());
  std::iota(items.begin(), items.end(), std::size_t{0});
  std::size_t done = 0;
  answer::Sites sites;
  PoolCalls calls;
  calls.answer = [&](std::size_t i) {
    return output::line(output::to_json(whatif_row(all[i], settings, sites)));
  };
  calls.answered = [&](std::size_t i, const std::string& text) {
    rows[i] = output::whatif_row(output::Json::parse(text));
    ++done;
    return true;
  };
  calls.failed = [&](std::size_t i, const std::string& why) {
    rows[i] = impossible(all[i], {{"", "our program failed on it: " + why}});
    ++done;
    return true;
  };
  calls.go_on = [&] { return go_on(done); };
  if (!run_pool(items, settings.workers, calls)) return Diagnostics{{"", "interrupted"}};
  return rows;
}

}  // namespace sim::study
