#include "sim/study/plan/rank_bound.h"

#include <algorithm>

namespace sim::planner {

using program::Instruction;
using program::Op;
using program::Stream;

namespace {

constexpr std::size_t at(Stream s) {
  return static_cast<std::size_t>(s);
}

}  // namespace

RankBound::RankBound(const program::Program& program, const engine::ClassTimes& times,
                     Counts counts, std::int64_t others)
    : program_(program),
      times_(times),
      counts_(counts),
      events_(program.events, others),
      cpu_(others) {
  static_assert(at(Stream::compute) == 0);
  tail_.fill(others);
  free_.fill(others);
  tail_[0] = 0;
}

void RankBound::collective(const Instruction& i) {
  const Stream who = program_.transfers[i.index].communicator;
  const engine::Account account = engine::row(who).account;
  const bool of_passes =
      account == engine::Account::tp_exposed || account == engine::Account::cp_exposed;
  if (counts_ != Counts::everything && !of_passes) return;
  const bool slowed = this->slowed(i);
  std::int64_t& own = tail_[at(i.stream)];
  std::int64_t& wire = tail_[at(who)];
  wire = std::max({wire, own, cpu_}) +
         (slowed ? times_.transfer_overlapped : times_.transfer)[i.index].ps;
  if (i.flags & program::joins) own = std::max(own, wire);
  if (i.event != 0) events_[i.event] = wire;
}

void RankBound::run(const Instruction& i) {
  std::int64_t& own = tail_[at(i.stream)];
  switch (i.op) {
    case Op::kernel: {
      const bool slowed = this->slowed(i);
      const bool beside = i.flags & program::beside;
      std::int64_t& free = free_[static_cast<std::size_t>(engine::resource_of(i.stream))];
      const Duration d = (slowed ? times_.kernel_overlapped : times_.kernel)[i.index];
      own = std::max({own, cpu_, beside ? own : free}) + d.ps;
      if (!beside) free = own;
      return;
    }
    case Op::collective:
      return collective(i);
    case Op::wait:
      own = std::max(own, events_[i.event]);
      return;
    case Op::record:
      events_[i.event] = own;
      return;
    case Op::sync_event:
      cpu_ = std::max(cpu_, events_[i.event]);
      return;
    case Op::sync_stream:
      cpu_ = std::max(cpu_, own);
      return;
    case Op::sync_device:
      cpu_ = std::max(cpu_, *std::ranges::max_element(tail_));
      return;
    default:
      return;  // memory, messages and CPU work take no time here
  }
}

void RankBound::run(const std::vector<program::Pass>& passes, std::size_t from) {
  for (std::size_t p = from; p < passes.size(); ++p)
    for (const program::Call& call : program_.templates[passes[p].pattern].calls)
      for (const Instruction& i : program_.blocks[call.block].code) run(i);
}

std::vector<std::int64_t> ends_of_calls(const program::Program& program,
                                        const engine::ClassTimes& times,
                                        const program::Template& pattern, bool sharded) {
  RankBound rank_bound(program, times,
                       sharded ? RankBound::Counts::layers : RankBound::Counts::passes);
  std::vector<std::int64_t> ends;
  for (const program::Call& call : pattern.calls) {
    const program::Block& block = program.blocks[call.block];
    if (!sharded || !block.of_sharding)
      for (const Instruction& i : block.code) rank_bound.run(i);
    ends.push_back(rank_bound.compute());
  }
  return ends;
}

}  // namespace sim::planner
