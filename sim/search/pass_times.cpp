#include "sim/search/pass_times.h"

#include <cstddef>
#include <map>

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
          .transfer = messages.value()};
}

}  // namespace sim::search
