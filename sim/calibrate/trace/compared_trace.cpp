#include "sim/calibrate/trace/compared_trace.h"

namespace sim::calibrate {

namespace {

constexpr int rounds = 2;

std::vector<SourceFile> sources_of(const std::vector<ComparedTrace>& traces,
                                   const program::ValidPlan& plan, answer::Site& site, bool again) {
  std::vector<SourceFile> out;
  std::map<int, ExpectedStep> steps;
  for (const ComparedTrace& one : traces) {
    const ExpectedStep* expected = one.expected.get();
    if (again) {
      auto at = steps.find(one.rank);
      if (at == steps.end())
        at = steps.emplace(one.rank, expected_step(*answer::check(plan, site), one.rank)).first;
      expected = &at->second;
    }
    const std::vector<OperationTime> times = operation_times(*expected, one.trace, one.match);
    out.push_back(
        {one.path, "trace of a step",
         measurements_of(*expected, times, site.profile.device.overlap.arrival, one.path, "")});
  }
  return out;
}

}  // namespace

ComparedTrace compared_trace(MeasuredTrace trace, std::shared_ptr<const ExpectedStep> expected,
                             int rank) {
  ComparedTrace out;
  out.path = trace.path;
  out.rank = rank;
  out.expected = std::move(expected);
  out.trace = std::move(trace);
  out.match = match(*out.expected, out.trace);
  out.comparison = compare_step(*out.expected, out.trace, out.match);
  return out;
}

Result<Calibration> calibrate_traces(const std::vector<ComparedTrace>& traces,
                                     const std::vector<SourceFile>& others,
                                     const program::ValidPlan& plan, answer::Site& site,
                                     const CalibrateOptions& wanted) {
  const auto with_others = [&](bool again) {
    std::vector<SourceFile> all = sources_of(traces, plan, site, again);
    all.insert(all.end(), others.begin(), others.end());
    return all;
  };
  Result<Calibration> done = calibrate(with_others(false), site.machine, wanted);
  for (int round = 1; round < rounds && done; ++round) {
    site.profile.device = done->fit.profile.device();
    if (done->fit.profile.has_communication()) {
      site.profile.communication = done->fit.profile.communication();
      site.network = std::make_unique<network::Network>(
          site.machine.cluster,
          std::make_shared<const network::CommunicationProfile>(site.profile.communication));
    }
    done = calibrate(with_others(true), site.machine, wanted);
  }
  return done;
}

}  // namespace sim::calibrate
