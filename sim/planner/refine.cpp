#include "sim/planner/refine.h"

#include "sim/search/pool.h"

namespace sim::planner {
namespace {

constexpr std::size_t few = 3;

bool splits_evenly(const workload::Plan& plan) {
  return plan.mesh.pp > 1 && plan.pipeline.layer_split == workload::LayerSplit::even &&
         plan.pipeline.layers_of_parts.empty();
}

// What the ends count as is in the times already.
workload::Plan balanced(workload::Plan plan) {
  plan.pipeline.layer_split = workload::LayerSplit::balanced;
  plan.pipeline.account_for_embedding = plan.pipeline.account_for_loss = false;
  return plan;
}

std::string words_of(const Space& space, const Replayed& one) {
  Core core = space.cores()[one.core];
  core.counts_ends = false;
  return space.words(core, one.variant) + " layer_split=balanced";
}

}  // namespace

std::vector<Refined> refined(const Space& space, search::Sites& sites, const Wanted& wanted,
                             const std::vector<Replayed>& best,
                             const std::function<bool()>& go_on) {
  std::vector<std::size_t> items;
  for (std::size_t i = 0; i < std::min(few, best.size()); ++i)
    if (splits_evenly(space.plan(space.cores()[best[i].core], best[i].variant))) items.push_back(i);
  std::vector<Refined> all(best.size());
  search::PoolCalls calls;
  calls.answer = [&](std::size_t i) {
    const Core& core = space.cores()[best[i].core];
    search::Site& site = **sites.of(space.bases()[core.base].file.machine);
    const workload::Plan plan = balanced(space.plan(core, best[i].variant));
    if (!search::problems(plan, site).empty()) return std::string();
    Replayed one = replayed(space, plan, core.base, site, wanted);
    one.core = best[i].core;
    one.variant = best[i].variant;
    return to_text(one);
  };
  calls.answered = [&](std::size_t i, const std::string& text) {
    if (!text.empty()) all[i] = {i, words_of(space, best[i]), replayed_of(text)};
    return true;
  };
  calls.failed = [](std::size_t, const std::string&) { return true; };
  calls.go_on = go_on;
  search::run_pool(items, wanted.workers, calls);
  std::vector<Refined> found;
  for (Refined& one : all)
    if (one.replayed.fits && one.replayed.step_ps < best[one.rank].step_ps)
      found.push_back(std::move(one));
  return found;
}

}  // namespace sim::planner
