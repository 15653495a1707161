// assumptions.cpp — lists the times of a campaign that are zero, or as short as the hardware
// allows, because they are not stated. `build` calls it once per campaign.
#include <algorithm>

#include "sim/study/campaign/build.h"

namespace sim::campaign {

std::vector<Assumption> assumptions(const Setup& setup, bool with_plan) {
  std::vector<Assumption> all;
  const input::CheckpointFields& from = setup.file.checkpoints.back();
  const auto given = [](Bandwidth rate) { return rate.bytes_per_second > 0; };
  const bool rated = given(from.storage) || given(from.node) || given(from.writer);
  if (from.write < 0 && !from.in_memory && !rated) {
    if (with_plan)
      all.push_back({"storage as fast as the NICs of the nodes", "--storage"});
    else
      all.push_back({"checkpoint 0 s", "--checkpoint-write"});
  }
  const input::RestartFields& r = setup.file.restart;
  if (r.scheduling < 0 && r.start < 0 && r.communicators < 0 && r.compilation < 0 &&
      r.slow_steps == 0)
    all.push_back({with_plan ? "restart 0 s after the load" : "restart 0 s", "--restart"});
  const bool unseen =
      setup.kinds.empty() || std::ranges::any_of(setup.kinds, [](const input::FailureFields& kind) {
        return kind.detection < 0;
      });
  if (r.detection < 0 && unseen) all.push_back({"detection 0 s", "--detection"});
  const bool waits = setup.file.answer.empty() || setup.file.answer == "wait";
  if (setup.takes_nodes() && waits && setup.file.spares == 0 && setup.file.spares_where.empty())
    all.push_back({"no spare nodes", "--spares"});
  return all;
}

}  // namespace sim::campaign
