#include "sim/engine/rank/job_view.h"

#include <algorithm>
#include <array>
#include <cassert>

#include "sim/engine/deadlock.h"

namespace sim::engine {

std::string_view name(Account account) {
  static constexpr std::array<std::string_view, account_count> names{"compute",
                                                                     "exposed TP",
                                                                     "exposed CP",
                                                                     "exposed EP",
                                                                     "exposed DP",
                                                                     "pipeline fill, drain",
                                                                     "pipeline imbalance",
                                                                     "pipeline transfer",
                                                                     "rank wait",
                                                                     "optimizer",
                                                                     "host",
                                                                     "data",
                                                                     "other"};
  return names[static_cast<std::size_t>(account)];
}

Bytes capacity(const Memory& memory, std::size_t rank_class) {
  Bytes left = memory.total;
  for (const Outside& outside : memory.outside[rank_class]) left -= outside.bytes;
  return {std::max<std::int64_t>(left.n, 0)};
}

std::vector<int> stages_of(const program::Job& job) {
  std::vector<int> stages;
  for (const program::Program& program : job.classes) stages.push_back(program.stage);
  return stages;
}

void end_in_deadlock(const program::Job& job, const std::vector<Position>& positions,
                     const std::vector<bool>& done) {
  std::vector<Deadlock::Waiting> waiting;
  for (std::size_t c = 0; c < positions.size(); ++c) {
    if (done[c]) continue;
    const Position& at = positions[c];
    Deadlock::Waiting& one = waiting.emplace_back();
    one.rank_class = static_cast<int>(c);
    one.stage = job.classes[c].stage;
    one.at_end = at.pass >= at.passes->size();
    if (!one.at_end) one.place = resolve(job.classes[c], at);
  }
  throw Deadlock(std::move(waiting));
}

void fill_up(Accounts& accounts, Duration step) {
  for (const Duration d : accounts) step -= d;
  accounts[static_cast<std::size_t>(Account::pp_fill_drain)] += step;
}

namespace {

// The work of one call of a block: FLOPs and number of operations.
struct BlockWork {
  std::vector<double> flops;  // by kernel
  std::int64_t events = 0;
};

std::vector<BlockWork> work_of_blocks(const program::Program& program) {
  std::vector<BlockWork> blocks;
  for (const program::Block& block : program.blocks) {
    BlockWork& work = blocks.emplace_back();
    for (const program::Instruction& i : block.code) {
      if (i.op == program::Op::kernel) work.flops.push_back(program.operations[i.index].flops);
      if (i.op <= program::Op::exchange) ++work.events;
    }
  }
  return blocks;
}

}  // namespace

void describe(const program::Job& job, RunReport& report) {
  double ranks = 0, bubble = 0;
  report.classes.resize(job.classes.size());
  for (std::size_t i = 0; i < job.classes.size(); ++i) {
    const program::Program& program = job.classes[i];
    ClassReport& c = report.classes[i];
    c.stage = program.stage;
    c.cp_rank = program.cp_rank;
    c.ranks = program.ranks;
    c.layers = program.layers;
    c.parameters = program.parameters;
    const auto of = [&c](Account a) { return c.accounts[static_cast<std::size_t>(a)]; };
    c.busy = of(Account::compute) + of(Account::optimizer);
    const Duration wait =
        of(Account::pp_fill_drain) + of(Account::pp_imbalance) + of(Account::pp_transfer);
    c.bubble = report.step_time.ps > 0 ? seconds(wait) / seconds(report.step_time) : 0;
    ranks += program.ranks;
    bubble += c.bubble * program.ranks;
    // Work of one step: recomputation counts.
    const std::vector<BlockWork> blocks = work_of_blocks(program);
    std::vector<double> flops(program.templates.size(), 0);
    std::vector<std::int64_t> events(program.templates.size(), 0);
    for (std::size_t t = 0; t < program.templates.size(); ++t)
      for (const program::Call& call : program.templates[t].calls) {
        for (const double of_kernel : blocks[call.block].flops) flops[t] += of_kernel;
        events[t] += blocks[call.block].events;
      }
    for (const program::Pass& pass : program.step) {
      report.executed_flops += flops[pass.pattern] * program.ranks;
      report.events += events[pass.pattern];
    }
  }
  report.bubble = ranks > 0 ? bubble / ranks : 0;
  for (std::size_t i = 0; i < report.classes.size(); ++i)
    if (report.classes[i].out_of_memory) report.out_of_memory.push_back(i);
  std::stable_sort(
      report.out_of_memory.begin(), report.out_of_memory.end(), [&](std::size_t a, std::size_t b) {
        return report.classes[a].out_of_memory->when < report.classes[b].out_of_memory->when;
      });
}

}  // namespace sim::engine
