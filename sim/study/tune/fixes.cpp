#include "sim/study/tune/fixes.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "sim/job/schedule/schedule.h"
#include "sim/program/plan/shards.h"

namespace sim::study {

namespace {

using program::Plan;
using program::Recompute;
using program::RecomputeMethod;

int chunk_layers(const Plan& plan) {
  return std::min(plan.chunk_layers(0, 0),
                  plan.chunk_layers(plan.mesh.pp - 1, plan.pipeline.virtual_stages - 1));
}

void recompute_block(Plan& plan, int layers) {
  plan.policy.recompute = Recompute::full;
  plan.policy.recompute_method = RecomputeMethod::block;
  plan.policy.recompute_layers = layers;
}

std::string block_text(int layers) {
  return fmt::format("recompute=full recompute_method=block recompute_layers={}", layers);
}

// The most layers, below the even share, for one end stage such that the other stages share the
// rest evenly; 0 if no such split exists.
int smaller_end(const Plan& plan) {
  const bool even = plan.pipeline.first_stage_layers == 0 && plan.pipeline.last_stage_layers == 0 &&
                    !plan.pipeline.account_for_embedding && !plan.pipeline.account_for_loss;
  if (!even || plan.mesh.pp == 1) return 0;
  const int layers = static_cast<int>(plan.architecture.layers);
  const int given_away =
      (plan.mesh.pp - 1) * plan.pipeline.virtual_stages;  // one layer per chunk of the others
  return std::max(0, layers / plan.mesh.pp - given_away);
}

// Doubles a degree and halves the replicas; false if the replicas are odd.
bool trade_replicas(Plan& plan, int& degree) {
  if (plan.mesh.dp % 2 != 0) return false;
  degree *= 2;
  plan.mesh.dp /= 2;
  return true;
}

// The possible changes of a plan. `offer` checks a changed plan before it takes it.
class Changes {
 public:
  explicit Changes(const answer::CheckedPlan& checked) : checked_(checked) {}

  // `change` returns false if it does not apply to the plan.
  void offer(const std::string& text, const std::function<bool(Plan&)>& change) {
    Plan other = plan();
    if (!change(other)) return;
    if (const auto possible = answer::check(std::move(other), checked_.site()))
      changes_.push_back({text, *possible});
  }

  const Plan& plan() const { return checked_.plan(); }
  std::vector<Change> take() { return std::move(changes_); }

