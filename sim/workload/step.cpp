#include "sim/workload/step.h"

#include "sim/workload/fsdp.h"

namespace sim::workload {
namespace {

using collective::Kind;
using model::OperationKind;

enum Local : std::uint32_t { flattened, norm_scratch, logging };

void pass(Emitter& e, OperationKind kind, std::string_view name, std::int64_t bytes,
          std::uint8_t flags = optimizer_work) {
  e.kernel(model::pass(kind, name, Bytes{bytes}), flags);
}

// multi_tensor L2 norm of the rank's gradients, its sum over the world, the read that stalls the
// CPU, and the scaling that follows when the norm is above the limit (early training: it is).
void clip_gradients(Rank& rank, Emitter& e, std::int64_t elements) {
  e.alloc(local_slot(norm_scratch), 4 * 320, Category::temporaries, "norm scratch");
  pass(e, OperationKind::reduction, "gradient norm", 4 * elements);
  if (rank.plan.world() > 1)
    e.collective(Kind::all_reduce, Stream::world, 4, "gradient norm all-reduce");
  if (!rank.fsdp) {  // PyTorch scales whatever the norm is
    e.sync_stream(Stream::compute, "gradient norm");
    e.host(HostWork::blocking_read);
  }
  pass(e, OperationKind::elementwise, "clip gradients", 8 * elements);
  e.free(local_slot(norm_scratch));
}

// With tied embeddings the first and the last stage add their gradients of the table.
void sum_tied_embeddings(Rank& rank, Emitter& e) {
  const bool end = rank.program.stage == 0 || rank.program.stage == rank.plan.mesh.pp - 1;
  if (!rank.plan.architecture.tied_embeddings || rank.plan.mesh.pp == 1 || !end) return;
  e.collective(Kind::all_reduce, Stream::embedding,
               (rank.plan.numerics.fp32_gradients ? 4 : 2) * rank.dim.vocab * rank.dim.hidden,
               "embedding gradient all-reduce");
}

}  // namespace

std::uint32_t setup_block(Rank& rank, const std::vector<DataParallel*>& chunks) {
  Emitter e(rank.tables, "set-up");
  if (rank.fsdp) {
    rank.fsdp->allocate_shards(e);
  } else {
    for (DataParallel* chunk : chunks) chunk->allocate_parameters(e);
    for (DataParallel* chunk : chunks) chunk->allocate_buffers(e);
    for (DataParallel* chunk : chunks) chunk->allocate_masters(e);
  }
  e.sync_device("set-up");
  if (rank.plan.world() > 1) e.collective(Kind::all_reduce, Stream::world, 4, "barrier");
  e.sync_device("set-up");
  return e.finish();
}

std::uint32_t step_begin(Rank& rank, const std::vector<DataParallel*>& chunks, bool first) {
  Emitter e(rank.tables, "step begin");
  e.host(HostWork::step);
  if (rank.fsdp) {
    rank.fsdp->zero_gradients(e);
    return e.finish();
  }
  for (DataParallel* chunk : chunks) chunk->zero_gradients(e);
  for (DataParallel* chunk : chunks) chunk->drop_copied_gradients(e);
  if (rank.plan.numerics.fp8) {
    if (first)
      for (DataParallel* chunk : chunks) chunk->allocate_fp8_weights(e);
    for (DataParallel* chunk : chunks) chunk->cast_fp8_weights(e);
  }
  if (!first && rank.plan.sharding.overlap_param_gather && rank.plan.sharding.distributed_optimizer)
    for (DataParallel* chunk : chunks) chunk->start_gather(e);
  return e.finish();
}

namespace {

// The loop reads the loss and the norm when the step is over.
std::uint32_t sharded_step_end(Rank& rank, bool first) {
  Emitter e(rank.tables, "step end");
  if (rank.plan.stack.gradient_clipping) clip_gradients(rank, e, rank.fsdp->shard_elements());
  if (first) rank.fsdp->allocate_moments(e);
  rank.fsdp->update(e);
  e.sync_device("interval timer");
  if (rank.plan.world() > 1) e.collective(Kind::all_reduce, Stream::world, 4, "loss all-reduce");
  e.sync_device("interval timer");
  return e.finish();
}

}  // namespace

std::uint32_t step_end(Rank& rank, const std::vector<DataParallel*>& chunks, bool first) {
  if (rank.fsdp) return sharded_step_end(rank, first);
  Emitter e(rank.tables, "step end");
  e.free(fixed_slot(received_gradient), maybe);
  e.free(fixed_slot(sent_gradient), maybe);
  for (DataParallel* chunk : chunks) chunk->finish_reduction(e);
  if (rank.plan.uses_sequence_parallel())
    for (DataParallel* chunk : chunks) chunk->sum_norm_gradients(e);
  sum_tied_embeddings(rank, e);
  std::int64_t elements = 0;
  for (const DataParallel* chunk : chunks) elements += chunk->shard_elements();
  for (DataParallel* chunk : chunks) chunk->copy_gradients(e);
  if (rank.plan.stack.gradient_clipping) clip_gradients(rank, e, elements);
  if (first)
    for (DataParallel* chunk : chunks) chunk->allocate_moments(e);
  for (DataParallel* chunk : chunks) chunk->update(e);
  if (rank.plan.sharding.distributed_optimizer && !rank.plan.sharding.overlap_param_gather)
    for (DataParallel* chunk : chunks) chunk->gather_all(e);
  if (rank.plan.stack.logs_optimizer_state) {
    // The authors' fork logs norms and extrema of every optimizer shard: 16 blocking reads each.
    int pieces = 0;
    for (const DataParallel* chunk : chunks) pieces += chunk->shard_pieces();
    pass(e, OperationKind::reduction, "optimizer state logging", 64 * elements);
    e.host(HostWork::blocking_read, 16 * pieces);
  }
  e.sync_device("interval timer");
  if (rank.plan.world() > 1) e.collective(Kind::all_reduce, Stream::world, 4, "barrier");
  e.sync_device("interval timer");
  return e.finish();
}

std::vector<Stream> communicators(const Rank& rank) {
  const Plan& plan = rank.plan;
  std::vector<Stream> made;
  if (plan.world() > 1) made.push_back(Stream::world);
  if (plan.mesh.tp > 1) made.push_back(Stream::tp);
  if (plan.mesh.cp > 1) made.push_back(Stream::cp);
  if (rank.fsdp) {
    if (plan.mesh.dp * plan.mesh.cp > plan.sharding.fsdp.replicas) made.push_back(Stream::shard);
    if (plan.sharding.fsdp.replicas > 1) made.push_back(Stream::replicate);
    return made;
  }
  if (plan.mesh.dp > 1) made.push_back(Stream::dp);
  if (plan.mesh.dp * plan.mesh.cp > 1) made.push_back(Stream::dp_cp);
  if (plan.mesh.pp > 1) made.push_back(Stream::pp);
  const bool end = rank.program.stage == 0 || rank.program.stage == plan.mesh.pp - 1;
  if (plan.architecture.tied_embeddings && plan.mesh.pp > 1 && end)
    made.push_back(Stream::embedding);
  return made;
}

}  // namespace sim::workload
