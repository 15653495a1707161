// executor_times.cpp — runs the program without its tensors: their CPU time remains, but nothing is
// allocated.
#include "sim/engine/fast/executor.h"

namespace sim::engine {

using program::Op;

namespace {

bool is_of_tensors(Op op) {
  return op == Op::alloc || op == Op::free || op == Op::move || op == Op::record_stream;
}

}  // namespace

void Executor::leave_out_tensors() {
  places_tensors_ = false;
  for (const auto& r : ranks_) {
    std::vector<TimeCode>& blocks = time_code_.emplace_back(r->program.blocks.size());
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      std::vector<TimeCode::Instruction>& code = blocks[b].code;
      code.push_back({});
      for (const program::Instruction& i : r->program.blocks[b].code) {
        if (i.op == Op::alloc) {
          code.back().behind += allocation_time(i);
        } else if (i.op == Op::free) {
          if (!(i.flags & program::graphed)) code.back().behind += times_.release;
        } else if (!is_of_tensors(i.op)) {
          code.push_back({i, {}});
        }
      }
    }
  }
}

Position Executor::position(const RankState& r) const {
  Position own = r.at;
  if (places_tensors_ || own.instruction == 0) return own;
  const program::Template& pattern = r.program.templates[(*own.passes)[own.pass].pattern];
  const auto& code = r.program.blocks[pattern.calls[own.call].block].code;
  std::uint32_t left = own.instruction;  // entry 0 of a TimeCode is none of the program's
  for (own.instruction = 0; own.instruction + 1 < code.size(); ++own.instruction)
    if (!is_of_tensors(code[own.instruction].op) && --left == 0) break;
  return own;
}

// The counterpart of advance(), without tensors.
bool Executor::advance_in_time(int c) {
  RankState& r = *ranks_[static_cast<std::size_t>(c)];
  const bool settled = settle(c, r);
  const std::int64_t before = r.executed;
  const std::vector<TimeCode>& blocks = time_code_[static_cast<std::size_t>(c)];
  while (r.at.pass < r.stop) {
    const program::Pass& pass = (*r.at.passes)[r.at.pass];
    const std::vector<program::Call>& calls = r.program.templates[pass.pattern].calls;
    while (r.at.call < calls.size()) {
      const std::vector<TimeCode::Instruction>& code = blocks[calls[r.at.call].block].code;
      while (r.at.instruction < code.size()) {
        const TimeCode::Instruction& step = code[r.at.instruction];
        if (r.at.instruction > 0 && !execute(c, r, step.instruction, no_memory, 0, 0))
          return settled || r.executed != before;
        r.clock.cpu = r.clock.cpu + step.behind;
        ++r.executed;
        ++r.at.instruction;
      }
      r.at.instruction = 0;
      ++r.at.call;
    }
    r.at.call = 0;
    ++r.at.pass;
  }
  return settled || r.executed != before;
}

}  // namespace sim::engine
