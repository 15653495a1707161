#include "sim/answer/block_times.h"

namespace sim::answer {

Duration block_time(const program::Block& block, const engine::ClassTimes& times) {
  Duration sum{};
  for (const program::Instruction& i : block.code) {
    if (i.op == program::Op::kernel && i.stream == program::Stream::compute)
      sum += times.kernel[i.index];
    if (i.op == program::Op::collective && (i.flags & program::joins))
      sum += times.transfer[i.index];
  }
  return sum;
}

Duration template_time(const program::Program& program, const engine::ClassTimes& times,
                       const program::Template& pattern) {
  Duration sum{};
  for (const program::Call& call : pattern.calls)
    sum += block_time(program.blocks[call.block], times);
  return sum;
}

std::map<std::pair<program::PassKind, int>, std::uint32_t> usual_templates(
    const program::Program& program) {
  std::map<std::uint32_t, int> counts;
  for (const program::Pass& pass : program.step) ++counts[pass.pattern];
  std::map<std::pair<program::PassKind, int>, std::uint32_t> found;
  for (const auto& [pattern, count] : counts) {
    const program::Template& t = program.templates[pattern];
    const auto [it, added] = found.try_emplace({t.kind, t.chunk}, pattern);
    if (!added && count > counts[it->second]) it->second = pattern;
  }
  return found;
}

}  // namespace sim::answer
