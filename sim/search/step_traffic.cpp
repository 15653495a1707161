#include "sim/search/step_traffic.h"

#include "sim/replay/job_groups.h"

namespace sim::search {
namespace {

using topology::Dimension;
using workload::Op;
using workload::Stream;

// How often each collective and exchange of a program runs in a step.
struct Counts {
  std::vector<std::int64_t> transfers, exchanges;
};

Counts counts_of(const workload::Program& program) {
  Counts all{std::vector<std::int64_t>(program.transfers.size(), 0),
             std::vector<std::int64_t>(program.exchanges.size(), 0)};
  std::vector<std::int64_t> runs(program.templates.size(), 0);
  for (const workload::Pass& pass : program.step) ++runs[pass.pattern];
  for (std::size_t t = 0; t < program.templates.size(); ++t) {
    if (runs[t] == 0) continue;
    for (const workload::Call& call : program.templates[t].calls) {
      for (const workload::Instruction& i : program.blocks[call.block].code) {
        if (i.op == Op::collective) all.transfers[i.index] += runs[t];
        if (i.op == Op::exchange) all.exchanges[i.index] += runs[t];
      }
    }
  }
  return all;
}

class Lister {
 public:
  explicit Lister(const workload::Job& job) : job_(job), groups_(job) {}

  void add(const workload::Program& program) {
    const Counts counts = counts_of(program);
    for (std::size_t t = 0; t < counts.transfers.size(); ++t) {
      const workload::Transfer& transfer = program.transfers[t];
      if (counts.transfers[t] == 0 || !counts_here(transfer.communicator, program)) continue;
      all_.push_back({transfer.communicator, transfer.kind,
                      of_class(transfer.communicator, program), transfer.bytes,
                      counts.transfers[t]});
    }
    for (std::size_t e = 0; e < counts.exchanges.size(); ++e) {
      for (const workload::Message& message : program.exchanges[e].messages) {
        if (counts.exchanges[e] == 0 || !message.send) continue;
        const int other = (program.stage + message.peer_offset + job_.pp) % job_.pp;
        network::Groups pairs;
        for (const std::vector<int>& pair : groups_.pairs(program.stage, other).ranks) {
          if (groups_.place(pair.front(), Dimension::cp) == program.cp_rank)
            pairs.ranks.push_back(pair);
        }
        all_.push_back({Stream::pp, collective::Kind::send_receive, std::move(pairs), message.bytes,
                        counts.exchanges[e]});
      }
    }
  }

  std::vector<StepTraffic> take() { return std::move(all_); }

 private:
  // Communicators over several classes are counted with the first of them.
  static bool counts_here(Stream s, const workload::Program& program) {
    if (s == Stream::world || s == Stream::embedding)
      return program.stage == 0 && program.cp_rank == 0;
    if (s == Stream::tp || s == Stream::dp) return true;
    return program.cp_rank == 0;
  }

  network::Groups of_class(Stream s, const workload::Program& program) {
    const network::Groups& all = groups_.of(s);
    if (s == Stream::world || s == Stream::embedding) return all;
    network::Groups mine;
    for (const std::vector<int>& ranks : all.ranks) {
      if (groups_.place(ranks.front(), Dimension::pp) != program.stage) continue;
      const bool own = groups_.place(ranks.front(), Dimension::cp) == program.cp_rank;
      if (own || (s != Stream::tp && s != Stream::dp)) mine.ranks.push_back(ranks);
    }
    return mine;
  }

  const workload::Job& job_;
  replay::JobGroups groups_;
  std::vector<StepTraffic> all_;
};

}  // namespace

std::vector<StepTraffic> step_traffic(const workload::Job& job) {
  Lister lister(job);
  for (std::size_t c = 0; c < job.classes.size(); ++c) {
    // Replicas do the same; their groups are counted once.
    if (job.coordinates(static_cast<int>(c)).dp_rank == 0) lister.add(job.classes[c]);
  }
  return lister.take();
}

}  // namespace sim::search
