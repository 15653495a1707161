#include "sim/replay/coupling.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "sim/replay/job_groups.h"

namespace sim::replay {
namespace {

using topology::Dimension;
using workload::Stream;

class Coupler {
 public:
  Coupler(const workload::Job& job, network::Network& network)
      : job_(job), network_(network), groups_(job) {
    const int gpus = network.cluster().node.gpus;
    const int world = job.tp * job.cp * job.dp * job.pp;
    network.cover(std::min(network.cluster().nodes, (world - 1) / gpus + 1));
  }

  std::size_t transfer(const workload::Job::Coordinates& at, const workload::Transfer& t) {
    const bool everywhere = t.communicator == Stream::world || t.communicator == Stream::embedding;
    const bool own_cp = t.communicator == Stream::tp || t.communicator == Stream::dp;
    const bool own_dp = t.communicator == Stream::tp || t.communicator == Stream::cp;
    network::Groups mine;
    for (const std::vector<int>& ranks : groups_.of(t.communicator).ranks) {
      const int first = ranks.front();
      const bool here =
          everywhere ||
          (groups_.place(first, Dimension::pp) == at.stage &&
           (!own_cp || groups_.place(first, Dimension::cp) == at.cp_rank) &&
           (!own_dp || job_.replica_class(groups_.place(first, Dimension::dp)) == at.dp_rank) &&
           (!job_.all_ranks || std::ranges::count(ranks, rank_of(at)) > 0));
      if (here) mine.ranks.push_back(ranks);
    }
    return kind(t.kind, mine, t.bytes);
  }

  std::size_t message(const workload::Job::Coordinates& at, const workload::Message& m) {
    const int other = (at.stage + m.peer_offset + job_.pp) % job_.pp;
    network::Groups pairs;
    for (const std::vector<int>& pair :
         (m.send ? groups_.pairs(at.stage, other) : groups_.pairs(other, at.stage)).ranks) {
      const int first = pair.front();
      if (groups_.place(first, Dimension::cp) == at.cp_rank &&
          job_.replica_class(groups_.place(first, Dimension::dp)) == at.dp_rank &&
          (!job_.all_ranks || groups_.place(first, Dimension::tp) == at.tp_rank))
        pairs.ranks.push_back(pair);
    }
    return kind(collective::Kind::send_receive, pairs, m.bytes);
  }

  std::vector<network::SharedKind> take() { return std::move(kinds_); }

 private:
  int rank_of(const workload::Job::Coordinates& at) const {
    for (int rank = 0; rank < job_.tp * job_.cp * job_.dp * job_.pp; ++rank) {
      if (groups_.place(rank, Dimension::pp) == at.stage &&
          groups_.place(rank, Dimension::cp) == at.cp_rank &&
          groups_.place(rank, Dimension::dp) == at.dp_rank &&
          groups_.place(rank, Dimension::tp) == at.tp_rank)
        return rank;
    }
    return 0;
  }

  std::size_t kind(collective::Kind kind, const network::Groups& groups, Bytes bytes) {
    const auto key =
        std::tuple{kind, static_cast<std::uint32_t>(network_.remember(groups)), bytes.n};
    const auto [entry, added] = numbers_.try_emplace(key, kinds_.size());
    if (!added) return entry->second;
    network::SharedKind& made = kinds_.emplace_back();
    made.flow_bytes = 0;
    for (const network::LinkLoad& load : network_.loads(kind, groups, bytes)) {
      made.uses.push_back({load.link, load.busy_seconds});
      made.flow_bytes = std::max(made.flow_bytes, load.bytes / std::max(1, load.flows));
    }
    return entry->second;
  }

  const workload::Job& job_;
  network::Network& network_;
  JobGroups groups_;
  std::vector<network::SharedKind> kinds_;
  std::map<std::tuple<collective::Kind, std::uint32_t, std::int64_t>, std::size_t> numbers_;
};

}  // namespace

Coupling couple(const workload::Job& job, network::Network& network) {
  Coupler coupler(job, network);
  Coupling coupling;
  for (std::size_t c = 0; c < job.classes.size(); ++c) {
    const workload::Program& program = job.classes[c];
    const workload::Job::Coordinates at = job.coordinates(static_cast<int>(c));
    auto& transfers = coupling.transfer.emplace_back();
    for (const workload::Transfer& t : program.transfers) {
      transfers.push_back(coupler.transfer(at, t));
    }
    auto& exchanges = coupling.message.emplace_back();
    for (const workload::Exchange& e : program.exchanges) {
      auto& messages = exchanges.emplace_back();
      for (const workload::Message& m : e.messages) messages.push_back(coupler.message(at, m));
    }
  }
  coupling.kinds = coupler.take();
  return coupling;
}

}  // namespace sim::replay
