#include "sim/replay/job_groups.h"

#include <algorithm>
#include <cassert>

namespace sim::replay {
namespace {

using workload::Stream;

topology::GroupKind kind_of(Stream communicator) {
  switch (communicator) {
    case Stream::tp:
      return topology::GroupKind::tp;
    case Stream::cp:
      return topology::GroupKind::cp;
    case Stream::dp:
      return topology::GroupKind::dp;
    case Stream::dp_cp:
      return topology::GroupKind::dp_cp;
    case Stream::embedding:
      return topology::GroupKind::embedding;
    case Stream::world:
      return topology::GroupKind::world;
    default:
      return topology::GroupKind::pp;
  }
}

topology::RankOrder order_of(const workload::Job& job) {
  if (job.rank_order.empty()) return topology::megatron_order;
  const auto parsed = topology::parse_rank_order(job.rank_order);
  assert(std::holds_alternative<topology::RankOrder>(parsed));
  return std::get<topology::RankOrder>(parsed);
}

}  // namespace

JobGroups::JobGroups(const workload::Job& job)
    : degrees_{job.tp, job.cp, 1, job.dp, job.pp}, order_(order_of(job)), replicas_(job.replicas) {}

const network::Groups& JobGroups::of(Stream communicator) {
  auto [it, added] = groups_.try_emplace(communicator);
  if (added) it->second.ranks = make(communicator);
  return it->second;
}

network::Groups JobGroups::ring_neighbours() {
  network::Groups pairs;
  for (const std::vector<int>& ring : of(Stream::cp).ranks)
    for (std::size_t i = 0; i < ring.size(); ++i)
      pairs.ranks.push_back({ring[i], ring[(i + 1) % ring.size()]});
  return pairs;
}

const network::Groups& JobGroups::pairs(int from, int to) {
  auto [it, added] = pairs_.try_emplace({from, to});
  if (added) it->second.ranks = topology::stage_pairs(from, to, degrees_, order_);
  return it->second;
}

std::vector<std::vector<int>> JobGroups::make(Stream communicator) const {
  const bool shards = communicator == Stream::shard;
  if (!shards && communicator != Stream::replicate)
    return topology::groups(kind_of(communicator), degrees_, order_);
  // A copy of the parameters: neighbours in the data x context parallel group.
  std::vector<std::vector<int>> result;
  for (std::vector<int> all : topology::groups(topology::GroupKind::dp_cp, degrees_, order_)) {
    std::sort(all.begin(), all.end());
    const std::size_t copy = all.size() / static_cast<std::size_t>(replicas_);
    const std::size_t count = shards ? static_cast<std::size_t>(replicas_) : copy;
    for (std::size_t g = 0; g < count; ++g) {
      std::vector<int>& group = result.emplace_back();
      for (std::size_t i = 0; i < all.size(); ++i)
        if ((shards ? i / copy : i % copy) == g) group.push_back(all[i]);
    }
  }
  return result;
}

std::vector<int> JobGroups::ranks_of_class(const workload::Job& job, int rank_class) const {
  using topology::Dimension;
  const workload::Job::Coordinates at = job.coordinates(rank_class);
  std::vector<int> ranks;
  for (int rank = 0; rank < degrees_.world(); ++rank) {
    if (place(rank, Dimension::pp) != at.stage || place(rank, Dimension::cp) != at.cp_rank)
      continue;
    const int replica = place(rank, Dimension::dp);
    if (job.all_ranks && place(rank, Dimension::tp) != at.tp_rank) continue;
    if (job.replica_class(replica) == at.dp_rank) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace sim::replay
