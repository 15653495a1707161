#include "sim/calibrate/fit/network_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <tuple>
#include <utility>

#include "sim/base/ascii.h"
#include "sim/calibrate/fit/fit.h"

namespace sim::calibrate {

namespace {

constexpr std::int64_t host_timed_from = 16 << 20;

// Places the sample's ranks on nodes of the machine, as many per node as the sample has.
std::optional<NetworkSample> place(const CollectiveSample& sample, const input::Machine& machine,
                                   std::string& why) {
  NetworkSample item{&sample, machine.cluster, {}};
  if (sample.groups) {
    item.groups = *sample.groups;
    return item;
  }
  topology::Node& node = item.cluster.node;
  int nodes = sample.nodes;
  if (nodes == 0) nodes = topology::nodes_of(sample.ranks, node.gpus);
  const int per_node = (sample.ranks + nodes - 1) / nodes;
  if (per_node > node.gpus || sample.ranks % nodes != 0) {
    why = fmt::format("more ranks on a node than {} has GPUs", machine.cluster.name);
    return std::nullopt;
  }
  item.cluster.nodes = std::max(nodes, 1);
  if (sample.nics > 0) {
    node.nics = sample.nics;
    node.nic = {static_cast<std::int64_t>(sample.nic_bits_per_second / 8)};
  }
  if (!topology::problems(item.cluster).empty()) {
    why = fmt::format("a layout that {} cannot be given", machine.cluster.name);
    return std::nullopt;
  }
  std::vector<int> ranks;
  for (int n = 0; n < nodes; ++n)
    for (int g = 0; g < per_node; ++g) ranks.push_back(n * node.gpus + g);
  item.groups.ranks = {ranks};
  return item;
}

}  // namespace

double NetworkSample::weight() const {
  return static_cast<double>(
      std::clamp<std::int64_t>(sample->count, 1, static_cast<std::int64_t>(least_network_samples)));
}

std::vector<std::optional<PredictedTime>> predict(const NetworkSamples& items,
                                                  const network::CommunicationProfile& profile) {
  const auto shared = std::make_shared<const network::CommunicationProfile>(profile);
  std::map<std::tuple<int, int, int, std::int64_t>, std::unique_ptr<network::Network>> networks;
  std::vector<std::optional<PredictedTime>> said;
  for (const NetworkSample& item : items) {
    const topology::Node& node = item.cluster.node;
    auto& network = networks[{item.cluster.nodes, node.gpus, node.nics, node.nic.bytes_per_second}];
    if (!network) network = std::make_unique<network::Network>(item.cluster, shared);
    const Result<network::Answer> answer =
        network->answer(item.sample->kind, item.groups, item.sample->bytes);
    if (answer && answer->algorithm_bandwidth > 0) {
      said.push_back(PredictedTime{seconds(answer->latency), answer->algorithm_bandwidth,
                                   std::string(answer->algorithm)});
    } else {
      said.emplace_back();
    }
  }
  return said;
}

ComparedCollective compared_of(const NetworkSample& item, const PredictedTime& time) {
  const CollectiveSample& sample = *item.sample;
  int ranks = sample.ranks;
  if (sample.groups) ranks = static_cast<int>(item.groups.ranks.front().size());
  return {sample.kind,
          sample.source,
          ranks,
          sample.groups ? sample.nodes : item.cluster.nodes,
          sample.bytes,
          sample.seconds,
          time.seconds(static_cast<double>(sample.bytes.n))};
}

double log_error(const NetworkSample& item, const PredictedTime& said) {
  return std::log(item.sample->seconds / said.seconds(static_cast<double>(item.sample->bytes.n)));
}

NetworkSamples usable_samples(const input::Machine& machine,
                              const std::vector<CollectiveSample>& samples,
                              std::map<std::string, std::int64_t>& passed) {
  NetworkSamples items;
  // The memory size of the GPU does not affect collectives, so it is cut from the name.
  const std::string gpu = machine.gpu.name.substr(0, machine.gpu.name.rfind('-'));
  for (const CollectiveSample& sample : samples) {
    if (kinship(sample.gpu, gpu) != Kinship::same) {
      ++passed[fmt::format("collectives of another GPU ({})", sample.gpu)];
      continue;
    }
    if (sample.waits) {
      passed["collectives that wait for other ranks: their times have no floor"] += sample.count;
      continue;
    }
    if (sample.host_timed && sample.bytes.n < host_timed_from) {
      ++passed["collectives below 16 MiB, timed from the host"];
      continue;
    }
    if (sample.host_timed && sample.kind != collective::Kind::all_reduce) {
      ++passed["gathers and scatters timed from the host, with the copies of their lists"];
      continue;
    }
    std::string why;
    auto item = place(sample, machine, why);
    if (item) {
      items.push_back(std::move(*item));
    } else {
      ++passed[why];
    }
  }
  return items;
}

std::vector<PredictedTime> keep_answered(NetworkSamples& items,
                                         const network::CommunicationProfile& profile,
                                         std::map<std::string, std::int64_t>& passed) {
  const std::vector<std::optional<PredictedTime>> all = predict(items, profile);
  NetworkSamples kept;
  std::vector<PredictedTime> said;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::string& forced = items[i].sample->algorithm;
    if (!all[i]) {
      ++passed["collectives that the network does not answer"];
    } else if (!forced.empty() && !starts_with(forced, all[i]->algorithm)) {
      ++passed["collectives whose algorithm was forced to another"];
    } else {
      kept.push_back(items[i]);
      said.push_back(*all[i]);
    }
  }
  items = std::move(kept);
  return said;
}

}  // namespace sim::calibrate