 private:
  const answer::CheckedPlan& checked_;
  std::vector<Change> changes_;
};

// Settings that cost no time.
void offer_free_changes(Changes& changes) {
  changes.offer("avoid_record_streams=true",
                [](Plan& p) { return !std::exchange(p.environment.avoid_record_streams, true); });
  changes.offer("allocator_options=expandable_segments:True", [](Plan& p) {
    const bool has =
        p.environment.allocator_options.find("expandable_segments:True") != std::string::npos;
    if (!has && !p.environment.allocator_options.empty()) p.environment.allocator_options += ",";
    p.environment.allocator_options += "expandable_segments:True";
    return !has;
  });
  changes.offer("distributed_optimizer=true", [](Plan& p) {
    return !p.shards_parameters() && !std::exchange(p.sharding.distributed_optimizer, true);
  });
  changes.offer("sequence_parallel=true", [](Plan& p) {
    return p.mesh.tp > 1 && !std::exchange(p.mesh.sequence_parallel, true);
  });
}

// Smaller microbatches, other attention, recomputation: less activation memory.
void offer_fewer_activations(Changes& changes) {
  const Plan& plan = changes.plan();
  for (int size = plan.batch.micro_batch / 2; size > 0 && plan.batch.micro_batch % size == 0;
       size /= 2) {
    changes.offer(fmt::format("micro_batch={}", size), [&](Plan& p) {
      p.batch.micro_batch = size;
      return true;
    });
  }
  changes.offer("attention=flash", [](Plan& p) {
    return std::exchange(p.stack.attention, program::AttentionBackend::flash) ==
           program::AttentionBackend::unfused;
  });
  changes.offer("recompute=selective", [](Plan& p) {
    const bool helps = p.policy.recompute == Recompute::none;
    p.policy.recompute = Recompute::selective;
    return helps && p.stack.attention == program::AttentionBackend::unfused;
  });
  // Recomputation per layer; `fewest_layers` finds the number.
  changes.offer(block_text(chunk_layers(plan)), [&](Plan& p) {
    const bool helps = p.policy.recompute != Recompute::full;
    recompute_block(p, chunk_layers(p));
    return helps;
  });
  changes.offer("recompute=full", [](Plan& p) {
    return std::exchange(p.policy.recompute, Recompute::full) != Recompute::full;
  });
}

// Other shares of layers, parameters, tensors and sequences.
void offer_other_shares(Changes& changes) {
  const Plan& plan = changes.plan();
  const int end = smaller_end(plan);
  changes.offer(fmt::format("first_stage_layers={}", end), [&](Plan& p) {
    p.pipeline.first_stage_layers = end;
    return end > 0;
  });
  changes.offer(fmt::format("last_stage_layers={}", end), [&](Plan& p) {
    p.pipeline.last_stage_layers = end;
    return end > 0;
  });
  for (const int stage : {2, 3}) {
    changes.offer(fmt::format("zero={}", stage), [&](Plan& p) {
      if (p.shards_parameters() || p.mesh.dp * p.mesh.cp == 1) return false;
      program::shard_parameters(p, program::DataParallelism::fsdp2, stage == 3);
      return true;
    });
  }
  changes.offer("fsdp.reshard_after_forward=true", [](Plan& p) {
    return p.shards_parameters() && !std::exchange(p.sharding.fsdp.reshard_after_forward, true);
  });
  changes.offer(fmt::format("tp={}", 2 * plan.mesh.tp),
                [](Plan& p) { return trade_replicas(p, p.mesh.tp); });
  changes.offer(fmt::format("cp={}", 2 * plan.mesh.cp),
                [](Plan& p) { return trade_replicas(p, p.mesh.cp); });
  changes.offer(fmt::format("pp={}", 2 * plan.mesh.pp),
                [](Plan& p) { return trade_replicas(p, p.mesh.pp); });
}

// The default schedule with one chunk per stage.
void offer_plain_schedule(Changes& changes) {
  const std::string plain(schedule::default_schedule().name);
  changes.offer("virtual_stages=1 schedule=" + plain, [&](Plan& p) {
    p.pipeline.schedule = plain;
    return std::exchange(p.pipeline.virtual_stages, 1) > 1;
  });
  changes.offer("schedule=" + plain, [&](Plan& p) {
    return p.pipeline.virtual_stages == 1 && p.mesh.pp > 1 &&
           std::exchange(p.pipeline.schedule, plain) != plain;
  });
}

}  // namespace

std::vector<Change> single_changes(const answer::CheckedPlan& checked) {
  Changes changes(checked);
  offer_free_changes(changes);
  offer_fewer_activations(changes);
  offer_other_shares(changes);
  offer_plain_schedule(changes);
  return changes.take();
}

namespace {

// The fewest recomputed layers per chunk that let the plan fit, by bisection: more recomputation
// never needs more memory. REQUIRES: `all`, which recomputes every layer, fits.
Fix fewest_layers(const answer::CheckedPlan& plan, Fix all) {
  int fits = chunk_layers(plan.plan()), fails = 0;
  while (fits - fails > 1) {
    Plan other = plan.plan();
    const int layers = (fits + fails) / 2;
    recompute_block(other, layers);
    const auto possible = answer::check(std::move(other), plan.site());
    if (!possible) break;
    answer::Answer answer = answer::evaluate(*possible);
    if (answer.run.fits()) {
      fits = layers;
      all = {block_text(layers), std::move(answer)};
    } else {
      fails = layers;
    }
  }
  return all;
}

// Pairs of changes, smaller ones first, until `enough` fit.
std::vector<Fix> fitting_pairs(const std::vector<Change>& singles) {
  constexpr std::size_t enough = 3, most_replays = 40;
  struct Pair {
    std::size_t size;
    Change change;
  };
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < singles.size(); ++i) {
    const std::vector<Change> more = single_changes(singles[i].plan);
    for (std::size_t j = 0; j < more.size(); ++j)
      pairs.push_back({i + j, {singles[i].text + " " + more[j].text, more[j].plan}});
  }
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const Pair& a, const Pair& b) { return a.size < b.size; });
  std::vector<Fix> found;
  std::set<std::string> seen;
  for (const Pair& pair : pairs) {
    if (found.size() == enough || seen.size() == most_replays) break;
    if (!seen.insert(output::line(output::to_json(pair.change.plan.plan()))).second) continue;
    answer::Answer answer = answer::evaluate(pair.change.plan);
    if (answer.run.fits()) found.push_back({pair.change.text, std::move(answer)});
  }
  return found;
}

}  // namespace

