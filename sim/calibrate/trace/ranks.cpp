#include "sim/calibrate/trace/ranks.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>

#include "sim/base/median.h"
#include "sim/calibrate/readers/reader.h"
#include "sim/engine/rank/queues.h"

namespace sim::calibrate {

namespace {

// Key of a collective: communicator, first rank of the group, step, index on the queue within the
// step.
using Key = std::tuple<int, int, std::size_t, std::size_t>;
struct When {
  double begin = 0, end = 0;  // seconds by the rank's clock
};

int first_of_group(const ExpectedStep& expected, program::Stream queue, int rank) {
  for (const std::vector<int>& group :
       expected.job.mesh.groups(engine::communicator_of(queue)).ranks)
    if (std::find(group.begin(), group.end(), rank) != group.end()) return group.front();
  return -1;
}

std::map<Key, When> collectives_of(const RankTrace& r) {
  std::map<Key, When> out;
  std::map<int, int> groups;
  const ExpectedStep& expected = *r.expected;
  std::vector<std::size_t> number(expected.operations.size());
  std::map<int, std::size_t> next;
  for (std::size_t i = 0; i < number.size(); ++i)
    number[i] = next[static_cast<int>(expected.operations[i].queue)]++;
  for (std::size_t s = 0; s < r.trace->steps.size(); ++s)
    for (std::size_t k = 0; k < r.match->owners[s].size(); ++k) {
      const std::int32_t owner = r.match->owners[s][k];
      if (owner < 0) continue;
      const ExpectedOperation& o = expected.operations[static_cast<std::size_t>(owner)];
      if (o.op != program::Op::collective) continue;
      const int queue = static_cast<int>(o.queue);
      const auto [group, added] = groups.try_emplace(queue, 0);
      if (added) group->second = first_of_group(expected, o.queue, r.rank);
      const MeasuredKernel& kernel = r.trace->kernels[r.trace->steps[s].kernels[k]];
      const double zero = static_cast<double>(r.trace->zero_ns) * 1e-9;
      out[{queue, group->second, s, number[static_cast<std::size_t>(owner)]}] = {
          zero + static_cast<double>(kernel.start_ns) * 1e-9,
          zero + static_cast<double>(kernel.end_ns()) * 1e-9};
    }
  return out;
}

}  // namespace

std::vector<RankClock> compare_clocks(const std::vector<RankTrace>& ranks) {
  std::vector<RankClock> out;
  std::vector<std::map<Key, When>> all;
  for (const RankTrace& r : ranks) {
    all.push_back(collectives_of(r));
    RankClock clock;
    clock.rank = r.rank;
    const std::size_t own = all.size() - 1;
    // Uses the earlier rank with the most shared collectives.
    std::vector<double> best;
    for (std::size_t other = 0; other < own; ++other) {
      std::vector<double> apart;
      for (const auto& [key, when] : all[own])
        if (const auto there = all[other].find(key); there != all[other].end())
          apart.push_back(when.end - there->second.end + out[other].offset_s);
      if ((other == 0 || out[other].collectives > 0) && apart.size() > best.size())
        best = std::move(apart);
    }
    clock.collectives = own == 0 ? all[own].size() : best.size();
    clock.offset_s = median(best);
    for (double& one : best) one = std::abs(one - clock.offset_s);
    clock.scatter_s = median(best);
    out.push_back(clock);
  }
  std::map<Key, std::vector<std::pair<double, std::size_t>>> begins;
  for (std::size_t r = 0; r < all.size(); ++r)
    if (out[r].collectives > 0)
      for (const auto& [key, when] : all[r])
        begins[key].emplace_back(when.begin - out[r].offset_s, r);
  for (auto& [key, some] : begins) {
    if (some.size() < 2) continue;
    std::sort(some.begin(), some.end());
    RankClock& last = out[some.back().second];
    ++last.last;
    last.kept_waiting_s += some.back().first - some[some.size() - 2].first;
  }
  return out;
}

}  // namespace sim::calibrate
