// topo_compare.cpp — `rehearse topo time --compare`: measured collectives beside their predictions.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/calibrate/fit/compared_collectives.h"
#include "sim/calibrate/readers/reader.h"
#include "sim/command/common/csv_option.h"
#include "sim/command/common/watch.h"
#include "sim/command/topo/topo.h"
#include "sim/output/document.h"

namespace sim::command {

int topo_compare(const input::Machine& machine, const Options& options, Globals globals) {
  std::vector<calibrate::CollectiveSample> samples;
  std::map<std::string, std::int64_t> passed;
  for (const std::string& path : options.list("compare")) {
    const calibrate::Source source = need(calibrate::read_source(path));
    const std::vector<calibrate::CollectiveSample>& some = source.measurements.collectives;
    if (some.empty())
      throw Stop{complain({{path, fmt::format("{}, without collectives; `{}` reads it",
                                              source.reader->name,
                                              calibrate::command_for(*source.reader, path))}}),
                 ""};
    samples.insert(samples.end(), some.begin(), some.end());
    for (const auto& [why, count] : source.measurements.passed) passed[why] += count;
  }
  answer::Sites sites;
  const answer::Site& site = *need(sites.of(machine));
  std::vector<calibrate::ComparedCollective> compared =
      calibrate::compare_collectives(machine, site.profile.communication, samples, passed);
  std::string left_out;
  for (const auto& [why, count] : passed) left_out += fmt::format("{} left out: {}\n", count, why);
  if (compared.empty())
    throw Stop{exit_data, fmt::format("no measured collective is of {}: {}", machine.cluster.name,
                                      left_out.substr(0, left_out.find('\n')))};
  double sum = 0, bias = 0;
  for (const calibrate::ComparedCollective& one : compared) {
    sum += std::abs(one.error());
    bias += one.error();
  }
  const auto count = static_cast<double>(compared.size());
  output::Document document;
  document.blocks.emplace_back(output::Note{
      "",
      fmt::format("{} measured times on {}: mean absolute error {:.1f} %, bias {:+.1f} %",
                  compared.size(), machine.cluster.name, 100 * sum / count, 100 * bias / count),
      true});
  document.blocks.emplace_back(
      output::Values{"",
                     {output::value("mean_absolute_error_pct", "", 100 * sum / count),
                      output::value("bias_pct", "", 100 * bias / count)}});
  output::Rows rows = calibrate::collectives_table(compared);
  const std::string csv = options.text("csv");
  if (!csv.empty()) write_csv(csv, rows);
  document.blocks.emplace_back(std::move(rows));
  if (!left_out.empty()) document.blocks.emplace_back(output::Note{"", left_out});
  if (csv != "-") say(globals, "topo-compare", document);
  return exit_yes;
}

}  // namespace sim::command
