#include "sim/calibrate/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "sim/calibrate/row_plan.h"

namespace sim::calibrate {

namespace {

std::vector<std::string> source_lines(const std::vector<SourceFile>& sources,
                                      const std::string& base) {
  std::vector<std::string> lines;
  for (const SourceFile& source : sources) {
    std::set<std::string> who;
    for (const KernelSample& sample : source.measurements.kernels) who.insert(sample.source);
    for (const CollectiveSample& sample : source.measurements.collectives)
      who.insert(sample.source);
    lines.push_back(who.empty() ? fmt::format("{} ({})", source.path, source.format)
                                : fmt::format("{}: {}", source.path, fmt::join(who, ", ")));
  }
  lines.push_back(fmt::format("everything else: profile {}", base));
  return lines;
}

device::Provenance provenance(const Calibration& done, const config::Machine& machine,
                              const Wanted& wanted, const device::Provenance& of_base) {
  device::Provenance out;
  out.device = machine.gpu.name;
  out.date = wanted.date;
  for (const SourceFile& source : done.sources)
    if (wanted.date.empty()) out.date = std::max(out.date, source.measurements.date);
  if (out.date.empty()) out.date = of_base.date;
  out.command = wanted.command;
  for (const SourceResidual& r : done.fit.residuals) {
    std::string source = fmt::format("{}, {}", r.source, r.gpu.empty() ? machine.gpu.name : r.gpu);
    if (r.level != 1) source += fmt::format(" at {:.3f} of its time", r.level);
    out.residuals.push_back({r.group, source, static_cast<std::int64_t>(r.samples),
                             r.mean_absolute_percent, r.bias_percent});
  }
  return out;
}

}  // namespace

Result<Calibration> calibrate(std::vector<SourceFile> sources, const config::Machine& machine,
                              const Wanted& wanted) {
  Result<config::ProfileDraft> base = config::ProfileDraft::load(wanted.base);
  if (!base) return base.errors();
  std::vector<KernelSample> kernels;
  for (const SourceFile& source : sources) {
    const Measurements& m = source.measurements;
    kernels.insert(kernels.end(), m.kernels.begin(), m.kernels.end());
  }
  const device::Profile before = base->device();
  Calibration out{std::move(sources), before.name, fit(*base, machine.gpu, kernels), ""};
  config::ProfileDraft& made = out.fit.profile;
  made.name(wanted.name);
  made.provenance(provenance(out, machine, wanted, before.provenance),
                  source_lines(out.sources, out.base));
  Diagnostics problems = device::check(made.device());
  if (!problems.empty()) return problems;
  out.profile =
      made.text(fmt::format("Written by the command in `provenance`; fields that it "
                            "did not fit are those of profile {}.",
                            out.base));
  return out;
}

std::string cluster_for(const std::string& device) {
  if (device.empty()) return "";
  std::string sibling;
  for (const std::string& name : known_clusters()) {
    const Result<config::Machine> machine = config::find_cluster(name);
    if (!machine) continue;
    const Kinship kin = kinship(device, machine->gpu.name);
    if (kin == Kinship::same) return name;
    if (kin == Kinship::sibling && sibling.empty()) sibling = name;
  }
  return sibling;
}

}  // namespace sim::calibrate
