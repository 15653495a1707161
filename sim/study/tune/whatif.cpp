#include "sim/study/tune/whatif.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "sim/answer/cluster_notes.h"
#include "sim/answer/evaluate.h"
#include "sim/answer/interval.h"
#include "sim/answer/run_cost.h"
#include "sim/base/drawn_range.h"
#include "sim/input/plan/plan.h"
#include "sim/output/record.h"
#include "sim/study/sweep/pool.h"
#include "sim/study/tune/link_use.h"
#include "sim/study/tune/losses.h"
#include "sim/study/tune/whatif_bound.h"

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

namespace {

// The settings of one draw, counted from the cluster's own seeds. Empty: nothing is drawn.
std::vector<std::string> settings_of_draw(const topology::Cluster& cluster, int draw) {
  std::vector<std::string> all;
  if (cluster.fabric.kind == topology::FabricKind::leaf_spine)
    all.push_back(fmt::format("fabric.hash_seed={}", cluster.fabric.hash_seed + draw));
  if (cluster.jitter.draws())
    all.push_back(fmt::format("jitter.seed={}", cluster.jitter.seed + draw));
  return all;
}

// Time of a class that is not a wait for others.
Duration own_time(const engine::ClassReport& who) {
  using engine::Account;
  Duration own{};
  for (const Duration time : who.accounts) own += time;
  own -= who.accounts[static_cast<std::size_t>(Account::pp_fill_drain)];
  own -= who.accounts[static_cast<std::size_t>(Account::rank_wait)];
  return own - who.accounts[static_cast<std::size_t>(Account::pp_imbalance)];
}

// The accounts of each stage's ranks that wait least: those that others wait for.
void set_stages(const engine::RunReport& run, output::WhatifRow& row) {
  std::map<int, const engine::ClassReport*> slowest;
  for (const engine::ClassReport& who : run.classes) {
    const engine::ClassReport*& of_stage = slowest[who.stage];
    if (of_stage == nullptr || own_time(who) > own_time(*of_stage)) of_stage = &who;
  }
  for (const auto& [stage, who] : slowest) {
    std::vector<double>& accounts = row.stages.emplace_back();
    for (const Duration time : who->accounts) accounts.push_back(seconds(time));
  }
}

// The row of an answer, without its links.
output::WhatifRow row_of(const input::Variant& variant, const answer::Answer& answer,
                         engine::MemoryDetail memory, const answer::CostBasis& basis) {
  output::WhatifRow row;
  row.name = variant.name;
  row.settings = variant.settings;
  row.fits = answer.run.fits();
  const engine::ClassReport& fullest = answer::fullest(answer.run);
  row.reserved_gib = gib(fullest.peak_reserved);
  row.memory = memory;
  if (answer.run.bounded) row.reserved_most_gib = gib(answer::reserved_most(answer.run));
  row.capacity_gib = gib(fullest.capacity);
  for (const engine::Outside& outside : fullest.outside) row.outside_gib += gib(outside.bytes);
  row.accounts = answer::mean_accounts(answer.run);
  set_stages(answer.run, row);
  if (!row.fits) {
    row.reason = answer::oom_reason(answer.run);
    return row;
  }
  row.step = answer::step_seconds(answer);
  row.gpus = static_cast<int>(answer.plan.world());
  row.tokens_gpu = answer::tokens_per_second_gpu(answer);
  row.tflops_gpu = answer.rates.front().tflops_gpu;
  row.bubble = answer.run.bubble;
  const answer::RunCost cost =
      answer::run_cost(basis, row.tokens_gpu, static_cast<int>(answer.plan.world()));
  row.cost_per_million_tokens = cost.per_million_tokens;
  row.days = cost.days;
  row.cost = cost.cost;
  row.energy_mwh = cost.mwh;
  return row;
}

Result<input::PlanFile> loaded(const WhatifSettings& settings,
                               const std::vector<std::string>& all) {
  return settings.launch.empty() ? input::load_plan(settings.plan, all)
                                 : input::load_megatron(settings.launch, all);
}

double price_of_variant(const input::Variant& variant, const input::Machine& machine,
                        const WhatifSettings& settings) {
  for (const std::string& name : {variant.name, machine.cluster.name})
    if (const auto at = settings.prices.find(name); at != settings.prices.end()) return at->second;
  return settings.price_per_gpu_hour > 0 ? settings.price_per_gpu_hour : machine.price_per_gpu_hour;
}

// Whether a variant sets the values that the base has already.
bool is_base(const input::PlanFile& file, const WhatifSettings& settings) {
  const Result<input::PlanFile> base = loaded(settings, settings.settings);
  return base && base->machine.cluster == file.machine.cluster &&
         base->machine.gpu == file.machine.gpu && base->machine.path == file.machine.path &&
         base->machine.others == file.machine.others &&
         base->machine.price_per_gpu_hour == file.machine.price_per_gpu_hour &&
         output::to_json(base->plan) == output::to_json(file.plan);
}

// Where the times of the cluster's kernels come from.
std::string kernels_text(const answer::Site& site) {
  const std::string& gpu = site.machine.gpu.name;
  std::string borrowed = answer::borrowed_text(site.profile.device, gpu);
  return borrowed.empty() ? fmt::format("kernels of {} on {}: measured or fitted on this GPU",
                                        site.profile.device.name, gpu)
                          : borrowed;
}

// The 90 % interval of an answer in words, or why it has none.
std::string interval_of(const answer::Answer& answer, const answer::Site& site,
                        const std::string& framework, const input::RunResiduals& residuals) {
  const answer::Basis basis =
      answer::basis_of(site.profile.device, site.machine.gpu.name, framework);
  const std::string text =
      answer::intervals_line(answer::intervals(answer, residuals, basis, "megatron"));
  return text.empty() ? "no 90 % interval: too few measured runs are near this plan" : text;
}

// One draw of a variant.
output::WhatifRow draw_row(const input::Variant& variant, const std::vector<std::string>& all,
                           const WhatifSettings& settings, answer::Sites& sites) {
  const Result<input::PlanFile> file = loaded(settings, all);
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
  const device::Gpu& gpu = file->machine.gpu;
  const answer::CostBasis basis = {price_of_variant(variant, file->machine, settings),
                                   gpu.board_power_w(), settings.tokens};
  output::WhatifRow row = row_of(variant, answer, settings.memory, basis);
  row.notes = answer::cluster_notes(**found, (*plan)->world());
  const bool other_cluster = std::ranges::any_of(
      variant.settings, [](const std::string& text) { return text.starts_with("cluster="); });
  if (other_cluster) row.notes.push_back(kernels_text(**found));
  if (std::string text = split_backward_text(plan->plan()); !text.empty())
    row.notes.push_back(std::move(text));
  if (!row.fits) return row;
  if (variant.settings.empty() && settings.residuals != nullptr)
    row.interval = interval_of(answer, **found, file->framework, *settings.residuals);
  const std::vector<LinkUse> uses = link_use(*plan, answer.run.step_time);
  if (!uses.empty()) {
    // The routes that define the numbers of the links.
    const topology::Routes& routes = plan->site().network->cover(1);
    for (const LinkKindUse& kind : by_kind(uses, routes)) {
      row.links.push_back(
          {kind.kind, kind.busiest, kind.traffic, kind.busy, kind.mean, kind.fabric});
    }
  }
  if (!variant.settings.empty() && is_base(*file, settings)) {
    row.bound = output::same_as_base;
  } else {
    row.bound = why_unchanged(variant.settings, **found, row, static_cast<int>((*plan)->world()));
    if (std::string note = spreading_note(variant.settings, **found); !note.empty())
      row.notes.push_back(std::move(note));
  }
  return row;
}

// Sets the mean and the 90 % range of a row from the steps of its draws.
void set_range(const std::vector<double>& steps, output::WhatifRow& row) {
  const DrawnRange range = drawn_range(steps);
  row.draws = static_cast<int>(steps.size());
  row.step_low = range.low;
  row.step_high = range.high;
  const double change = row.step / range.mean;
  row.tokens_gpu *= change;
  row.tflops_gpu *= change;
  for (double* paid : {&row.cost_per_million_tokens, &row.days, &row.cost, &row.energy_mwh})
    *paid /= change;
  row.step = range.mean;
}

}  // namespace

