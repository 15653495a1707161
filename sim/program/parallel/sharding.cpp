#include "sim/program/parallel/sharding.h"

#include "sim/program/plan/context_plan.h"

namespace sim::program {
namespace {

using collective::Kind;
using model::OperationKind;

enum : std::uint32_t { norm_scratch };

}  // namespace

Sharding::Sharding(Rank& rank) : rank_(rank), plan_(rank.plan) {
  for (int chunk = 0; chunk < plan_.pipeline.virtual_stages; ++chunk)
    parameters_.emplace_back(rank, chunk);
}

std::int64_t Sharding::elements() const {
  std::int64_t sum = 0;
  for (const Parameters& of_chunk : parameters_) sum += of_chunk.elements();
  return sum;
}

void Sharding::begin(schedule::Pass pass, int chunk, const Moment& moment) {
  pass_ = pass;
  chunk_ = chunk;
  moment_ = moment;
}

void Sharding::use(Emitter& e, Unit unit, std::string_view name, std::string_view owner) {
  for (const int p : parameters(unit.chunk).find_all(unit, name, owner)) used(e, unit.chunk, p);
}

bool Sharding::keep(Emitter& e, Unit unit, std::string_view name, Slot gradient,
                    std::string_view owner) {
  const int p = parameters(unit.chunk).find(unit, name, owner);
  return p >= 0 && kept(e, unit.chunk, p, gradient);
}

void Sharding::ready(Emitter& e, Unit unit, std::string_view name, std::string_view owner) {
  for (const int p : parameters(unit.chunk).find_all(unit, name, owner)) is_ready(e, unit.chunk, p);
}

void wait_for_all(Rank& rank, Emitter& e, std::string_view when, std::string_view reduction) {
  e.sync_device(when);
  if (rank.plan.world() > 1) e.collective(Kind::all_reduce, Stream::world, 4, reduction);
  e.sync_device(when);
}

namespace {

// Separate channels, because norms are not in turn with activations and gradients. Those have
// streams of their own if they are posted one by one.
constexpr std::uint8_t norm_down = 2, norm_back = 3;

// The ranks of a stage sum their norms. Each stage adds its sum to that of the stages before it.
void sum_norm_of_stages(Rank& rank, Emitter& e) {
  const Plan& plan = rank.plan;
  if (plan.mesh.tp > 1) e.collective(Kind::all_reduce, Stream::tp, 4, "norm of the stage");
  if (plan.sharding.distributed_optimizer && plan.mesh.dp * plan.mesh.cp > 1)
    e.collective(Kind::all_reduce, Stream::dp_cp, 4, "norm of the stage");
  if (rank.program.stage > 0)
    e.exchange({Stream::pp, {{false, -1, norm_down, Bytes{4}}}}, "norm of the stages before",
               joins);
  // Nothing waits for this send.
  if (rank.program.stage < plan.mesh.pp - 1)
    e.exchange({Stream::pp, {{true, 1, norm_down, Bytes{4}}}}, "norm up to this stage", 0);
}

}  // namespace

void validate_step(Rank& rank, Emitter& e) {
  if (rank.program.stage < rank.plan.mesh.pp - 1)
    e.exchange({Stream::pp, {{false, 1, norm_back, Bytes{4}}}}, "norm of all stages", joins);
  if (rank.program.stage > 0)
    e.exchange({Stream::pp, {{true, -1, norm_back, Bytes{4}}}}, "norm of all stages", 0);
  e.sync_stream(Stream::compute, "step validation");
  e.host(HostWork::blocking_read);
}

void clip_gradients(Rank& rank, Emitter& e, std::int64_t elements, bool reads) {
  if (!rank.plan.stack.gradient_clipping) return;
  e.alloc(local_slot(norm_scratch), 4 * 320, Category::temporaries, "norm scratch");
  e.memory_bound(OperationKind::reduction, "gradient norm", 4 * elements, optimizer_work);
  if (rank.plan.optimizer.post_validation)
    sum_norm_of_stages(rank, e);
  else if (rank.plan.world() > 1)
    e.collective(Kind::all_reduce, Stream::world, 4, "gradient norm all-reduce");
  if (reads) {
    e.sync_stream(Stream::compute, "gradient norm");
    e.host(HostWork::blocking_read);
  }
  e.memory_bound(OperationKind::elementwise, "clip gradients", 8 * elements, optimizer_work);
  e.free(local_slot(norm_scratch));
}

void sum_tied_embeddings(Rank& rank, Emitter& e, std::int64_t bytes) {
  if (!rank.shares_table()) return;
  e.collective(Kind::all_reduce, Stream::embedding, bytes, "embedding gradient all-reduce");
}

std::vector<Stream> model_communicators(const Rank& rank) {
  std::vector<Stream> made;
  if (rank.plan.world() > 1) made.push_back(Stream::world);
  if (rank.plan.mesh.tp > 1) made.push_back(Stream::tp);
  if (rank.plan.mesh.cp > 1) made.push_back(Stream::cp);
  if (rank.plan.mesh.tensor_columns > 1) made.push_back(Stream::tensor_columns);
  if (rank.plan.mesh.tensor_columns > 1 && rank.plan.tensor_rows() > 1)
    made.push_back(Stream::tensor_rows);
  if (has_two_levels(rank.plan)) made.insert(made.end(), {Stream::cp_exchange, Stream::cp_ring});
  if (!rank.plan.architecture.is_mixture()) return made;
  const int ep = rank.plan.mesh.ep, etp = rank.plan.expert_tp();
  if (ep > 1) made.push_back(Stream::ep);
  if (etp > 1) made.push_back(Stream::etp);
  if (ep * etp > 1) made.push_back(Stream::etp_ep);
  return made;
}

std::vector<Stream> Sharding::communicators() const {
  std::vector<Stream> made = model_communicators(rank_);
  add_communicators(made);
  if (plan_.mesh.pp > 1) made.push_back(Stream::pp);
  if (rank_.shares_table()) made.push_back(Stream::embedding);
  if (rank_.cuts_vocabulary()) made.push_back(Stream::vocabulary);
  return made;
}

}  // namespace sim::program
