// network.h — the duration of a collective on a cluster: NCCL's latencies and channels, with
// bandwidths that SimGrid solved for all groups that work at the same time.
//
//     duration = latency(steps, algorithm, protocol, nodes) + bytes / rate
//
// NCCL's own model picks the algorithm and the protocol (cost.h) as it would on this cluster. The
// rate is what the links carry when every group of the kind runs the collective at once (flows.h).
// It is reduced by the protocol's cost and by the profile's losses at this size. The rate of a
// pattern is solved once per cluster and set of groups, and cached in the process and on disk.
//
// Invariants
// (1) Durations are whole picoseconds, rounded up. No bytes, or one rank, take no time.
// (2) Caches, helpers and merging by symmetry do not change the answer: bit for bit for caches, to
//     1e-9 for the rest.
// (3) Building a Network starts nothing and builds no graph; the first question does. After a fork
//     each process starts a helper of its own.
//
// A Network must not be used by two threads at the same time.
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

// Groups of one kind communicate at the same time and share links. Rank r runs on GPU r % node.gpus
// of the job's node r / node.gpus. The cluster's `hosts` map the job's nodes to nodes of the
// cluster. If a job may get any nodes (topology::scatters), a duration is the mean over random
// draws of its nodes, and loads are those of the first nodes.
using mesh::Groups;

// The answer and its reasons, for the slowest group.
struct Answer {
  Duration duration{};
  std::string_view
      algorithm;              // "Ring", "Tree", "NVLS", "NVLSTree", "send"; "" when it took no time
  std::string_view protocol;  // "LL", "LL128", "Simple"
  Duration latency{};
  double algorithm_bandwidth = 0;  // bytes of the whole array per second, without the latency
};

// Bytes that cross a link of the cluster, and how long they keep it busy at its capacity.
struct LinkLoad {
  int link = 0;
  double bytes = 0, busy_seconds = 0;
  int flows = 0;  // flows that cross it
};

// The helper could not be started, died or did not answer in time.
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
  // `duration` throws SolverFailed; `answer` returns the error as a value.
  Duration duration(collective::Kind kind, const Groups& groups, Bytes bytes);
  Result<Answer> answer(collective::Kind kind, const Groups& groups, Bytes bytes);
  // Duration of an all-to-all whose pairs send different amounts, the same in every group:
  // bytes[source x ranks + destination], including what a rank keeps. If all pairs send the same
  // amount, it equals the duration of Kind::all_to_all with a rank's sum.
  Duration duration(const Groups& groups, std::span<const std::int64_t> bytes);

  // The load of one collective in all groups at once on each link, in order of first use. Link
  // numbers stay valid until a question needs more nodes than `cover` was given.
  std::vector<LinkLoad> loads(collective::Kind kind, const Groups& groups, Bytes bytes);
  // Routes among the first `nodes` nodes of the job, computed now. REQUIRES: 1 <= nodes <=
  // cluster().nodes.
  const topology::Routes& cover(int nodes);

  // An identifier for groups that are queried often; it saves the hashing of their ranks.
  enum class GroupsId : std::uint32_t {};
  GroupsId remember(const Groups& groups);
  Duration duration(collective::Kind kind, GroupsId groups, Bytes bytes);
  // All groups communicate at once; the result is the slowest of the groups with the numbers `of`.
  Duration duration(collective::Kind kind, GroupsId groups, Bytes bytes, std::span<const int> of);

  // Whether some group has ranks on several nodes.
  bool crosses_nodes(const Groups& groups) const;

  // Device memory of one communicator of this layout outside PyTorch, per rank: the maximum over
  // the groups.
  enum class Purpose : std::uint8_t { collectives, sends, both };
  Bytes communicator_memory(const Groups& groups, Purpose purpose = Purpose::collectives) const;

  // SMs that a collective of this layout occupies while it runs.
  int channels(const Groups& groups) const;

  const Solver& solver() const;
  const topology::Cluster& cluster() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sim::network
