#include "sim/replay/job_view.h"

#include <algorithm>
#include <array>
#include <cassert>

namespace sim::replay {

std::string_view name(Account account) {
  static constexpr std::array<std::string_view, account_count> names{"compute",
                                                                     "exposed TP",
                                                                     "exposed CP",
                                                                     "exposed EP",
                                                                     "exposed DP",
                                                                     "pipeline fill, drain",
                                                                     "pipeline imbalance",
                                                                     "pipeline transfer",
                                                                     "optimizer",
                                                                     "host",
                                                                     "data",
                                                                     "other"};
  return names[static_cast<std::size_t>(account)];
}

std::vector<int> members(const workload::Job& job, Stream communicator, int rank_class) {
  const workload::Job::Coordinates at = job.coordinates(rank_class);
  std::vector<int> result;
  const auto over = [&](bool dp, bool cp, bool tp) {
    for (int d = dp ? 0 : at.dp_rank; d < (dp ? job.dp_classes() : at.dp_rank + 1); ++d)
      for (int c = cp ? 0 : at.cp_rank; c < (cp ? job.cp : at.cp_rank + 1); ++c)
        for (int t = tp ? 0 : at.tp_rank; t < (tp ? job.tp_classes() : at.tp_rank + 1); ++t)
          result.push_back(job.class_of({at.stage, d, c, t}));
  };
  switch (communicator) {
    case Stream::tp:
      over(false, false, true);
      break;
    case Stream::cp:
      over(false, true, false);
      break;
    case Stream::dp:
      over(true, false, false);
      break;
    case Stream::dp_cp:
      over(true, true, false);
      break;
    case Stream::shard:
    case Stream::replicate: {
      // Replicas are blocks of neighbours in data-parallel order.
      const int size = job.dp / job.replicas;
      const bool same_copy = communicator == Stream::shard;
      over(true, same_copy, false);
      if (!job.all_ranks) break;  // a class stands for ranks of every copy
      std::erase_if(result, [&](int c) {
        const int d = job.coordinates(c).dp_rank;
        return same_copy ? d / size != at.dp_rank / size : d % size != at.dp_rank % size;
      });
      break;
    }
    case Stream::embedding:
      result.push_back(job.class_of({0, at.dp_rank, at.cp_rank, at.tp_rank}));
      if (job.pp > 1)
        result.push_back(job.class_of({job.pp - 1, at.dp_rank, at.cp_rank, at.tp_rank}));
      break;
    case Stream::world:
      for (int c = 0; c < static_cast<int>(job.classes.size()); ++c) result.push_back(c);
      break;
    default:
      result.push_back(rank_class);
  }
  return result;
}

int peer(const workload::Job& job, int rank_class, int offset) {
  workload::Job::Coordinates at = job.coordinates(rank_class);
  at.stage = (at.stage + offset + job.pp) % job.pp;
  return job.class_of(at);
}

Account account_of(Stream communicator) {
  switch (communicator) {
    case Stream::tp:
      return Account::tp_exposed;
    case Stream::cp:
    case Stream::cp_compute:
      return Account::cp_exposed;
    case Stream::dp:
    case Stream::dp_cp:
    case Stream::unshard:
    case Stream::reduce:
    case Stream::shard:
    case Stream::replicate:
      return Account::dp_exposed;
    case Stream::pp:
    case Stream::pp_send_forward:
    case Stream::pp_receive_forward:
    case Stream::pp_send_backward:
    case Stream::pp_receive_backward:
    case Stream::pp_send_forward_up:
    case Stream::pp_receive_forward_up:
    case Stream::pp_send_backward_up:
    case Stream::pp_receive_backward_up:
    case Stream::embedding:
      return Account::pp_transfer;
    case Stream::compute:
    case Stream::world:
    case Stream::count_:
      break;
  }
  return Account::other;
}

Bytes capacity(const Memory& memory, std::size_t rank_class) {
  Bytes left = memory.total;
  for (const Outside& outside : memory.outside[rank_class]) left -= outside.bytes;
  return {std::max<std::int64_t>(left.n, 0)};
}

void describe(const workload::Job& job, RunReport& report) {
  double ranks = 0, bubble = 0;
  report.classes.resize(job.classes.size());
  for (std::size_t i = 0; i < job.classes.size(); ++i) {
    const workload::Program& program = job.classes[i];
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
    // Work of one step, as issued.
    std::vector<double> flops(program.templates.size(), 0);
    std::vector<std::int64_t> events(program.templates.size(), 0);
    for (std::size_t t = 0; t < program.templates.size(); ++t)
      for (const workload::Call& call : program.templates[t].calls)
        for (const workload::Instruction& i2 : program.blocks[call.block].code) {
          if (i2.op == workload::Op::kernel) flops[t] += program.operations[i2.index].flops;
          if (i2.op <= workload::Op::exchange) ++events[t];
        }
    for (const workload::Pass& pass : program.step) {
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

}  // namespace sim::replay
