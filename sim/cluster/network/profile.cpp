#include "sim/cluster/network/profile.h"

#include <cmath>

#include "sim/base/text.h"

namespace sim::network {
namespace {

// Collects problems, each with the name of its field.
struct Checker {
  std::vector<std::string> problems;

  void fraction(const char* field, double value) {
    if (std::isfinite(value) && value > 0 && value <= 1) return;
    problems.push_back(std::string(field) + ": " + shortest(value) +
                       " is not a fraction in (0, 1]");
  }
  void factor(const char* field, double value) {
    if (std::isfinite(value) && value > 0) return;
    problems.push_back(std::string(field) + ": " + shortest(value) + " is not a positive factor");
  }
  void rate(const char* field, Bandwidth value) {
    if (value.bytes_per_second > 0) return;
    problems.push_back(std::string(field) + ": must be a rate above 0");
  }
  void rates(const char* field, const PerNodes& value, bool one_node = true) {
    if (one_node) rate((std::string(field) + ".one").c_str(), value.one);
    rate((std::string(field) + ".two").c_str(), value.two);
    rate((std::string(field) + ".more").c_str(), value.more);
  }
  void duration(const char* field, Duration value) {
    if (value.ps >= 0) return;
    problems.push_back(std::string(field) + ": a latency is never negative");
  }
  void size(const char* field, Bytes value) {
    if (value.n >= 0) return;
    problems.push_back(std::string(field) + ": a size is never negative");
  }
  void count(const char* field, int value, int most) {
    if (value >= 1 && value <= most) return;
    problems.push_back(std::string(field) + ": " + std::to_string(value) + " is not in 1 ... " +
                       std::to_string(most));
  }
  void latencies(const char* field, const AlgorithmLatency& value) {
    const std::string prefix(field);
    for (const Protocol p : {Protocol::ll, Protocol::ll128, Protocol::simple}) {
      duration((prefix + ".tree").c_str(), value.tree[p]);
      duration((prefix + ".ring").c_str(), value.ring[p]);
    }
    duration((prefix + ".nvls").c_str(), value.nvls);
    duration((prefix + ".nvls_tree").c_str(), value.nvls_tree);
  }
  void speeds(const char* field, const std::vector<Bandwidth>& values) {
    if (values.empty()) problems.push_back(std::string(field) + ": no speed is given");
    for (std::size_t i = 0; i < values.size(); ++i) {
      rate(field, values[i]);
      if (i > 0 && values[i] >= values[i - 1]) {
        problems.push_back(std::string(field) + ": speeds must descend");
      }
    }
  }
  void ramp(const char* field, const Ramp& points) {
    for (std::size_t i = 0; i < points.size(); ++i) {
      fraction(field, points[i].fraction);
      size(field, points[i].bytes);
      if (i == 0) continue;
      const double b1 = static_cast<double>(points[i - 1].bytes.n), f1 = points[i - 1].fraction;
      const double b2 = static_cast<double>(points[i].bytes.n), f2 = points[i].fraction;
      if (b1 < 1 || b2 <= b1 || f2 < f1) {
        problems.push_back(std::string(field) +
                           ": sizes from 1 B must ascend and fractions "
                           "never fall, point " +
                           std::to_string(i + 1));
      } else if (f2 - f1 > f1 * std::log(b2 / b1)) {
        problems.push_back(std::string(field) +
                           ": so steep that more bytes would take less time, "
                           "point " +
                           std::to_string(i + 1));
      }
    }
  }
};

void check_nccl(Checker& check, const NcclModel& m) {
  check.latencies("nccl.base", m.base);
  check.latencies("nccl.nvlink", m.nvlink);
  check.latencies("nccl.pcie", m.pcie);
  check.latencies("nccl.network", m.network);
  check.duration("nccl.nic", m.nic);
  check.duration("nccl.host_overhead_intel", m.host_overhead_intel);
  check.duration("nccl.host_overhead_amd", m.host_overhead_amd);
  check.duration("nccl.host_overhead_arm", m.host_overhead_arm);
  check.factor("nccl.ring_simple_latency_factor", m.ring_simple_latency_factor);
  check.rate("nccl.ll_one_node", m.ll_one_node);
  check.rates("nccl.ll_intel", m.ll_intel, false);
  check.rates("nccl.ll_amd", m.ll_amd, false);
  check.rate("nccl.ring_ll128_channel", m.ring_ll128_channel);
  check.rates("nccl.tree_ll128_channel", m.tree_ll128_channel);
  check.rates("nccl.tree_channel", m.tree_channel);
  check.fraction("nccl.plain_tree", m.plain_tree);
  for (const Protocol p : {Protocol::ll, Protocol::ll128, Protocol::simple}) {
    for (const double f : m.tree_factor[p]) check.fraction("nccl.tree_factor", f);
  }
  check.rate("nccl.nvlink_payload", m.nvlink_payload);
  check.fraction("nccl.pcie_payload", m.pcie_payload);
  check.speeds("nccl.speeds_one_node", m.speeds_one_node);
  check.speeds("nccl.speeds_network", m.speeds_network);
  check.count("nccl.max_channels", m.max_channels, 1024);
  if (m.nvls) {
    check.count("nccl.nvls_channels", m.nvls_channels, 1024);
    check.rate("nccl.nvls_total", m.nvls_total);
    check.fraction("nccl.nvls_bus_share", m.nvls_bus_share);
    if (m.nvls_efficiency != 0) check.fraction("nccl.nvls_efficiency", m.nvls_efficiency);
  }
  check.count("nccl.send_channels_nvlink", m.send_channels_nvlink, 1024);
  check.count("nccl.send_channels_network", m.send_channels_network, 1024);
  check.size("nccl.send_ll_per_channel", m.send_ll_per_channel);
}

void check_achieved(Checker& check, const Achieved& a) {
  check.fraction("achieved.nvlink", a.nvlink);
  check.fraction("achieved.pcie", a.pcie);
  check.fraction("achieved.network", a.network);
  check.fraction("achieved.nvls", a.nvls);
  check.fraction("achieved.nvls_shared", a.nvls_shared);
  check.fraction("achieved.nvls_tree", a.nvls_tree);
  check.fraction("achieved.send_nvlink", a.send_nvlink);
  check.fraction("achieved.send_network", a.send_network);
  if (a.exchange_nics != 0) check.count("achieved.exchange_nics", a.exchange_nics, 64);
  if (a.base) check.latencies("achieved.base", *a.base);
  if (a.step) check.latencies("achieved.step", *a.step);
  if (a.nvls_tree_step) check.duration("achieved.nvls_tree_step", *a.nvls_tree_step);
  if (!(a.ring_extra_steps >= 0 && a.ring_extra_steps <= 10))
    check.problems.push_back("achieved.ring_extra_steps: not in 0 ... 10");
  check.ramp("achieved.ring_one_node", a.ring_one_node);
  check.ramp("achieved.ring_many_nodes", a.ring_many_nodes);
  check.ramp("achieved.tree_many_nodes", a.tree_many_nodes);
  check.ramp("achieved.nvls_one_node", a.nvls_one_node);
  check.ramp("achieved.nvls_many_nodes", a.nvls_many_nodes);
  check.ramp("achieved.send_one_node", a.send_one_node);
  check.ramp("achieved.send_many_nodes", a.send_many_nodes);
  check.factor("achieved.latency_factor_one_node", a.latency_factor_one_node);
  check.factor("achieved.latency_factor_many_nodes", a.latency_factor_many_nodes);
  check.duration("achieved.latency_one_node", a.latency_one_node);
  check.duration("achieved.latency_many_nodes", a.latency_many_nodes);
  check.duration("achieved.send_base", a.send_base);
  check.duration("achieved.send_nvlink_ll", a.send_nvlink_ll);
  check.duration("achieved.send_nvlink_simple", a.send_nvlink_simple);
  check.duration("achieved.send_pcie", a.send_pcie);
  check.duration("achieved.send_network_simple", a.send_network_simple);
}

}  // namespace

std::string_view name(Protocol protocol) {
  constexpr std::array<std::string_view, protocol_count> names = {"LL", "LL128", "Simple"};
  return names[static_cast<std::size_t>(protocol)];
}

std::string_view name(Algorithm algorithm) {
  constexpr std::array<std::string_view, algorithm_count> names = {"Tree", "Ring", "NVLS",
                                                                   "NVLSTree"};
  return names[static_cast<std::size_t>(algorithm)];
}

std::vector<std::string> check(const CommunicationProfile& profile) {
  Checker check;
  check_nccl(check, profile.nccl);
  for (const NcclModel& other : profile.other_versions) check_nccl(check, other);
  check_achieved(check, profile.achieved);
  const CommunicatorBuffers& b = profile.buffers;
  check.size("buffers.per_communicator", b.per_communicator);
  check.size("buffers.ring_channel", b.ring_channel);
  check.size("buffers.tree_channel", b.tree_channel);
  check.size("buffers.network_channel", b.network_channel);
  check.size("buffers.send_network", b.send_network);
  check.size("buffers.send_channel", b.send_channel);
  check.size("buffers.nvls_head_channel", b.nvls_head_channel);
  return std::move(check.problems);
}

namespace {

// "2.27.5-1" as {2, 27, 5}.
std::vector<int> parts_of(std::string_view version) {
  std::vector<int> parts;
  bool digit = false;
  for (const char c : version) {
    if (c < '0' || c > '9') {
      if (c != '.') break;
      digit = false;
      continue;
    }
    if (!digit) parts.push_back(0);
    digit = true;
    if (parts.back() < 1'000'000) parts.back() = 10 * parts.back() + (c - '0');
  }
  return parts;
}

}  // namespace

const NcclModel& nccl_model(const CommunicationProfile& profile, std::string_view version) {
  if (version.empty()) return profile.nccl;
  const std::vector<int> asked = parts_of(version);
  const NcclModel* best = nullptr;
  const NcclModel* oldest = &profile.nccl;
  const auto consider = [&](const NcclModel& model) {
    const std::vector<int> own = parts_of(model.version);
    if (own < parts_of(oldest->version)) oldest = &model;
    if (own <= asked && (best == nullptr || own > parts_of(best->version))) best = &model;
  };
  consider(profile.nccl);
  for (const NcclModel& model : profile.other_versions) consider(model);
  return best == nullptr ? *oldest : *best;
}

const NcclModel& newest_model(const CommunicationProfile& profile) {
  const NcclModel* newest = &profile.nccl;
  for (const NcclModel& model : profile.other_versions)
    if (parts_of(model.version) > parts_of(newest->version)) newest = &model;
  return *newest;
}

double at(const Ramp& ramp, Bytes bytes) {
  if (ramp.empty()) return 1;
  if (bytes <= ramp.front().bytes) return ramp.front().fraction;
  for (std::size_t i = 1; i < ramp.size(); ++i) {
    if (bytes > ramp[i].bytes) continue;
    const double low = std::log(static_cast<double>(ramp[i - 1].bytes.n));
    const double high = std::log(static_cast<double>(ramp[i].bytes.n));
    const double x = (std::log(static_cast<double>(bytes.n)) - low) / (high - low);
    return ramp[i - 1].fraction + x * (ramp[i].fraction - ramp[i - 1].fraction);
  }
  return ramp.back().fraction;
}

}  // namespace sim::network
