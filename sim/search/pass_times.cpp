#include "sim/search/pass_times.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "sim/search/block_times.h"

namespace sim::search {
namespace {

using workload::PassKind;

struct Mean {
  double sum = 0;
  int count = 0;
  void add(double value) {
    sum += value;
    ++count;
  }
  double value() const { return count > 0 ? sum / count : 0; }
};

}  // namespace

namespace {

// What one microbatch holds behind a pass, walked forward and then backward.
class Held {
 public:
  explicit Held(const workload::Program& program) : program_(program) {}

  void run(const workload::Template& pattern) {
    for (const workload::Call& call : pattern.calls)
      for (const workload::Instruction& i : program_.blocks[call.block].code) step(call, i);
  }
  double bytes() const {
    double sum = 0;
    for (const auto& [slot, bytes] : live_) sum += bytes;
    return sum;
  }

 private:
  using Slot = std::pair<workload::Space, std::uint32_t>;

  static Slot at(const workload::Call& call, workload::Space space, std::uint32_t index) {
    const bool layer = space == workload::Space::layer;
    return {layer ? workload::Space::microbatch : space, layer ? call.layer_base + index : index};
  }
  static bool framed(const Slot& slot) { return slot.first == workload::Space::microbatch; }
  void step(const workload::Call& call, const workload::Instruction& i) {
    const Slot slot = at(call, i.space, i.index);
    if (i.op == workload::Op::alloc && framed(slot)) live_[slot] = static_cast<double>(i.value);
    if (i.op == workload::Op::free) live_.erase(slot);
    if (i.op != workload::Op::move) return;
    const auto from = live_.extract(slot);
    const Slot to = at(call, static_cast<workload::Space>(i.value >> 32),
                       static_cast<std::uint32_t>(i.value));
    if (from && framed(to)) live_[to] = from.mapped();
  }

  const workload::Program& program_;
  std::map<Slot, double> live_;
};

// The first of its kind in a step, of the first chunk.
const workload::Template* first(const workload::Program& program, PassKind kind) {
  for (const workload::Pass& pass : program.step) {
    const workload::Template& pattern = program.templates[pass.pattern];
    if (pattern.kind == kind && pattern.chunk == 0) return &pattern;
  }
  return nullptr;
}

// Times::kept, of all classes together.
double kept(const workload::Job& job) {
  double whole = 0, rest = 0;
  for (const workload::Program& program : job.classes) {
    const workload::Template* forward = first(program, PassKind::forward);
    const workload::Template* backward = first(program, PassKind::backward);
    if (!forward || !backward || !first(program, PassKind::weight)) continue;
    Held held(program);
    held.run(*forward);
    whole += held.bytes();
    held.run(*backward);
    rest += held.bytes();
  }
  return whole > 0 ? std::min(1.0, rest / whole) : 1;
}

}  // namespace

schedule::Times pass_times(const workload::Job& job, const replay::Times& times) {
  std::map<PassKind, Mean> passes;
  Mean messages;
  for (std::size_t c = 0; c < job.classes.size(); ++c) {
    const workload::Program& program = job.classes[c];
    std::map<std::uint32_t, double> lengths;  // by template
    for (const workload::Pass& pass : program.step) {
      const workload::Template& pattern = program.templates[pass.pattern];
      const auto [known, added] = lengths.try_emplace(pass.pattern, 0);
      if (added) known->second = seconds(template_time(program, times.classes[c], pattern));
      passes[pattern.kind].add(known->second);
    }
    for (const std::vector<Duration>& batch : times.classes[c].message)
      for (const Duration message : batch) messages.add(seconds(message));
  }
  return {.forward = passes[PassKind::forward].value(),
          .backward = passes[PassKind::backward].value(),
          .weight = passes[PassKind::weight].value(),
          .transfer = messages.value(),
          .kept = kept(job)};
}

}  // namespace sim::search
