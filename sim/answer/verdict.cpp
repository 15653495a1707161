#include "sim/answer/verdict.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/text.h"
#include "sim/engine/rank/job_view.h"
#include "sim/engine/rank/tensor_peak.h"

namespace sim::answer {

namespace {

using answer::Verdict;

constexpr double near_capacity = 0.02;

// Repeats the replay with more or less memory.
struct MemoryTrial {
  const program::Job& job;
  const engine::Times& times;
  const engine::Memory& memory;
  const engine::Options& options;
  std::int64_t microbatches;

  bool fits_with(Bytes change) const {
    engine::Memory changed = memory;
    changed.total += change;
    for (std::size_t c = 0; c < job.classes.size(); ++c)
      if (engine::peak_of_tensors(job.classes[c]) > engine::capacity(changed, c).n) return false;
    engine::Options unseen = options;
    unseen.observer = nullptr;
    unseen.until_out = true;
    // With bounded memory a plan that lives on retries counts as one that runs out: its replay
    // takes longest.
    if (options.memory == engine::MemoryDetail::bounded) unseen.most_retries = microbatches;
    const engine::RunReport run = engine::run(job, times, changed, unseen);
    return run.fits() && !run.ended_early;
  }
};

std::string range_text(const engine::Memory& memory) {
  return fmt::format("memory outside the allocator is known to {} less or {} more",
                     human(memory.more), human(memory.less));
}

// Bytes to add to the capacity so that the tensors of every class fit.
std::int64_t missing(const engine::RunReport& run) {
  std::int64_t most = 0;
  for (const engine::ClassReport& c : run.classes) most = std::max(most, c.needed.n - c.capacity.n);
  return most;
}

// The outcome changes at a reduction between `here` and `end`. The exact point is unknown, so take
// the middle.
double share(std::int64_t here, std::int64_t end) {
  return 0.5 * static_cast<double>(here + end);
}

Verdict of_fit(const answer::Answer& answer, const MemoryTrial& asked) {
  Verdict out;
  const engine::Memory& memory = asked.memory;
  const engine::ClassReport& who = answer::fullest(answer.run);
  const std::int64_t left = who.capacity.n - who.peak_reserved.n;
  const double range = static_cast<double>(memory.less.n + memory.more.n);
  if (left < memory.less.n && !asked.fits_with({-memory.less.n})) {
    out.tight = true;
    out.fits_probability =
        (static_cast<double>(memory.more.n) + share(left, memory.less.n)) / range;
    out.hangs_on = range_text(memory) + "; with the most it runs out";
    return out;
  }
  if (static_cast<double>(left) < near_capacity * static_cast<double>(who.capacity.n)) {
    out.tight = true;
    out.hangs_on = fmt::format("{} of {} stay unreserved", human(Bytes{left}), human(who.capacity));
    return out;
  }
  const auto most =
      std::ranges::max_element(answer.run.classes, {}, &engine::ClassReport::alloc_retries);
  if (most->alloc_retries < answer.plan.microbatches()) return out;
  out.tight = true;
  out.hangs_on = fmt::format("it lives on {} retries that give cached memory back to the device",
                             most->alloc_retries);
  return out;
}

Verdict of_out_of_memory(const answer::Answer& answer, const MemoryTrial& asked) {
  Verdict out;
  const engine::Memory& memory = asked.memory;
  out.fits_probability = 0;
  const std::int64_t lacks = missing(answer.run);
  if (lacks >= memory.more.n || !asked.fits_with(memory.more)) return out;
  const double range = static_cast<double>(memory.less.n + memory.more.n);
  out.tight = true;
  out.fits_probability = (static_cast<double>(memory.more.n) - share(lacks, memory.more.n)) / range;
  out.hangs_on = range_text(memory) + "; with the least it fits";
  return out;
}

}  // namespace

Verdict verdict(const answer::Answer& answer, const program::Job& job, const engine::Times& times,
                const engine::Memory& memory, const engine::Options& options) {
  const MemoryTrial asked{job, times, memory, options, answer.plan.microbatches()};
  return answer.run.fits() ? of_fit(answer, asked) : of_out_of_memory(answer, asked);
}

}  // namespace sim::answer
