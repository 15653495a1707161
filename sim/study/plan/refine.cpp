#include "sim/study/plan/refine.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/answer/balance.h"
#include "sim/input/frameworks/framework.h"
#include "sim/study/sweep/pool.h"
#include "sim/study/tune/place.h"

namespace sim::planner {
namespace {

using program::LayerSplit;
using program::Plan;
using topology::FabricKind;

constexpr std::size_t few = 3;

struct Try {
  Plan plan;
  std::string settings;
  Replayed replayed;
};

// Whether the search, not the user, chose the split of layers.
bool splits_freely(const Space& space, const PlanShape& core, const Plan& plan) {
  const LayerSplit own = core.split == Split::padded ? LayerSplit::padded : LayerSplit::even;
  return plan.mesh.pp > 1 && plan.pipeline.layer_split == own &&
         plan.pipeline.layers_of_parts.empty() && !space.layers_said();
}

// Whether the choice of nodes affects the links that a job uses.
bool links_differ(const topology::Cluster& cluster) {
  const topology::Fabric& fabric = cluster.fabric;
  const bool tree = fabric.kind != FabricKind::dragonfly && fabric.kind != FabricKind::torus;
  return !cluster.rates.empty() || !cluster.conditions.empty() || !tree ||
         fabric.oversubscription > 1 || fabric.pod_oversubscription > 1;
}

// Refines one plan on its machine.
class Refining {
 public:
  Refining(const Space& space, answer::Sites& sites, const Wanted& wanted, const Replayed& one)
      : space_(space),
        wanted_(wanted),
        one_(one),
        core_(space.cores()[one.core]),
        site_(**sites.of(space.bases()[core_.base].file.machine)) {}

  Try best() {
    Try best{space_.plan(core_, one_.variant), space_.words(core_, one_.variant), one_};
    for (const auto& change : {&Refining::overlap, &Refining::balance, &Refining::place})
      (this->*change)(best);
    return best;
  }

 private:
  void balance(Try& best) {
    if (!splits_freely(space_, core_, best.plan)) return;
    Try other = best;
    // Block times already contain embedding and head.
    other.plan.pipeline.layer_split = LayerSplit::balanced;
    other.plan.pipeline.account_for_embedding = other.plan.pipeline.account_for_loss = false;
    PlanShape core = core_;
    core.split = Split::even;
    other.settings = space_.words(core, one_.variant) +
                     best.settings.substr(space_.words(core_, one_.variant).size()) +
                     " layer_split=balanced";
    const Result<answer::CheckedPlan> open = answer::check(other.plan, site_);
    if (!open) return;
    const auto split = answer::balanced_below(*open, Duration{best.replayed.step_ps});
    if (!split) return;
    other.plan = split->plan();
    take(other, site_, best);
  }

  // Messages of tensor parallelism behind products, as Megatron Core's programs have them.
  void overlap(Try& best) {
    const input::Framework* framework =
        input::find_framework(space_.bases()[core_.base].file.framework);
    if (framework != nullptr && framework->family != "Megatron-LM") return;
    if (best.plan.mesh.tp == 1 || !best.plan.mesh.sequence_parallel ||
        best.plan.stack.tp_comm_overlap || space_.states("tp_comm_overlap"))
      return;
    Try other = best;
    other.plan.stack.tp_comm_overlap = true;
    other.settings += " tp_comm_overlap=true";
    take(other, site_, best);
  }

  void place(Try& best) {
    const input::Machine& machine = site_.machine;
    const bool said = machine.text.find("\nhost: ") != std::string::npos;
    if (said || !links_differ(machine.cluster)) return;
    const study::Placement found = study::place(answer::checked(best.plan, site_));
    if (found.after == found.before) return;
    input::Machine moved = machine;
    // Unused nodes follow after the job's nodes, as in a cluster's file.
    moved.cluster.hosts = found.after;
    for (int node = 0; node < moved.cluster.nodes; ++node)
      if (std::ranges::find(found.after, node) == found.after.end())
        moved.cluster.hosts.push_back(node);
    moved.text += fmt::format("\nhost: {}", fmt::join(found.after, " "));
    const Result<answer::Site*> there = moved_.of(moved);
    if (!there) return;
    Try other = best;
    other.settings += fmt::format(" host=[{}]", fmt::join(found.after, ","));
    take(other, **there, best);
  }

  // Replays the change and keeps it if the framework can start it and it is faster.
  void take(Try& other, answer::Site& site, Try& best) {
    const std::vector<const Limit*>& limits = space_.bases()[core_.base].limits;
    if (std::ranges::any_of(limits, [&](const Limit* one) { return one->breaks(other.plan); }))
      return;
    const Result<answer::CheckedPlan> plan = answer::check(other.plan, site);
    if (!plan) return;
    other.replayed =
        replayed(*plan, space_.bases()[core_.base].file.framework, wanted_, Extent::while_it_fits);
    other.replayed.core = one_.core;
    other.replayed.variant = one_.variant;
    if (other.replayed.fits && other.replayed.step_ps < best.replayed.step_ps) best = other;
  }

  const Space& space_;
  const Wanted& wanted_;
  const Replayed& one_;
  const PlanShape& core_;
  answer::Site& site_;
  answer::Sites moved_;
};

}  // namespace

std::vector<Refined> refined(const Space& space, answer::Sites& sites, const Wanted& wanted,
                             const std::vector<Replayed>& best,
                             const std::function<bool()>& go_on) {
  std::vector<std::size_t> items(std::min(few, best.size()));
  for (std::size_t i = 0; i < items.size(); ++i) items[i] = i;
  std::vector<Refined> all(best.size());
  study::PoolCalls calls;
  calls.answer = [&](std::size_t i) {
    const Try found = Refining(space, sites, wanted, best[i]).best();
    if (found.replayed.step_ps >= best[i].step_ps) return std::string();
    return found.settings + "\n" + to_text(found.replayed);
  };
  calls.answered = [&](std::size_t i, const std::string& text) {
    const std::size_t end = text.find('\n');
    if (end != std::string::npos)
      all[i] = {i, text.substr(0, end), replayed_of(text.substr(end + 1))};
    return true;
  };
  calls.failed = [&](std::size_t i, const std::string& why) {
    const PlanShape& core = space.cores()[best[i].core];
    keep_failure(wanted, "what is near " + space.words(core, best[i].variant), why);
    return true;
  };
  calls.go_on = go_on;
  calls.abandon = true;
  study::run_pool(items, wanted.workers, calls);
  std::vector<Refined> found;
  for (Refined& one : all)
    if (!one.settings.empty()) found.push_back(std::move(one));
  return found;
}

}  // namespace sim::planner