Fixes find_fixes(const answer::CheckedPlan& plan, bool pairs) {
  Fixes fixes;
  fixes.unlimited_step = answer::evaluate_unlimited(plan).run.step_time;
  const std::vector<Change> singles = single_changes(plan);
  bool any = false;
  for (const Change& change : singles) {
    Fix fix{change.text, answer::evaluate(change.plan)};
    any = any || fix.answer.run.fits();
    const program::LayerPolicy& policy = change.plan->policy;
    const bool block = policy.recompute == Recompute::full &&
                       policy.recompute_method == RecomputeMethod::block &&
                       plan->policy.recompute != Recompute::full;
    if (block && fix.answer.run.fits()) fix = fewest_layers(plan, std::move(fix));
    fixes.fixes.push_back(std::move(fix));
  }
  if (any || !pairs) return fixes;
  std::vector<Fix> two = fitting_pairs(singles);
  fixes.pairs = !two.empty();
  if (fixes.pairs) fixes.fixes = std::move(two);
  return fixes;
}

namespace {

// Relative change of the step time.
double cost(const Fixes& fixes, const Fix& fix) {
  return seconds(fix.answer.run.step_time) / seconds(fixes.unlimited_step) - 1;
}

}  // namespace

std::vector<output::Block> fixes_blocks(const Fixes& fixes, const std::string& key) {
  using output::Json;
  if (fixes.fixes.empty()) {
    return {output::Note{"", "no single change of the plan is possible"},
            output::Data{key, Json::array()}};
  }
  const std::string what =
      fixes.pairs ? "no single change is enough; pairs that are, smallest first, each replayed"
                  : "single changes of the plan, smallest first, each replayed";
  output::Rows rows{
      key,
      fmt::format("{} (tp, cp, pp: at the same number of GPUs)\n"
                  "  cost: against the plan as it is on GPUs with memory enough, {:.2f} s a step",
                  what, seconds(fixes.unlimited_step)),
      {{"change", "change", "", 0, true},
       {"", "replay says", "", 0, true},
       {"fits"},
       {"peak_reserved_bytes", "reserved", "GiB", 1, false, "", 1.0 / (1 << 30)},
       {"capacity_bytes", "of", "", 1, false, "", 1.0 / (1 << 30)},
       {"step_time_ps", "step", "s", 2, false, "", 1e-12},
       {"cost_fraction", "cost", "", 1, false, " %", 100, output::Show::change}},
      {}};
  for (const Fix& fix : fixes.fixes) {
    const engine::RunReport& run = fix.answer.run;
    std::vector<Json> cells = {fix.change, run.fits() ? "fits" : "out of memory", run.fits()};
    if (run.fits()) {
      const engine::ClassReport& who = answer::fullest(run);
      cells.insert(cells.end(),
                   {Json(who.peak_reserved.n), Json(who.capacity.n), Json(run.step_time.ps),
                    Json(output::rounded(cost(fixes, fix), 6))});
    }
    cells.resize(rows.columns.size());
    rows.cells.push_back(std::move(cells));
  }
  return {std::move(rows)};
}

}  // namespace sim::study
