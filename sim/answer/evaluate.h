// evaluate.h — a plan on a cluster becomes an answer: build the device programs, price them, replay
// them, and put the closed-form estimate beside. `run`, `sweep` and `validate` all go through here.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/allocator/estimator.h"
#include "sim/answer/answer.h"
#include "sim/cluster/network/network.h"
#include "sim/engine/replay.h"
#include "sim/input/cluster/cluster.h"
#include "sim/input/profile/profile.h"
#include "sim/model/flops.h"

namespace sim::answer {

// A cluster that can be asked: what it is, how efficient it is, how its network behaves.
struct Site {
  input::Machine machine;
  input::ProfileFile profile;
  std::vector<engine::GpuKind> others;  // of nodes with another GPU: kinds 1 ...
  std::unique_ptr<network::Network> network;
  std::string digest;  // of everything in the data files that an answer depends on
};

// What a table of measured runs says about its machine beyond the name of the cluster.
struct SiteChange {
  int nodes = 0;  // 0: as the description
  int gpus_per_node = 0;
  int nics = 0;
  Bandwidth nic{};
  bool no_nvlink_sharp = false;  // NCCL_NVLS_ENABLE=0
  // What the CPUs of a node were measured to give.
  struct Host {
    Bandwidth rank{};      // to one rank's cores, of memory without limit
    Bandwidth memory{};    // to all ranks
    Bandwidth copy{};      // pinned
    Bandwidth pageable{};  // down through memory that is not
  };
  std::optional<Host> host;
};

// Clusters by name, loaded once per process and shared by every point.
class Sites {
 public:
  // `beside`: the file that names the cluster, "" for the command line.
  Result<Site*> find(const std::string& name, const std::string& beside = "",
                     const SiteChange& change = {});
  Result<Site*> of(const input::Machine& machine);

 private:
  std::map<std::string, input::Machine> machines_;  // by name and place
  // By the text of their files; of each, those that were changed since in different ways.
  std::map<std::string, std::vector<std::unique_ptr<Site>>> sites_;
};

// The class of each data-parallel replica where slow GPUs make them differ; empty: all are alike.
std::vector<int> replica_classes(const program::Plan& plan, const topology::Cluster& cluster);

// Why the plan cannot run there: the plan's own problems, and those of its size.
std::vector<std::string> problems(const program::Plan& plan, const Site& site);

// `all_ranks`: every rank is replayed, instead of one of each class.
// REQUIRES: problems(plan, site) is empty.
answer::Answer evaluate(const program::Plan& plan, Site& site, const engine::Options& options = {},
                        bool all_ranks = false);

// The same by one replay: nobody asks how sure the outcome is, and answer.verdict says only what it
// is. For those who replay many plans and show no verdict.
answer::Answer evaluate_once(const program::Plan& plan, Site& site,
                             const engine::Options& options = {});

// The device programs that `evaluate` replays.
program::Job job_of(const program::Plan& plan, const Site& site, bool all_ranks = false);

// The same plan on GPUs of unlimited memory: what a plan that does not fit would have taken.
answer::Answer evaluate_unlimited(const program::Plan& plan, Site& site);

// The same word where FLOPs are counted.
model::Recompute flops_recompute(program::Recompute recompute);

// What the closed form is asked, and what it says.
allocator::EstimatorInput estimator_input(const program::Plan& plan);
answer::Estimate estimate(const program::Plan& plan, const device::Gpu& gpu);

}  // namespace sim::answer
