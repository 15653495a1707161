// network_samples.h — measured collectives on a machine, and their predictions by its network.
//
// fit_network() calls it: once to choose the samples, and once for each set of parameters that it
// tries.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/calibrate/fit/compared_collectives.h"
#include "sim/calibrate/readers/measurement.h"
#include "sim/cluster/network/network.h"
#include "sim/input/cluster/cluster.h"

namespace sim::calibrate {

// A sample, and the placement of its ranks on nodes of the machine.
struct NetworkSample {
  const CollectiveSample* sample;
  topology::Cluster cluster;
  network::Groups groups;
  double weight() const;  // the number of its measurements, at most least_network_samples
};
using NetworkSamples = std::vector<NetworkSample>;

constexpr std::size_t least_network_samples = 5;

// Prediction of the network for one sample: seconds, and bytes per second.
struct PredictedTime {
  double latency = 0, rate = 0;
  std::string algorithm;
  double seconds(double bytes) const { return latency + bytes / rate; }
};

// Samples measured on this kind of machine. `passed` counts the others by reason.
NetworkSamples usable_samples(const input::Machine& machine,
                              const std::vector<CollectiveSample>& samples,
                              std::map<std::string, std::int64_t>& passed);

// Predicts every sample. Samples of one cluster share a network. std::nullopt: the network cannot
// predict it.
std::vector<std::optional<PredictedTime>> predict(const NetworkSamples& items,
                                                  const network::CommunicationProfile& profile);

// Keeps samples that the network predicts with the algorithm that the source forced.
std::vector<PredictedTime> keep_answered(NetworkSamples& items,
                                         const network::CommunicationProfile& profile,
                                         std::map<std::string, std::int64_t>& passed);

// The sample beside its prediction.
ComparedCollective compared_of(const NetworkSample& item, const PredictedTime& time);

// ln(measured / predicted).
double log_error(const NetworkSample& item, const PredictedTime& time);

}  // namespace sim::calibrate
