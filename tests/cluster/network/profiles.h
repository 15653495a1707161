// profiles.h — NCCL's tables for tests, and profiles whose links reach all of their raw rate.
//
// Tables: NVIDIA/nccl tag v2.27.7-1, src/graph/tuning.cc, topo.h, search.cc (BSD 3-clause licence);
// numbers only, as the project's notes on NCCL record them.
#pragma once

#include <memory>

#include "sim/cluster/network/profile.h"
#include "sim/cluster/topology/cluster.h"

namespace sim::network {

inline Duration us(double value) {
  return from_seconds(value * 1e-6);
}
inline Bandwidth gbps(double value) {
  return {static_cast<std::int64_t>(value * 1e9 + 0.5)};
}
inline std::vector<Bandwidth> rates(std::initializer_list<double> values) {
  std::vector<Bandwidth> all;
  for (const double v : values) all.push_back(gbps(v));
  return all;
}

inline NcclModel nccl_tables(bool hopper) {
  NcclModel m;
  m.version = "2.27";
  m.base = {{us(6.8), us(14), us(8.4)}, {us(6.6), us(14), us(8.4)}, {}, {}};
  m.nvlink = {{us(0.6), us(1.25), us(4)}, {us(0.6), us(1.9), us(3.4)}, us(25), us(25)};
  m.pcie = {{us(1), us(1.9), us(4)}, {us(1), us(2.5), us(5.7)}, {}, {}};
  m.network = {{us(5), us(8.5), us(14)}, {us(2.7), us(4), us(14)}, us(18), us(14)};
  m.host_overhead_intel = us(1), m.host_overhead_amd = us(2), m.host_overhead_arm = us(1);
  m.ring_simple_latency_factor = 1.4;
  m.ll_one_node = gbps(hopper ? 141 : 87.7);
  m.ll_intel = {gbps(39), gbps(39), gbps(20.4)};
  m.ll_amd = {gbps(87.7), gbps(22.5), gbps(19)};
  m.ring_ll128_channel = gbps(hopper ? 36.7 : 20);
  m.tree_ll128_channel =
      hopper ? PerNodes{gbps(36.7), gbps(36.7), gbps(29)} : PerNodes{gbps(20), gbps(20), gbps(20)};
  m.tree_channel = hopper ? PerNodes{gbps(38.7), gbps(41.4), gbps(36)}
                          : PerNodes{gbps(24), gbps(23.6), gbps(17.8)};
  m.tree_factor = {
      {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1},
      {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1},
      {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9}};
  m.nvlink_payload = gbps(hopper ? 20.6 : 20);
  m.pcie_payload = 24.0 / 31.5;
  m.speeds_one_node = hopper ? rates({60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3})
                             : rates({40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3});
  m.speeds_network = hopper ? rates({48, 45, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3})
                            : rates({48, 30, 28, 24, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3});
  m.split_from = gbps(25);
  m.keep_whole_below = gbps(hopper ? 50 : 0);
  m.double_above = gbps(hopper ? 45 : 0);
  m.max_channels = 64;
  m.nvls = hopper;
  m.nvls_channels = 16;
  m.nvls_total = gbps(400);
  m.nvls_bus_share = 5.0 / 6.0;
  m.send_channels_nvlink = 32;
  m.send_channels_network = 2;
  m.send_ll_per_channel = Bytes{16 << 10};
  return m;
}

// Links reach their raw rate, nothing is lost at any size, and nothing takes time but the bytes:
// a closed form is exact. NCCL's caps and the share of LL128 stay out of reach (Simple is chosen).
inline std::shared_ptr<CommunicationProfile> ideal_profile(bool hopper = false) {
  auto profile = std::make_shared<CommunicationProfile>();
  profile->name = "ideal";
  profile->nccl = nccl_tables(hopper);
  profile->nccl.nvls = false;
  profile->buffers = {Bytes{1 << 20},   Bytes{12 << 20}, Bytes{12 << 20}, Bytes{9 << 20},
                      Bytes{128 << 20}, Bytes{12 << 20}, Bytes{8 << 20},  false};
  return profile;
}

struct System {
  int gpus, nics;
  bool hopper;
  topology::GpuInterconnect interconnect;
  double nic_gbps;
  topology::HostCpu cpu;
};
inline constexpr auto nvswitch = topology::GpuInterconnect::nvswitch;
inline constexpr auto mesh = topology::GpuInterconnect::mesh;
inline constexpr System a100_8hdr{8, 8, false, nvswitch, 25, topology::HostCpu::amd};
inline constexpr System a100_4hdr{8, 4, false, nvswitch, 25, topology::HostCpu::intel};
inline constexpr System h100_8ndr{8, 8, true, nvswitch, 50, topology::HostCpu::intel};
inline constexpr System h100_mesh{4, 4, true, mesh, 25, topology::HostCpu::amd};

inline topology::Cluster cluster_of(const System& system, int nodes) {
  topology::Cluster c;
  c.name = "test";
  c.nodes = nodes;
  c.node.gpus = system.gpus;
  c.node.interconnect = system.interconnect;
  c.node.nvlinks_per_gpu = system.hopper ? 18 : 12;
  c.node.nvlinks_per_pair = system.hopper ? 6 : 4;
  c.node.nvlink = gbps(25);
  c.node.pcie = gbps(system.hopper ? 63 : 31.5);
  c.node.nics = system.nics;
  c.node.nic = gbps(system.nic_gbps);
  for (int gpu = 0; gpu < system.gpus && system.nics > 0; ++gpu) {
    c.node.nic_of_gpu.push_back(gpu * system.nics / system.gpus);
  }
  c.node.cpu = system.cpu;
  c.fabric.kind = topology::FabricKind::fat_tree;
  c.fabric.nodes_per_leaf = 4;
  return c;
}

}  // namespace sim::network
