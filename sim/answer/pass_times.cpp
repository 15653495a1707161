#include "sim/answer/pass_times.h"

#include <algorithm>
#include <cstddef>
#include <map>

#include "sim/answer/block_times.h"
#include "sim/program/autograd/frame_tensors.h"

namespace sim::answer {
namespace {

using program::PassKind;

struct Mean {
  double sum = 0;
  int count = 0;
  void add(double value) {
    sum += value;
    ++count;
  }
  double value() const { return count > 0 ? sum / count : 0; }
};

// The first pass of a kind in a step, in chunk 0; nullptr if there is none.
const program::Template* first(const program::Program& program, PassKind kind) {
  for (const program::Pass& pass : program.step) {
    const program::Template& pattern = program.templates[pass.pattern];
    if (pattern.kind == kind && pattern.chunk == 0) return &pattern;
  }
  return nullptr;
}

// Times::kept over all rank classes: bytes after the backward pass, divided by bytes before it.
double kept(const program::Job& job) {
  double whole = 0, rest = 0;
  for (const program::Program& program : job.classes) {
    const program::Template* forward = first(program, PassKind::forward);
    const program::Template* backward = first(program, PassKind::backward);
    if (!forward || !backward || !first(program, PassKind::weight)) continue;
    program::FrameTensors held(program);
    held.run(*forward);
    whole += static_cast<double>(held.bytes());
    held.run(*backward);
    rest += static_cast<double>(held.bytes());
  }
  return whole > 0 ? std::min(1.0, rest / whole) : 1;
}

}  // namespace

schedule::Times pass_times(const program::Job& job, const engine::Times& times) {
  std::map<PassKind, Mean> passes;
  Mean messages;
  for (std::size_t c = 0; c < job.classes.size(); ++c) {
    const program::Program& program = job.classes[c];
    std::map<std::uint32_t, double> lengths;  // by template
    for (const program::Pass& pass : program.step) {
      const program::Template& pattern = program.templates[pass.pattern];
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

}  // namespace sim::answer
