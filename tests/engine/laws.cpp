#include "laws.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "sample.h"
#include "sim/engine/run/fast_engine.h"

namespace sample {

using namespace sim;
using engine::MemoryDetail;
using engine::RunReport;

namespace {

constexpr Bytes roomy{std::int64_t{1} << 46};

struct Case {
  program::Job job;
  engine::Times times;

  RunReport run(MemoryDetail detail, Bytes total, bool expandable = false,
                engine::Method method = engine::Method::fast) const {
    engine::Options options;
    options.memory = detail;
    options.method = method;
    engine::Memory memory = sample::memory(job, total);
    if (expandable) memory.options = "expandable_segments:True";
    return engine::run(job, times, memory, options);
  }
};

std::string differ(std::string_view what, std::size_t c, std::int64_t a, std::int64_t b) {
  return a == b ? "" : fmt::format("class {}, {}: {} and {}", c, what, a, b);
}

std::string engines(const RunReport& a, const RunReport& b) {
  std::string said = differ("step", 0, a.step_time.ps, b.step_time.ps);
  if (said.empty()) said = differ("warm-up", 0, a.warm_up_time.ps, b.warm_up_time.ps);
  for (std::size_t c = 0; c < a.classes.size(); ++c) {
    const engine::ClassReport &x = a.classes[c], &y = b.classes[c];
    for (std::size_t k = 0; k < x.accounts.size() && said.empty(); ++k)
      said = differ(engine::name(static_cast<engine::Account>(k)), c, x.accounts[k].ps,
                    y.accounts[k].ps);
    const auto peak = [&](const char* what, Bytes one, Bytes other) {
      if (said.empty()) said = differ(what, c, one.n, other.n);
    };
    peak("allocated", x.peak_allocated, y.peak_allocated);
    peak("reserved", x.peak_reserved, y.peak_reserved);
    peak("active", x.peak_active, y.peak_active);
    peak("static", x.static_bytes, y.static_bytes);
  }
  return said.empty() ? "" : "engines: " + said;
}

std::string accounts(const RunReport& report) {
  for (std::size_t c = 0; c < report.classes.size(); ++c) {
    Duration sum{};
    for (const Duration d : report.classes[c].accounts) sum += d;
    const std::string said = differ("sum and step", c, sum.ps, report.step_time.ps);
    if (!said.empty()) return "accounts: " + said;
  }
  return "";
}

void slow(std::vector<Duration>& durations) {
  for (Duration& d : durations) d = Duration{d.ps + d.ps / 4};
}

Case slower(Case one, unsigned part) {
  engine::Times& t = one.times;
  if (part % 4 == 0) {
    t.launch = 2 * t.launch;
    t.launch_collective = 2 * t.launch_collective;
    t.launch_exchange = 2 * t.launch_exchange;
  }
  for (engine::ClassTimes& c : t.classes) {
    if (part % 4 == 1) {
      slow(c.kernel);
      slow(c.kernel_overlapped);
    } else if (part % 4 == 2) {
      slow(c.transfer);
      slow(c.transfer_overlapped);
    } else if (part % 4 == 3) {
      for (auto& messages : c.message) slow(messages);
    }
  }
  return one;
}

std::string never_faster(const Case& one, const RunReport& time, unsigned part) {
  const RunReport later = slower(one, part).run(MemoryDetail::none, roomy);
  if (later.step_time >= time.step_time) return "";
  return fmt::format("slower: part {}: {} and {}", part % 4, time.step_time.ps, later.step_time.ps);
}

std::int64_t most_reserved(const RunReport& report) {
  std::int64_t most = 0;
  for (const auto& c : report.classes) most = std::max(most, c.peak_reserved.n);
  return most;
}

std::string more_memory(const Case& one) {
  const auto at = [&](Bytes total) { return one.run(MemoryDetail::exact, total, true); };
  const RunReport exact = at(roomy);
  if (!exact.fits()) return "memory: 64 TiB are not enough";
  for (const std::int64_t percent : {80, 95, 110}) {
    const RunReport tight = at(Bytes{most_reserved(exact) / 100 * percent});
    if (percent > 100 && !tight.fits()) return "memory: 110 % of the peak does not fit";
    for (std::size_t c = 0; c < exact.classes.size() && tight.fits(); ++c) {
      const std::string said = differ("allocated", c, exact.classes[c].peak_allocated.n,
                                      tight.classes[c].peak_allocated.n);
      if (!said.empty()) return fmt::format("memory: {} %: {}", percent, said);
    }
  }
  return "";
}

std::string bounds(const Case& one, const RunReport& exact) {
  const RunReport part = one.run(MemoryDetail::bounded, roomy);
  for (std::size_t c = 0; c < exact.classes.size(); ++c) {
    const engine::ClassReport &a = exact.classes[c], &b = part.classes[c];
    if (b.peak_reserved <= a.peak_reserved && a.peak_reserved <= b.reserved_most) continue;
    return fmt::format("bounds: class {}: {} is not from {} to {}", c, a.peak_reserved.n,
                       b.peak_reserved.n, b.reserved_most.n);
  }
  // Driver calls of a steady step delay it by at most 0.1 % (rank/steadiness.h). With bounded
  // memory step 2 may be steady in this way, where the exact replay goes on to a step without one.
  if (part.step_time.ps <= exact.step_time.ps + exact.step_time.ps / 1000) return "";
  return fmt::format("bounds: a step of {} ps is longer than {} ps", part.step_time.ps,
                     exact.step_time.ps);
}

}  // namespace

std::string broken_law(const program::Plan& plan, double launch_us, unsigned part) {
  Case one{job(plan), {}};
  one.times = times(one.job, launch_us);
  const RunReport exact = one.run(MemoryDetail::exact, roomy);
  std::string said =
      engines(exact, one.run(MemoryDetail::exact, roomy, false, engine::Method::reference));
  if (said.empty()) said = accounts(exact);
  const RunReport time = one.run(MemoryDetail::none, roomy);
  if (said.empty() && one.job.ends_together && exact.step_time < time.step_time)
    said = fmt::format("least: {} and {}", exact.step_time.ps, time.step_time.ps);
  if (said.empty()) said = never_faster(one, time, part);
  if (said.empty()) said = more_memory(one);
  if (said.empty()) said = bounds(one, exact);
  return said;
}

}  // namespace sample
