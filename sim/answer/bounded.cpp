#include "sim/answer/bounded.h"

#include <algorithm>
#include <vector>

#include "sim/answer/pass_times.h"
#include "sim/answer/priced.h"
#include "sim/answer/resolve_balanced.h"
#include "sim/engine/rank/job_view.h"
#include "sim/engine/rank/tensor_peak.h"

namespace sim::answer {

namespace {

using engine::MemoryDetail;

// The peak of the tensors and the capacity of one rank class, in bytes.
struct Need {
  std::int64_t tensors = 0, capacity = 0;
};

std::vector<Need> needs_of(const program::Job& job, const engine::Memory& memory) {
  std::vector<Need> needs;
  for (std::size_t c = 0; c < job.classes.size(); ++c)
    needs.push_back({engine::peak_of_tensors(job.classes[c]), engine::capacity(memory, c).n});
  return needs;
}

// Whether the allocator's options leave sizes of requests as they are.
bool keeps_sizes(const std::string& options) {
  return options.empty() || options == "expandable_segments:True";
}

// The peaks of a report become those of the tensors.
void say_tensors(engine::RunReport& run, const std::vector<Need>& needs) {
  for (std::size_t c = 0; c < needs.size(); ++c) {
    engine::ClassReport& own = run.classes[c];
    own.peak_allocated = own.peak_reserved = own.needed = Bytes{needs[c].tensors};
  }
}

Answer times_alone(const CheckedPlan& plan, const std::vector<Need>& needs) {
  engine::Options options;
  options.memory = MemoryDetail::none;
  Answer answer = evaluate(plan, options);
  answer.run.memory = MemoryDetail::bounded;
  answer.run.bounded = true;
  say_tensors(answer.run, needs);
  for (std::size_t c = 0; c < needs.size(); ++c)
    answer.run.classes[c].reserved_most = Bytes{reserved_by_tensors(needs[c].tensors)};
  return answer;
}

// The replay of a plan ends at the first request without memory. Peaks are then those of the
// tensors.
Answer until_out(const CheckedPlan& plan, MemoryDetail memory, bool surely,
                 const std::vector<Need>& needs) {
  engine::Options options;
  options.memory = memory;
  options.until_out = true;
  Answer answer = surely ? evaluate_once(plan, options) : evaluate(plan, options);
  answer.run.memory = MemoryDetail::bounded;
  if (!answer.run.fits()) say_tensors(answer.run, needs);
  return answer;
}

}  // namespace

Answer evaluate_bounded(const CheckedPlan& asked) {
  const CheckedPlan plan = resolve_balanced(asked);
  const TimedJob job = timed_job(plan);
  const engine::Memory memory = memory_of(*job, plan.plan(), plan.site());
  const std::vector<Need> needs = needs_of(*job, memory);
  const auto surely_fits = [&](const Need& need) {
    return reserved_by_tensors(need.tensors) <= need.capacity - memory.less.n;
  };
  const auto surely_out = [&](const Need& need) {
    return need.tensors > need.capacity + memory.more.n;
  };
  if (std::ranges::any_of(needs, surely_out))
    return until_out(plan, MemoryDetail::exact, true, needs);
  if (keeps_sizes(memory.options) && std::ranges::all_of(needs, surely_fits))
    return times_alone(plan, needs);
  return until_out(plan, MemoryDetail::bounded, false, needs);
}

}  // namespace sim::answer
