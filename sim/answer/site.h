// site.h — a loaded cluster: its description, its profiles and its network model.
//
// Commands, searches and tables load a cluster through `Sites`, once per process, and evaluate
// every plan on the Site that it returns (checked_plan.h).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/cluster/network/network.h"
#include "sim/engine/replay.h"
#include "sim/input/cluster/cluster.h"
#include "sim/input/profile/profile.h"

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
  bool without_nvls = false;  // NCCL_NVLS_ENABLE=0
  std::string nccl_version;   // "": unchanged
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
  // the command line. Errors: the diagnostics of the cluster file or of its profiles, and every
  // rule that the changed cluster breaks.
  Result<Site*> find(const std::string& name, const std::string& beside = "",
                     const SiteChange& change = {});
  // The site of a machine that is already loaded.
  Result<Site*> of(const input::Machine& machine);
  // From now on every site has the numbers of this profile in place of those that its cluster
  // names. REQUIRES: the profile has communication; no site was asked for yet.
  void use(input::ProfileFile profile) { profile_ = std::move(profile); }

 private:
  std::map<std::string, input::Machine> machines_;  // key: cluster name, newline, `beside`
  // Key: text of the cluster file. One text has several sites if settings changed the machine.
  std::map<std::string, std::vector<std::unique_ptr<Site>>> sites_;
  std::optional<input::ProfileFile> profile_;  // in place of those of the clusters
};

}  // namespace sim::answer
