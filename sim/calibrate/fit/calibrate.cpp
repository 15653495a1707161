#include "sim/calibrate/fit/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "sim/calibrate/rows/row_plan.h"

namespace sim::calibrate {

namespace {

bool is_kept(const Fit& fit, const std::string& block) {
  return std::ranges::any_of(fit.kept, [&](const KeptBlock& one) { return one.block == block; });
}

// Text lines: each file with those of its sources that the fit used.
std::vector<std::string> source_lines(const std::vector<SourceFile>& sources, const Fit& fit,
                                      const std::string& base) {
  std::set<std::string> used;
  for (const SourceResidual& r : fit.residuals)
    if (!is_kept(fit, r.block)) used.insert(r.source);
  std::vector<std::string> lines;
  for (const SourceFile& source : sources) {
    std::set<std::string> who;
    for (const KernelSample& sample : source.measurements.kernels)
      if (used.count(sample.source)) who.insert(sample.source);
    for (const CollectiveSample& sample : source.measurements.collectives)
      if (used.count(sample.source)) who.insert(sample.source);
    who.erase(source.path);
    lines.push_back(who.empty() ? fmt::format("{} ({})", source.path, source.format)
                                : fmt::format("{}: {}", source.path, fmt::join(who, ", ")));
  }
  lines.push_back(fmt::format("everything else: profile {}", base));
  return lines;
}

device::Provenance provenance(const Calibration& done, const input::Machine& machine,
                              const CalibrateOptions& wanted, const device::Provenance& of_base) {
  device::Provenance out;
  out.device = machine.gpu.name;
  out.base = of_base.base.empty() ? done.base : of_base.base;
  out.date = wanted.date;
  for (const SourceFile& source : done.sources)
    if (wanted.date.empty()) out.date = std::max(out.date, source.measurements.date);
  if (out.date.empty()) out.date = of_base.date;
  out.command = wanted.command;
  for (const SourceResidual& r : done.fit.residuals) {
    if (is_kept(done.fit, r.block)) continue;
    std::string source = fmt::format("{}, {}", r.source, r.gpu.empty() ? machine.gpu.name : r.gpu);
    if (r.level != 1) source += fmt::format(" at {:.3f} of its time", r.level);
    out.residuals.push_back({r.group, source, static_cast<std::int64_t>(r.samples),
                             r.mean_absolute_percent, r.bias_percent});
  }
  return out;
}

// Fits the CPU costs of the profile. A profiler slows the CPU by an unknown amount. The measurement
// has a standard deviation of a factor e, the base one of half that in logarithms. The weighted
// mean therefore weighs the base 4 : 1.
void fit_host(const std::vector<SourceFile>& sources, Fit& out) {
  constexpr double base_weight = 4;
  std::map<std::string, std::vector<HostSample>> by_path;
  for (const SourceFile& source : sources)
    for (const HostSample& sample : source.measurements.host)
      by_path[sample.path].push_back(sample);
  for (const auto& [path, some] : by_path) {
    if (out.profile.paths(path).size() != 1) continue;
    FittedParameter p;
    p.block = "host";
    p.path = path;
    p.base = out.profile.get(path);
    p.lower = 0;
    p.upper = 1e-3;
    double logs = 0;
    for (const HostSample& sample : some) {
      p.samples += static_cast<std::size_t>(sample.count);
      logs += std::log(sample.seconds) / static_cast<double>(some.size());
    }
    if (p.base <= 0) continue;
    p.fitted = true;
    const double value = std::exp((base_weight * std::log(p.base) + logs) / (base_weight + 1));
    out.profile.set(path, std::clamp(value, p.lower, p.upper));
    p.value = out.profile.get(path);
    out.parameters.push_back(p);
    for (const HostSample& sample : some) {
      const double ratio = p.value / sample.seconds;
      out.residuals.push_back({path, sample.source, "", static_cast<std::size_t>(sample.count),
                               100 * std::abs(ratio - 1), 100 * (ratio - 1),
                               100 * std::abs(p.base / sample.seconds - 1), 1, 0, 0, "host"});
    }
  }
}

// Takes over the numbers that sources measured by themselves; the last source counts. A number that
// is further from the base than a factor of 20 is left out: another unit.
void take_fields(const std::vector<SourceFile>& sources, Fit& out) {
  constexpr double furthest = 20;
  for (const SourceFile& source : sources)
    for (const FieldSample& sample : source.measurements.fields) {
      const bool known = out.profile.paths(sample.path).size() == 1;
      const double base = known ? out.profile.get(sample.path) : 0;
      if (!known || base <= 0 || sample.value > furthest * base || sample.value * furthest < base) {
        ++out.passed["fields that the profile does not have, or far from its value"];
        continue;
      }
      FittedParameter p;
      p.block = "fields";
      p.path = sample.path;
      p.base = base;
      p.upper = furthest * base;
      p.samples = 1;
      p.fitted = true;
      out.profile.set(sample.path, sample.value);
      p.value = out.profile.get(sample.path);
      out.parameters.push_back(p);
      out.residuals.push_back({sample.path, sample.source, "", 1, 0, 0,
                               100 * std::abs(base / sample.value - 1), 1, 0, 0, "fields"});
    }
}

// The option or command with which a source can be used; "" if none is known.
std::string remedy(const SourceFile& source) {
  const auto reader = std::ranges::find(readers(), source.format, &Reader::name);
  if (reader != readers().end() && reader->is_trace)
    return "; --plan PLAN, the plan that ran, says which operation each kernel is";
  if (!source.measurements.steps.empty())
    return "; --plan PLAN, the plan that ran, predicts its steps";
  if (source.format == "memory snapshot")
    return fmt::format("; `{}` compares the allocator with it", command_for(*reader, source.path));
  return "";
}

// Problems that say why no measurement could be fitted.
Diagnostics nothing_fitted(const Calibration& calibration, bool planned) {
  std::map<std::string, std::int64_t> passed = calibration.fit.passed;
  Diagnostics problems;
  for (const SourceFile& source : calibration.sources) {
    for (const auto& [why, count] : source.measurements.passed) passed[why] += count;
    problems.push_back({source.path, fmt::format("holds no measurement that could be fitted (read "
                                                 "as {})",
                                                 source.format)});
  }
  for (const auto& [why, count] : passed)
    problems.back().message += fmt::format("; {} left out: {}", count, why);
  for (std::size_t i = 0; !planned && i < problems.size(); ++i)
    problems[i].message += remedy(calibration.sources[i]);
  return problems;
}

}  // namespace

Result<Calibration> calibrate(std::vector<SourceFile> sources, const input::Machine& machine,
                              const CalibrateOptions& wanted) {
  Result<input::ProfileDraft> base = input::ProfileDraft::load(wanted.base);
  if (!base) return base.errors();
  std::vector<KernelSample> kernels;
  for (const SourceFile& source : sources) {
    const Measurements& m = source.measurements;
    kernels.insert(kernels.end(), m.kernels.begin(), m.kernels.end());
  }
  const device::Profile before = base->device();
  Calibration out{std::move(sources), before.name, fit(*base, machine.gpu, kernels), ""};
  std::vector<CollectiveSample> collectives;
  for (const SourceFile& source : out.sources) {
    const std::vector<CollectiveSample>& some = source.measurements.collectives;
    collectives.insert(collectives.end(), some.begin(), some.end());
  }
  input::ProfileDraft& made = out.fit.profile;
  if (!collectives.empty() && made.has_communication()) fit_network(machine, collectives, out.fit);
  fit_host(out.sources, out.fit);
  take_fields(out.sources, out.fit);
  if (!wanted.force) keep_doubtful(*base, out.fit);
  const bool links =
      std::any_of(out.fit.parameters.begin(), out.fit.parameters.end(),
                  [](const FittedParameter& p) { return p.fitted && p.block == "communication"; });
  if (links)
    made.communication_source(
        fmt::format("{}; achieved fitted as provenance says", made.communication_source()));
  if (out.fit.residuals.empty()) return nothing_fitted(out, wanted.planned);
  out.fit.disagreements = disagreements(out.fit.residuals);
  made.name(wanted.name);
  made.provenance(provenance(out, machine, wanted, before.provenance),
                  source_lines(out.sources, out.fit, out.base));
  Diagnostics problems = device::check(made.device());
  if (made.has_communication())
    for (const std::string& text : network::check(made.communication()))
      problems.push_back({"communication", text});
  if (!problems.empty()) return problems;
  out.profile =
      made.text(fmt::format("Written by the command in `provenance`; fields that it "
                            "did not fit are those of profile {}.",
                            out.base));
  return out;
}

std::vector<std::string> doubts(const Calibration& calibration) {
  std::vector<std::string> all;
  for (const SourceFile& source : calibration.sources)
    for (const std::string& doubt : source.measurements.doubts)
      all.push_back(fmt::format("{}: {}", source.path, doubt));
  if (fitted(calibration) > 0) return all;
  for (const KeptBlock& one : calibration.fit.kept)
    all.push_back(fmt::format("{}: {}", one.block, one.reason));
  if (all.empty())
    all.emplace_back("no parameter depends on five measurements of five distinct shapes");
  return all;
}

std::string cluster_for(const std::string& device) {
  if (device.empty()) return "";
  std::string sibling;
  for (const std::string& name : known_clusters()) {
    const Result<input::Machine> machine = input::find_cluster(name);
    if (!machine) continue;
    const Kinship kin = kinship(device, machine->gpu.name);
    if (kin == Kinship::same) return name;
    if (kin == Kinship::sibling && sibling.empty()) sibling = name;
  }
  return sibling;
}

}  // namespace sim::calibrate
