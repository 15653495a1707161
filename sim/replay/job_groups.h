// job_groups.h — which GPUs of the cluster form each communicator of a job.
//
// Ranks stand on GPUs in the plan's rank order (topology/placement.h): rank r on GPU r of the
// cluster. What is made is kept: asking again costs nothing.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "sim/network/network.h"
#include "sim/topology/placement.h"
#include "sim/workload/program.h"

namespace sim::replay {

class JobGroups {
 public:
  explicit JobGroups(const workload::Job& job);

  // Every group of the communicator. REQUIRES: it is no pipeline's.
  const network::Groups& of(workload::Stream communicator);
  // Neighbours of the context-parallel rings.
  network::Groups ring_neighbours();
  // {GPU of stage `from`, GPU of stage `to`} of every pipeline.
  const network::Groups& pairs(int from, int to);

  // GPUs whose ranks the class stands for.
  std::vector<int> ranks_of_class(const workload::Job& job, int rank_class) const;
  // Place of a GPU's rank along one dimension.
  int place(int gpu, topology::Dimension dimension) const {
    return topology::place_of(gpu, dimension, degrees_, order_);
  }

 private:
  std::vector<std::vector<int>> make(workload::Stream communicator) const;

  topology::Degrees degrees_;
  topology::RankOrder order_;
  int replicas_;
  std::map<workload::Stream, network::Groups> groups_;
  std::map<std::pair<int, int>, network::Groups> pairs_;
};

}  // namespace sim::replay
