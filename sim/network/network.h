// network.h — how long a collective takes on a cluster: NCCL's latencies and channels on top of
// bandwidths that SimGrid solved for all groups that work at the same time.
//
// The answer for (kind, group layout, concurrency) is affine in bytes: solved once per cluster and
// remembered, in the process and in a cache folder.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/collective/collective.h"
#include "sim/core/result.h"
#include "sim/core/units.h"
#include "sim/topology/cluster.h"

namespace sim::network {

// Ranks of every group of one kind (all tensor-parallel groups, ...); they communicate at the same
// time and share links. Rank r sits on GPU r % node.gpus of node r / node.gpus.
struct Groups {
  std::vector<std::vector<int>> ranks;  // groups of equal size
};

// What calibration knows about communication (calibration/*.textproto, section `communication`).
struct CommunicationProfile;

class Network {
 public:
  Network(topology::Cluster cluster, std::shared_ptr<const CommunicationProfile> profile);
  ~Network();

  // Duration of one collective of `bytes` in the slowest group, all groups at once. `bytes` is the
  // whole array (nccl-tests' size): the gathered array for all_gather and reduce_scatter, the
  // message for send_receive and ring_exchange. A group of one rank takes no time.
  Duration duration(collective::Kind kind, const Groups& groups, Bytes bytes);

  // Device memory that one communicator of this layout holds outside PyTorch, per rank.
  Bytes communicator_memory(const Groups& groups) const;

  // SMs a collective of this layout occupies while it runs.
  int channels(const Groups& groups) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sim::network
