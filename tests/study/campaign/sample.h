// sample.h — campaigns that the tests of this room share.
#pragma once

#include <vector>

#include "sim/study/campaign/job.h"

namespace sample {

using namespace sim::campaign;

inline Spec memoryless(double step, double mtbf, double interval, double write, double restart,
                       double days, double background = 0) {
  Spec spec;
  FailureKind kind;
  kind.name = "any";
  kind.life = {find_law("exponential"), mtbf};
  spec.kinds.push_back(kind);
  spec.tiers.push_back(
      {"storage", span(interval), span(write), span(background), {}, survives_everything});
  JobShape shape;
  shape.step = span(step);
  shape.restart = span(restart);
  spec.phases.push_back({"all", 0, {{shape}}});
  spec.length = span(days * seconds_per_day);
  return spec;
}

// 64 nodes and spares. GPUs fail and are repaired, failing leaves take their nodes, stragglers are
// found.
inline Spec cluster(int spares, bool shrinks) {
  Spec spec = memoryless(10, 40000, 1800, 20, 300, 20);
  spec.nodes = 64 + spares;
  FailureKind gpu;
  gpu.name = "gpu";
  gpu.life = {find_law("exponential"), 4e7};
  gpu.parts = 8.0 * spec.nodes;
  gpu.takes = Takes::node;
  gpu.detection = span(120);
  gpu.repair = {find_law("exponential"), 20000};
  FailureKind leaf = gpu;
  leaf.name = "leaf";
  leaf.life = {find_law("weibull"), 3e7, 0.7};
  leaf.parts = 8;
  leaf.takes = Takes::group;
  leaf.group = 8;
  FailureKind slow = gpu;
  slow.name = "slow gpu";
  slow.life = {find_law("infant"), 2e8, 1, 10, 1e6};
  slow.straggler = true;
  slow.found = {find_law("exponential"), 7200};
  spec.kinds.insert(spec.kinds.end(), {gpu, leaf, slow});
  JobShape full = spec.phases[0].shapes[0][0];
  full.nodes = 64;
  full.tokens = 800;
  full.slowed = {full.step, full.step, full.step, span(13)};
  full.change = span(200);
  spec.phases[0].shapes[0] = {full};
  for (int missing = 1; shrinks && missing <= 24; ++missing) {
    JobShape less = full;
    less.nodes = 64 - 8 * ((missing + 7) / 8);
    less.tokens = less.nodes * 800 / 64;
    spec.phases[0].shapes[0].push_back(less);
  }
  return spec;
}

inline std::vector<Spec> all() {
  std::vector<Spec> specs = {memoryless(10, 10800, 1800, 60, 600, 10),
                             memoryless(7.3, 3600, 1801, 12, 600, 10, 200),
                             memoryless(10, 3600, 600, 12, 600, 10, 590),
                             cluster(0, false),
                             cluster(4, false),
                             cluster(2, true)};
  Spec phases = cluster(3, true);
  phases.phases.push_back(phases.phases[0]);
  phases.phases[0].steps = 50'001;
  phases.phases[1].steps = 70'000;
  for (JobShape& shape : phases.phases[1].shapes[0]) shape.step = span(15);
  specs.push_back(phases);
  Spec tiers = cluster(3, true);
  tiers.tiers.insert(tiers.tiers.begin(), {"memory", span(300), span(2), span(20), span(5), 1});
  specs.push_back(tiers);
  Spec pools = cluster(3, true);
  pools.pools.push_back({{span(5 * 86400).ns}, span(3600), 55});
  pools.pools.push_back({{span(9 * 86400).ns}, {}, 75});
  std::vector<JobShape> small = pools.phases[0].shapes[0];
  small.erase(small.begin(), small.begin() + 16);
  pools.phases[0].shapes.push_back(small);
  pools.phases[0].shapes.push_back(pools.phases[0].shapes[0]);
  specs.push_back(pools);
  return specs;
}

inline bool same(const Ledger& a, const Ledger& b) {
  return a.steps == b.steps && a.tokens == b.tokens && a.wall == b.wall && a.ideal == b.ideal;
}

inline bool same(const Outcome& a, const Outcome& b) {
  bool causes = a.causes.size() == b.causes.size();
  for (std::size_t i = 0; causes && i < a.causes.size(); ++i) {
    const CauseOutcome &x = a.causes[i], &y = b.causes[i];
    causes = x.events == y.events && x.interruptions == y.interruptions && x.lost == y.lost &&
             x.down == y.down;
  }
  return causes && a.wall == b.wall && same(a.kept, b.kept) && a.saving == b.saving &&
         a.lost == b.lost && a.detecting == b.detecting && a.waiting == b.waiting &&
         a.restarting == b.restarting && a.interruptions == b.interruptions && a.saves == b.saves &&
         a.changes == b.changes && a.spares_least == b.spares_least && a.finished == b.finished;
}

}  // namespace sample
