// balance.h — splits the layers of a model over pipeline parts so that no stage is much slower than
// others.
//
// resolve_balanced.h calls `balanced` for plans with layer_split: balanced. The split is a dynamic
// program over contiguous parts. It uses the priced times of the plan's own blocks:
//
//     slowest(parts, layers) = min over n of max(slowest(parts - 1, layers - n),
//                                                time of the last part with n layers)
//
// A part is one chunk of one stage. Its pace scales the layer times of its stage. Pace is above 1
// for a stage on slower GPUs. The slowest data-parallel peer of the stage sets the pace.
//
// Among the splits with the same slowest part, `balance` returns the most even one (least sum of
// squares). With several chunks per stage, a stage can be slow although none of its parts is.
// `balance_stages` therefore also assigns layers one by one to the stage with the least work. This
// is optimal when all layers take the same time.
//
// The replay decides: a stage that runs out of memory gives up one layer of its largest part, and
// the split is computed again. The sum of the layers never changes.
//
// Source: Li et al., "Integrated Hardware Architecture and Device Placement Search" (PHAZE,
// arXiv:2407.13143), section 4: contiguous layers on the devices of a pipeline.
#pragma once

#include <optional>
#include <vector>

#include "sim/answer/evaluate.h"

namespace sim::answer {

// Times of one microbatch, forward and backward together, in seconds.
struct PartCosts {
  std::vector<double> layers;    // of each layer of the model
  std::vector<double> ends;      // of each part, without its layers (embedding, head)
  std::vector<double> pace;      // factor on layer times, for each part; empty: all 1
  std::vector<int> least, most;  // bounds on the layers of each part
};

// Layers of each part; empty if no split obeys the bounds. REQUIRES: `ends`, `least` and `most`
// have the same size, at least 1.
std::vector<int> balance(const PartCosts& costs);
// Balances the time of whole stages: the sum over the parts of a stage. All layers count as equal.
// `stages`: the stage of each part.
std::vector<int> balance_stages(const PartCosts& costs, const std::vector<int>& stages);

// Fills `layers_of_parts` of a plan with layer_split: balanced. Other plans are returned unchanged.
// Candidates are the balanced splits and the padded, even and weighted splits. The replay chooses
// the fastest one that fits.
CheckedPlan balanced(const CheckedPlan& plan);
// The same among splits whose lower bound on the step time is below `limit`. Nothing: there is
// none. After a split that runs out of memory the next ones have a slower slowest part. So the
// first bound that is not below `limit` ends these attempts. REQUIRES: layer_split is balanced and
// `layers_of_parts` is open.
std::optional<CheckedPlan> balanced_below(const CheckedPlan& plan, Duration limit);

}  // namespace sim::answer
