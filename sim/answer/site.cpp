#include "sim/answer/site.h"

#include <fmt/format.h>
#include <xxhash.h>

namespace sim::answer {

namespace {

std::string digest(const std::string& text) {
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

void apply(const SiteChange& change, topology::Cluster& cluster) {
  topology::Node& node = cluster.node;
  if (change.nodes > 0) cluster.nodes = change.nodes;
  if (change.gpus_per_node > 0) node.gpus = change.gpus_per_node;
  if (change.host) {
    node.host = {.core = change.host->rank, .pageable = change.host->pageable};
    node.host_copy = change.host->copy;
    node.cpu_memory_bandwidth = change.host->memory;
    node.cpu_memory = {};
    node.cpu_cores = node.gpus;
  }
  if (!change.nccl_version.empty()) cluster.nccl_version = change.nccl_version;
  if (change.without_nvls) node.nvlink_sharp = false;
  if (change.nics > 0) {
    node.nics = change.nics;
    node.nic = change.nic;
  }
  if (change.gpus_per_node == 0 && change.nics == 0) return;
  // Distribute the NICs evenly over the GPUs again.
  node.nic_of_gpu.clear();
  for (int gpu = 0; gpu < node.gpus && node.nics > 0; ++gpu) {
    node.nic_of_gpu.push_back(gpu * node.nics / node.gpus);
  }
}

}  // namespace

Result<Site*> Sites::of(const input::Machine& machine) {
  std::vector<std::unique_ptr<Site>>& alike = sites_[machine.text];
  for (const std::unique_ptr<Site>& one : alike)
    if (one->machine.cluster == machine.cluster && one->machine.gpu == machine.gpu &&
        one->machine.path == machine.path)
      return one.get();
  const Result<input::ProfileFile> profile = profile_ ? *profile_ : input::find_profiles(machine);
  if (!profile) return profile.errors();
  auto site = std::make_unique<Site>();
  site->machine = machine;
  site->profile = *profile;
  site->network = std::make_unique<network::Network>(
      machine.cluster,
      std::make_shared<const network::CommunicationProfile>(site->profile.communication));
  const topology::Node& node = machine.cluster.node;
  std::string files =
      fmt::format("{}\n{} x {}, {} x {}, {}\n{}\n{}", machine.text, machine.cluster.nodes,
                  node.gpus, node.nics, node.nic.bytes_per_second, node.nvlink_sharp,
                  machine.cluster.nccl_version, site->profile.text);
  for (const device::Gpu& gpu : machine.others) {
    const Result<input::ProfileFile> other = input::find_profile(gpu, machine.path);
    if (!other) return other.errors();
    site->others.push_back({gpu, other->device});
    files += other->text;
  }
  site->digest = digest(files);
  return alike.emplace_back(std::move(site)).get();
}

Result<Site*> Sites::find(const std::string& name, const std::string& beside,
                          const SiteChange& change) {
  const std::string file = name + "\n" + beside;
  auto there = machines_.find(file);
  if (there == machines_.end()) {
    Result<input::Machine> loaded = input::find_cluster(name, beside);
    if (!loaded) return loaded.errors();
    there = machines_.emplace(file, *loaded).first;
  }
  input::Machine machine = there->second;
  apply(change, machine.cluster);
  Diagnostics broken;
  for (const std::string& problem : topology::problems(machine.cluster))
    broken.push_back({machine.cluster.name, problem});
  if (!broken.empty()) return broken;
  return of(machine);
}

}  // namespace sim::answer
