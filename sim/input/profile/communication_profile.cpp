#include <algorithm>

#include "sim/input/profile/profile_fields.h"
#include "sim/input/text/rules.h"

namespace sim::input {
namespace {

namespace v1 = rehearse::v1;
using Texts = google::protobuf::RepeatedPtrField<std::string>;
using Numbers = google::protobuf::RepeatedField<double>;

network::PerProtocol<Duration> per_protocol(const v1::DurationPerProtocol& from) {
  return {to_duration(from.ll()), to_duration(from.ll128()), to_duration(from.simple())};
}

network::PerNodes per_nodes(const v1::PerNodes& from) {
  return {to_bandwidth(from.one()), to_bandwidth(from.two()), to_bandwidth(from.more())};
}

network::AlgorithmLatency latency(const v1::AlgorithmLatency& from) {
  return {per_protocol(from.tree()), per_protocol(from.ring()), to_duration(from.nvls()),
          to_duration(from.nvls_tree())};
}

std::vector<Bandwidth> bandwidths(const Texts& from) {
  std::vector<Bandwidth> to;
  for (const std::string& text : from) to.push_back(to_bandwidth(text));
  return to;
}

void factors(const Numbers& from, std::array<double, 23>& to) {
  assert(from.size() == 23);  // load_profile has checked it
  std::copy(from.begin(), from.end(), to.begin());
}

network::NcclModel nccl(const v1::NcclModel& from) {
  network::NcclModel to;
  to.version = from.version();
  to.base = latency(from.base());
  to.nvlink = latency(from.nvlink());
  to.pcie = latency(from.pcie());
  to.network = latency(from.network());
  to.nic = to_duration(from.nic());
  to.host_overhead_intel = to_duration(from.host_overhead_intel());
  to.host_overhead_amd = to_duration(from.host_overhead_amd());
  to.host_overhead_arm = to_duration(from.host_overhead_arm());
  to.ring_simple_latency_factor = from.ring_simple_latency_factor();
  to.ll_one_node = to_bandwidth(from.ll_one_node());
  to.ll_intel = per_nodes(from.ll_intel());
  to.ll_amd = per_nodes(from.ll_amd());
  to.ring_ll128_channel = to_bandwidth(from.ring_ll128_channel());
  to.tree_ll128_channel = per_nodes(from.tree_ll128_channel());
  to.tree_channel = per_nodes(from.tree_channel());
  factors(from.tree_factor().ll(), to.tree_factor.ll);
  factors(from.tree_factor().ll128(), to.tree_factor.ll128);
  factors(from.tree_factor().simple(), to.tree_factor.simple);
  to.nvlink_payload = to_bandwidth(from.nvlink_payload());
  to.pcie_payload = from.pcie_payload();
  to.speeds_one_node = bandwidths(from.speeds_one_node());
  to.speeds_network = bandwidths(from.speeds_network());
  to.split_from = to_bandwidth(from.split_from());
  to.keep_whole_below = to_bandwidth(from.keep_whole_below());
  to.double_above = to_bandwidth(from.double_above());
  to.max_channels = from.max_channels();
  to.nvls = from.nvls();
  to.nvls_channels = from.nvls_channels();
  to.nvls_total = to_bandwidth(from.nvls_total());
  to.nvls_bus_share = from.nvls_bus_share();
  to.send_channels_nvlink = from.send_channels_nvlink();
  to.send_channels_network = from.send_channels_network();
  to.send_ll_per_channel = to_bytes(from.send_ll_per_channel());
  to.nvls_efficiency = from.nvls_efficiency();
  if (from.has_nvls_tree_channel()) to.nvls_tree_channel = per_nodes(from.nvls_tree_channel());
  to.plain_tree = from.has_plain_tree() ? from.plain_tree() : 1;
  to.plain_tree_early = from.plain_tree_early();
  return to;
}

// The same tables with the differences of another version.
network::NcclModel other_version(network::NcclModel to, const v1::NcclVersion& from) {
  to.version = from.version();
  if (!from.ring_ll128_channel().empty())
    to.ring_ll128_channel = to_bandwidth(from.ring_ll128_channel());
  if (from.has_tree_ll128_channel()) to.tree_ll128_channel = per_nodes(from.tree_ll128_channel());
  if (from.has_tree_channel()) to.tree_channel = per_nodes(from.tree_channel());
  if (from.has_nvls_tree_channel()) to.nvls_tree_channel = per_nodes(from.nvls_tree_channel());
  if (from.speeds_one_node_size() > 0) to.speeds_one_node = bandwidths(from.speeds_one_node());
  if (from.has_nvls_efficiency()) to.nvls_efficiency = from.nvls_efficiency();
  if (!from.nvls_tree_latency().empty())
    to.network.nvls_tree = to_duration(from.nvls_tree_latency());
  return to;
}

network::Ramp ramp(const google::protobuf::RepeatedPtrField<v1::RampPoint>& from) {
  network::Ramp to;
  for (const v1::RampPoint& point : from) to.push_back({to_bytes(point.bytes()), point.fraction()});
  return to;
}

network::Achieved achieved(const v1::Achieved& from) {
  network::Achieved to;
  to.nvlink = from.nvlink();
  to.pcie = from.pcie();
  to.network = from.network();
  to.nvls = from.nvls();
  to.nvls_tree = from.nvls_tree();
  to.send_nvlink = from.send_nvlink();
  to.send_network = from.send_network();
  to.exchange_nics = from.exchange_nics();
  to.ring_one_node = ramp(from.ring_one_node());
  to.ring_many_nodes = ramp(from.ring_many_nodes());
  to.tree_many_nodes = ramp(from.tree_many_nodes());
  to.nvls_one_node = ramp(from.nvls_one_node());
  to.nvls_many_nodes = ramp(from.nvls_many_nodes());
  to.send_one_node = ramp(from.send_one_node());
  to.send_many_nodes = ramp(from.send_many_nodes());
  to.latency_factor_one_node = from.latency_factor_one_node();
  to.latency_factor_many_nodes = from.latency_factor_many_nodes();
  to.latency_one_node = to_duration(from.latency_one_node());
  to.latency_many_nodes = to_duration(from.latency_many_nodes());
  to.send_base = to_duration(from.send_base());
  to.send_nvlink_ll = to_duration(from.send_nvlink_ll());
  to.send_nvlink_simple = to_duration(from.send_nvlink_simple());
  to.send_pcie = to_duration(from.send_pcie());
  to.send_network_simple = to_duration(from.send_network_simple());
  if (from.has_base()) to.base = latency(from.base());
  if (from.has_step()) to.step = latency(from.step());
  if (!from.nvls_tree_step().empty()) to.nvls_tree_step = to_duration(from.nvls_tree_step());
  to.ll_one_node = to_bandwidth(from.ll_one_node());
  to.ll128_channel_one_node = to_bandwidth(from.ll128_channel_one_node());
  to.ring_extra_steps = from.ring_extra_steps();
  to.send_own = to_bandwidth(from.send_own());
  to.nvls_shared = from.has_nvls_shared() ? from.nvls_shared() : 1;
  return to;
}

network::CommunicatorBuffers buffers(const v1::CommunicatorBuffers& from) {
  network::CommunicatorBuffers to;
  to.per_communicator = to_bytes(from.per_communicator());
  to.ring_channel = to_bytes(from.ring_channel());
  to.tree_channel = to_bytes(from.tree_channel());
  to.network_channel = to_bytes(from.network_channel());
  to.send_network = to_bytes(from.send_network());
  to.send_channel = to_bytes(from.send_channel());
  to.nvls_head_channel = to_bytes(from.nvls_head_channel());
  to.lazy = from.lazy();
  return to;
}

}  // namespace

network::CommunicationProfile communication_profile(const v1::CommunicationProfile& from) {
  network::CommunicationProfile to;
  to.name = from.name();
  to.source = from.source();
  to.nccl = nccl(from.nccl());
  for (const v1::NcclVersion& other : from.other_version())
    to.other_versions.push_back(other_version(to.nccl, other));
  to.achieved = achieved(from.achieved());
  to.buffers = buffers(from.buffers());
  return to;
}

}  // namespace sim::input
