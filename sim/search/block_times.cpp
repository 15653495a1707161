#include "sim/search/block_times.h"

namespace sim::search {

Duration block_time(const workload::Block& block, const replay::ClassTimes& times) {
  Duration sum{};
  for (const workload::Instruction& i : block.code) {
    if (i.op == workload::Op::kernel && i.stream == workload::Stream::compute)
      sum += times.kernel[i.index];
    if (i.op == workload::Op::collective && (i.flags & workload::joins))
      sum += times.transfer[i.index];
  }
  return sum;
}

Duration template_time(const workload::Program& program, const replay::ClassTimes& times,
                       const workload::Template& pattern) {
  Duration sum{};
  for (const workload::Call& call : pattern.calls)
    sum += block_time(program.blocks[call.block], times);
  return sum;
}

std::map<std::pair<workload::PassKind, int>, std::uint32_t> usual_templates(
    const workload::Program& program) {
  std::map<std::uint32_t, int> counts;
  for (const workload::Pass& pass : program.step) ++counts[pass.pattern];
  std::map<std::pair<workload::PassKind, int>, std::uint32_t> found;
  for (const auto& [pattern, count] : counts) {
    const workload::Template& t = program.templates[pattern];
    const auto [it, added] = found.try_emplace({t.kind, t.chunk}, pattern);
    if (!added && count > counts[it->second]) it->second = pattern;
  }
  return found;
}

}  // namespace sim::search
