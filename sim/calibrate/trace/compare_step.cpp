#include "sim/calibrate/trace/compare_step.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "sim/base/median.h"
#include "sim/calibrate/readers/reader.h"
#include "sim/calibrate/trace/align.h"

namespace sim::calibrate {

namespace {

double in_seconds(std::int64_t ns) {
  return static_cast<double>(ns) * 1e-9;
}

std::vector<Unmatched> by_time(std::map<std::pair<std::string, std::string>, Unmatched> all) {
  std::vector<Unmatched> out;
  for (auto& [key, one] : all) out.push_back(std::move(one));
  std::stable_sort(out.begin(), out.end(),
                   [](const Unmatched& a, const Unmatched& b) { return a.seconds > b.seconds; });
  return out;
}

void add(std::map<std::pair<std::string, std::string>, Unmatched>& to, std::string name,
         KernelFamily family, double count, double seconds) {
  const std::string of(calibrate::name(family));
  Unmatched& one = to[{name, of}];
  one.name = std::move(name);
  one.family = of;
  one.count += count;
  one.seconds += seconds;
}

std::vector<OperationRow> rows_of(const ExpectedStep& expected,
                                  const std::vector<OperationTime>& times) {
  std::map<std::tuple<int, std::string, int>, OperationRow> rows;
  for (std::size_t i = 0; i < expected.operations.size(); ++i) {
    const ExpectedOperation& o = expected.operations[i];
    OperationRow& row = rows[{static_cast<int>(o.queue), o.label, static_cast<int>(o.pass)}];
    row.queue = program::name(o.queue);
    row.label = o.label;
    row.family = name(o.family);
    row.pass = program::name(o.pass);
    row.count += 1;
    if (times[i].steps == 0) continue;
    row.matched += 1;
    // The measured time of a collective includes waiting for peers, so the predicted time does too.
    row.predicted_s += seconds(o.end - (communicates(o.family) ? o.start : o.met));
    row.measured_s += times[i].mean_s();
  }
  std::vector<OperationRow> out;
  for (auto& [key, row] : rows) out.push_back(std::move(row));
  const auto apart = [](const OperationRow& r) { return std::abs(r.measured_s - r.predicted_s); };
  std::stable_sort(out.begin(), out.end(), [&](const OperationRow& a, const OperationRow& b) {
    return apart(a) > apart(b);
  });
  return out;
}

}  // namespace

std::vector<OperationTime> operation_times(const ExpectedStep& expected, const MeasuredTrace& trace,
                                           const TraceMatch& match) {
  std::vector<std::vector<double>> of_steps(expected.operations.size()), own_of_steps = of_steps;
  std::vector<OperationTime> out(expected.operations.size());
  for (std::size_t s = 0; s < trace.steps.size(); ++s) {
    std::vector<std::int64_t> ns(expected.operations.size()), own_ns = ns;
    std::vector<std::uint32_t> first(expected.operations.size(), ~0u);  // index of its first call
    for (std::size_t k = 0; k < match.owners[s].size(); ++k) {
      if (match.owners[s][k] < 0) continue;
      const auto i = static_cast<std::size_t>(match.owners[s][k]);
      const MeasuredKernel& kernel = trace.kernels[trace.steps[s].kernels[k]];
      const std::uint32_t call = match.calls[s].of_kernel[k];
      const KernelFamily family = expected.operations[i].family;
      const KernelFamily of_call = match.calls[s].all[call].item.family;
      const bool own = relation(family, of_call) == Relation::same;
      ns[i] += kernel.duration_ns;
      if (own || of_call == KernelFamily::gemm_part) own_ns[i] += kernel.duration_ns;
      out[i].own_family |= own;
      out[i].stand_in |= kernel.stand_in();
      // Norms and similar operations are several kernels of one family in every library.
      const bool one_kernel = family == KernelFamily::elementwise || family == KernelFamily::copy ||
                              family == KernelFamily::reduction;
      if (first[i] == ~0u) first[i] = call;
      out[i].in_pieces |= passes_over_memory(family) && first[i] != call && (one_kernel || !own);
    }
    for (std::size_t i = 0; i < ns.size(); ++i) {
      if (ns[i] > 0) of_steps[i].push_back(in_seconds(ns[i]));
      if (own_ns[i] > 0) own_of_steps[i].push_back(in_seconds(own_ns[i]));
    }
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (of_steps[i].empty()) continue;
    out[i].steps = static_cast<std::int64_t>(of_steps[i].size());
    for (const double one : of_steps[i]) out[i].sum_s += one;
    out[i].least_s = *std::min_element(of_steps[i].begin(), of_steps[i].end());
    out[i].all_s = of_steps[i];
    out[i].median_s = median(std::move(of_steps[i]));
    out[i].own_median_s = median(std::move(own_of_steps[i]));
  }
  return out;
}

StepComparison compare_step(const ExpectedStep& expected, const MeasuredTrace& trace,
                            const TraceMatch& match) {
  StepComparison out;
  const std::vector<OperationTime> times = operation_times(expected, trace, match);
  out.share = share(expected, trace, match);
  out.steps = trace.steps.size();
  out.rows = rows_of(expected, times);
  std::map<std::pair<std::string, std::string>, Unmatched> kernels, operations;
  std::vector<double> lengths;
  const double weight = 1.0 / static_cast<double>(std::max<std::size_t>(1, out.steps));
  for (std::size_t s = 0; s < trace.steps.size(); ++s) {
    lengths.push_back(in_seconds(trace.steps[s].length_ns));
    for (std::size_t k = 0; k < match.owners[s].size(); ++k) {
      if (match.owners[s][k] >= 0) continue;
      const MeasuredKernel& kernel = trace.kernels[trace.steps[s].kernels[k]];
      add(kernels, std::string(kernel.name), kernel.family, weight,
          weight * in_seconds(kernel.duration_ns));
    }
  }
  for (std::size_t i = 0; i < times.size(); ++i)
    if (times[i].steps == 0) {
      const ExpectedOperation& o = expected.operations[i];
      add(operations, o.label, o.family, 1, seconds(o.own()));
    }
  out.kernels = by_time(std::move(kernels));
  out.operations = by_time(std::move(operations));
  out.measured_s = median(std::move(lengths));
  out.predicted_s = seconds(expected.step_time);
  out.rebuilt_s = seconds(step_time_with(expected, measured_prices(expected, times)));
  return out;
}

}  // namespace sim::calibrate
