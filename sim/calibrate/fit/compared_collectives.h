// compared_collectives.h — measured collectives beside their predictions, one row for each
// measurement.
//
// `calibrate` shows them before and after the fit, `topo time --compare` without a fit.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/calibrate/readers/measurement.h"
#include "sim/cluster/network/network.h"
#include "sim/input/cluster/cluster.h"
#include "sim/output/document.h"

namespace sim::calibrate {

struct ComparedCollective {
  collective::Kind kind = collective::Kind::all_reduce;
  std::string source;
  int ranks = 0, nodes = 1;
  Bytes bytes{};
  double measured_s = 0, predicted_s = 0;
  double fitted_s = 0;  // predicted by the fitted profile; 0: nothing was fitted

  // Relative error of the prediction with the fitted profile if there is one.
  double error() const { return (fitted_s > 0 ? fitted_s : predicted_s) / measured_s - 1; }
};

// Predicts samples with a profile, in their order. `passed` counts those left out by reason.
std::vector<ComparedCollective> compare_collectives(const input::Machine& machine,
                                                    const network::CommunicationProfile& profile,
                                                    const std::vector<CollectiveSample>& samples,
                                                    std::map<std::string, std::int64_t>& passed);

// The table "collectives". If it has many rows, text shows the first ones.
output::Rows collectives_table(const std::vector<ComparedCollective>& compared);

}  // namespace sim::calibrate
