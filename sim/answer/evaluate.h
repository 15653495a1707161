// evaluate.h — turns a plan and a cluster into an Answer: build programs, price them, replay them.
//
// The commands `run`, `sweep`, `plan`, `explain` and `validate` and the Python module all evaluate
// plans here. Steps of `evaluate`:
//  (1) resolve_balanced fills the fields that the plan leaves to measured block times (slices.h).
//  (2) program::build creates one device program for each rank class.
//  (3) engine::price and engine::outside_memory assign times and memory of this cluster.
//  (4) engine::run replays the programs.
//  (5) The closed-form estimate, the host memory, the verdict and the throughputs are added.
//
// Invariants
//  (1) `evaluate` accepts only plans for which `problems` is empty.
//  (2) The same plan and the same data files give the same Answer.
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

// A loaded cluster: its description, its profiles and its network model.
struct Site {
  input::Machine machine;
  input::ProfileFile profile;
  std::vector<engine::GpuKind> others;  // GPUs of other kinds, kind 1 first
  std::unique_ptr<network::Network> network;
  std::string digest;  // hash of all data that an answer depends on
};

// Changes to a cluster description that a table of measured runs states.
struct SiteChange {
  int nodes = 0;  // 0: unchanged, also below
  int gpus_per_node = 0;
  int nics = 0;
  Bandwidth nic{};
  bool no_nvlink_sharp = false;  // NCCL_NVLS_ENABLE=0
  // Measured bandwidths of a node's CPUs.
  struct Host {
    Bandwidth rank{};      // memory to the cores of one rank
    Bandwidth memory{};    // memory to all ranks together
    Bandwidth copy{};      // GPU copies through pinned memory
    Bandwidth pageable{};  // copies to pageable memory
  };
  std::optional<Host> host;
};

// Cache of sites. Each cluster is loaded once per process and shared by all points of a sweep.
class Sites {
 public:
  // The site of a cluster name or path. `beside`: path of the file that names the cluster, "" for
  // the command line. Errors: the diagnostics of the cluster file or of its profiles.
  Result<Site*> find(const std::string& name, const std::string& beside = "",
                     const SiteChange& change = {});
  // The site of a machine that is already loaded.
  Result<Site*> of(const input::Machine& machine);

 private:
  std::map<std::string, input::Machine> machines_;  // key: cluster name, newline, `beside`
  // Key: text of the cluster file. One text has several sites if settings changed the machine.
  std::map<std::string, std::vector<std::unique_ptr<Site>>> sites_;
};

// The class number of each data-parallel replica. Replicas differ when they use GPUs or NVLinks of
// different speed. Empty if all replicas are equal.
std::vector<int> replica_classes(const program::Plan& plan, const topology::Cluster& cluster);

// The reasons why the plan cannot run on the site; empty if it can. Checks the plan's own rules,
// GPU count, precisions, step length, launch queues and host memory.
std::vector<std::string> problems(const program::Plan& plan, const Site& site);

// Evaluates a plan. `all_ranks`: replay every rank instead of one rank of each class. REQUIRES:
// problems(plan, site) is empty.
answer::Answer evaluate(const program::Plan& plan, Site& site, const engine::Options& options = {},
                        bool all_ranks = false);

// Evaluates with one replay and no verdict analysis: `answer.verdict` holds only 0 or 1. Searches
// use it, because they evaluate many plans and show no verdict.
answer::Answer evaluate_once(const program::Plan& plan, Site& site,
                             const engine::Options& options = {});

// The device programs of a plan on a site, one for each rank class. A schedule that is ordered by
// pass times uses its default times here; see timed_job (pass_times.h).
program::Job job_of(const program::Plan& plan, const Site& site, bool all_ranks = false);

// Evaluates on GPUs with unlimited memory: how much memory and time would the plan need?
answer::Answer evaluate_unlimited(const program::Plan& plan, Site& site);

// The recomputation mode as the FLOP conventions name it (model/flops.h).
model::Recompute flops_recompute(program::Recompute recompute);

// Input and result of the closed-form memory estimate (allocator/estimator.h).
allocator::EstimatorInput estimator_input(const program::Plan& plan);
answer::Estimate estimate(const program::Plan& plan, const device::Gpu& gpu);

}  // namespace sim::answer
