#include "sim/calibrate/fit/compared_collectives.h"

#include <algorithm>

#include "sim/calibrate/fit/network_samples.h"

namespace sim::calibrate {

std::vector<ComparedCollective> compare_collectives(const input::Machine& machine,
                                                    const network::CommunicationProfile& profile,
                                                    const std::vector<CollectiveSample>& samples,
                                                    std::map<std::string, std::int64_t>& passed) {
  NetworkSamples items = usable_samples(machine, samples, passed);
  const std::vector<PredictedTime> times = keep_answered(items, profile, passed);
  std::vector<ComparedCollective> compared;
  for (std::size_t i = 0; i < items.size(); ++i)
    compared.push_back(compared_of(items[i], times[i]));
  return compared;
}

output::Rows collectives_table(const std::vector<ComparedCollective>& compared) {
  using output::Json;
  using output::Show;
  const bool fitted =
      std::ranges::any_of(compared, [](const ComparedCollective& one) { return one.fitted_s > 0; });
  const bool sources = std::ranges::any_of(compared, [&](const ComparedCollective& one) {
    return one.source != compared.front().source;
  });
  const auto microseconds = [](const char* key, const char* heading) {
    return output::Column{key, heading, "us", 1, false, "", 1e6};
  };
  const auto percent = [](const char* key, const char* heading) {
    return output::Column{key, heading, "", 1, false, " %", 1, Show::change};
  };
  output::Rows rows{"collectives",
                    fitted ? "measured collectives, predicted by the base and the fitted profile"
                           : "measured collectives, and their predictions",
                    {{"collective", "collective", "", 0, true},
                     {"gpus", "GPUs"},
                     {"nodes", "nodes"},
                     {"bytes", "size", "", 0, false, "", 1, Show::bytes},
                     microseconds("measured_s", "measured"),
                     microseconds("predicted_s", "predicted"),
                     percent("error_pct", "error")},
                    {}};
  if (fitted) {
    rows.columns.push_back(microseconds("fitted_s", "fitted"));
    rows.columns.push_back(percent("fitted_error_pct", "error"));
  }
  rows.columns.push_back({"source", sources ? "source" : "", "", 0, true});
  for (const ComparedCollective& one : compared) {
    std::vector<Json>& cells = rows.cells.emplace_back();
    cells = {std::string(collective::name(one.kind)),
             one.ranks,
             one.nodes,
             one.bytes.n,
             one.measured_s,
             one.predicted_s,
             100 * (one.predicted_s / one.measured_s - 1)};
    if (fitted) {
      cells.emplace_back(one.fitted_s);
      cells.emplace_back(100 * one.error());
    }
    cells.emplace_back(one.source);
  }
  return rows;
}

}  // namespace sim::calibrate
