#include "sim/study/tune/step_traffic.h"

#include "sim/engine/rank/queues.h"

namespace sim::study {
namespace {

using program::Op;
using program::Stream;

// Number of runs of each collective and exchange of a program in a step.
struct Counts {
  std::vector<std::int64_t> transfers, exchanges;
};

Counts counts_of(const program::Program& program) {
  Counts all{std::vector<std::int64_t>(program.transfers.size(), 0),
             std::vector<std::int64_t>(program.exchanges.size(), 0)};
  std::vector<std::int64_t> runs(program.templates.size(), 0);
  for (const program::Pass& pass : program.step) ++runs[pass.pattern];
  for (std::size_t t = 0; t < program.templates.size(); ++t) {
    if (runs[t] == 0) continue;
    for (const program::Call& call : program.templates[t].calls) {
      for (const program::Instruction& i : program.blocks[call.block].code) {
        if (i.op == Op::collective) all.transfers[i.index] += runs[t];
        if (i.op == Op::exchange) all.exchanges[i.index] += runs[t];
      }
    }
  }
  return all;
}

class Lister {
 public:
  Lister(const program::Job& job, const topology::Cluster& cluster)
      : mesh_(job.mesh.merged()), cluster_(cluster) {}

  // Adds the traffic of one program, for one replica.
  void add(const program::Program& program, int dp_rank) {
    const Counts counts = counts_of(program);
    const int rank_class =
        mesh_.class_of({program.stage, mesh_.replica_class(dp_rank), program.cp_rank, 0});
    for (std::size_t t = 0; t < counts.transfers.size(); ++t) {
      const program::Transfer& transfer = program.transfers[t];
      const mesh::Communicator who = engine::communicator_of(transfer.communicator);
      // A communicator over several rank classes is counted with the first one.
      if (counts.transfers[t] == 0 || mesh_.members(who, rank_class).front() != rank_class)
        continue;
      network::Groups groups = mesh_.groups_of(who, rank_class);
      const Bytes bytes = engine::sent(transfer, groups, cluster_);
      all_.push_back(
          {transfer.communicator, transfer.kind, std::move(groups), bytes, counts.transfers[t]});
    }
    for (std::size_t e = 0; e < counts.exchanges.size(); ++e) {
      for (const program::Message& message : program.exchanges[e].messages) {
        if (counts.exchanges[e] == 0 || !message.send) continue;
        const int other = mesh_.stage_at(program.stage, message.peer_offset);
        all_.push_back({Stream::pp, collective::Kind::send_receive,
                        mesh_.pairs_of(rank_class, program.stage, other), message.bytes,
                        counts.exchanges[e]});
      }
    }
  }

  std::vector<StepTraffic> take() { return std::move(all_); }

 private:
  mesh::Mesh mesh_;
  const topology::Cluster& cluster_;
  std::vector<StepTraffic> all_;
};

}  // namespace

std::vector<StepTraffic> step_traffic(const program::Job& job, const topology::Cluster& cluster) {
  Lister lister(job, cluster);
  for (std::size_t c = 0; c < job.classes.size(); ++c) {
    // Rank classes with the same program have the same traffic, so their groups count once.
    const int rank_class = static_cast<int>(c);
    if (job.mesh.first_like(rank_class) == rank_class)
      lister.add(job.classes[c], job.mesh.first_replica(job.mesh.coordinates(rank_class).dp_rank));
  }
  return lister.take();
}

}  // namespace sim::study