output::WhatifRow whatif_row(const input::Variant& variant, const WhatifSettings& settings,
                             answer::Sites& sites) {
  std::vector<std::string> all = settings.settings;
  all.insert(all.end(), variant.settings.begin(), variant.settings.end());
  output::WhatifRow row = draw_row(variant, all, settings, sites);
  const Result<input::PlanFile> file = loaded(settings, all);
  if (!file || !row.fits) return row;
  const topology::Cluster& cluster = file->machine.cluster;
  const bool paths = answer::draws_paths(cluster, file->plan->world());
  const int seeds = settings.seeds > 0 ? settings.seeds : paths ? draws_of_paths : 1;
  std::vector<double> steps = {row.step};
  for (int draw = 1; draw < seeds; ++draw) {
    const std::vector<std::string> drawn = settings_of_draw(cluster, draw);
    if (drawn.empty()) break;
    std::vector<std::string> with = all;
    with.insert(with.end(), drawn.begin(), drawn.end());
    const output::WhatifRow other = draw_row(variant, with, settings, sites);
    if (other.fits) steps.push_back(other.step);
  }
  if (steps.size() > 1)
    set_range(std::move(steps), row);
  else if (paths)
    row.notes.push_back(answer::paths_note(cluster, file->plan->world()));
  return row;
}

Result<std::vector<output::WhatifRow>> whatif(const WhatifSettings& settings,
                                              const std::vector<input::Variant>& variants,
                                              const std::function<bool(std::size_t)>& go_on) {
  const Result<input::PlanFile> base = loaded(settings, settings.settings);
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
