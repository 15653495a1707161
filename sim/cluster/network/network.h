// network.h — how long a collective takes on a cluster: NCCL's latencies and channels on top of
// bandwidths that SimGrid solved for all groups that work at the same time.
//
//     duration = latency(steps, algorithm, protocol, nodes) + bytes / rate
//
// NCCL's own model picks the algorithm and the protocol (cost.h) as it would on this cluster; the
// rate is what the links carry when every group of the kind runs the collective at once (flows.h),
// less what the protocol costs and what the profile says is lost at this size. The rate of a
// pattern is solved once per cluster and set of groups and remembered, in the process and on disk.
//
// Invariants
//  (1) Durations are whole picoseconds, rounded up. No bytes, or one rank, take no time.
//  (2) The answer is the same with and without caches, helpers and merging by symmetry, bit for bit
//      for caches, to 1e-9 for the rest.
//  (3) Building a Network starts nothing and builds no graph; the first question does. After a fork
//      each process asks a helper of its own.
//
// Not for two threads at the same time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/result.h"
#include "sim/base/units.h"
#include "sim/cluster/collective/collective.h"
#include "sim/cluster/network/profile.h"
#include "sim/cluster/network/solver.h"
#include "sim/cluster/topology/cluster.h"
#include "sim/cluster/topology/routes.h"
#include "sim/job/mesh/axes.h"

namespace sim::network {

// Groups of one kind communicate at the same time and share links. Rank r sits on GPU r % node.gpus
// of the job's node r / node.gpus, which is that node of the cluster unless the cluster's `hosts`
// say otherwise. Where a job's nodes may be any (topology::scatters), durations are those of the
// mean of draws, and loads those of the nodes in front.
using mesh::Groups;

// Why an answer is what it is, of the slowest group.
struct Answer {
  Duration duration{};
  std::string_view
      algorithm;              // "Ring", "Tree", "NVLS", "NVLSTree", "send"; "" when it took no time
  std::string_view protocol;  // "LL", "LL128", "Simple"
  Duration latency{};
  double algorithm_bandwidth = 0;  // bytes of the whole array per second, without the latency
};

// Bytes that cross a link of the cluster, and how long they keep it busy at what it carries.
struct LinkLoad {
  int link = 0;
  double bytes = 0, busy_seconds = 0;
  int flows = 0;  // that cross it
};

// The helper could not be started, died or fell silent.
class SolverFailed : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Network {
 public:
  // REQUIRES: topology::problems(cluster) and check(*profile) are empty.
  Network(topology::Cluster cluster, std::shared_ptr<const CommunicationProfile> profile,
          SolverOptions options = {});
  ~Network();

  // Duration of one collective of `bytes` in the slowest group, all groups at once. `bytes` is the
  // whole array (nccl-tests' size): the gathered array for all_gather and reduce_scatter, the
  // message for send_receive and ring_exchange. A group of one rank takes no time.
  // THROWS SolverFailed, for callers that have no other answer; `answer` gives it as a value.
  Duration duration(collective::Kind kind, const Groups& groups, Bytes bytes);
  Result<Answer> answer(collective::Kind kind, const Groups& groups, Bytes bytes);
  // Of an all-to-all whose pairs send different amounts, in every group the same: bytes[source x
  // ranks + destination], what a rank keeps included. Where all pairs send as much it is the
  // duration of Kind::all_to_all of a rank's sum.
  Duration duration(const Groups& groups, std::span<const std::int64_t> bytes);

  // What one collective in all groups at once puts on the links, in order of first use. Links keep
  // their numbers until a question needs more nodes than `cover` was told.
  std::vector<LinkLoad> loads(collective::Kind kind, const Groups& groups, Bytes bytes);
  // Routes among the first `nodes` nodes of the job, made at once. REQUIRES: 1 <= nodes <=
  // cluster().nodes.
  const topology::Routes& cover(int nodes);

  // A name for groups that are asked about often: no look at their ranks each time.
  enum class GroupsId : std::uint32_t {};
  GroupsId remember(const Groups& groups);
  Duration duration(collective::Kind kind, GroupsId groups, Bytes bytes);
  // All groups at once as before, but of the slowest of those with these numbers.
  Duration duration(collective::Kind kind, GroupsId groups, Bytes bytes, std::span<const int> of);

  // Some group has ranks on several nodes.
  bool crosses_nodes(const Groups& groups) const;

  // Device memory that one communicator of this layout holds outside PyTorch, per rank: the most
  // of any group.
  enum class Purpose : std::uint8_t { collectives, sends, both };
  Bytes communicator_memory(const Groups& groups, Purpose purpose = Purpose::collectives) const;

  // SMs a collective of this layout occupies while it runs.
  int channels(const Groups& groups) const;

  const Solver& solver() const;
  const topology::Cluster& cluster() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sim::network
