#include "sim/program/parallel/ddp/zero1.h"

#include <algorithm>

#include "sim/program/plan/schedule_plan.h"

namespace sim::program {

using collective::Kind;
using model::OperationKind;

std::int64_t Zero1::gathered_bytes(const Bucket& bucket) const {
  return rank_.dim.element * bucket.elements - bucket.in_fp8 * (rank_.dim.element - 1);
}

// Copies each parameter into the buffer, the last one first, and frees its own tensor.
void Zero1::allocate_buffers(Emitter& e, int chunk, Buffer& b) {
  if (b.layout.buckets.empty()) return;  // all parameters are frozen
  std::int64_t bytes = 0;
  for (const Bucket& bucket : b.layout.buckets) bytes += gathered_bytes(bucket);
  e.alloc(fixed_slot(rank_.new_fixed()), bytes, Category::weights, "parameter buffer");
  Replicated::allocate_buffers(e, chunk, b);
  const ParameterList& all = parameters(chunk).all();
  for (std::size_t i = all.size(); i-- > 0;) {
    if (all[i].frozen || all[i].expert != b.experts) continue;
    e.memory_bound(OperationKind::copy, "parameter to buffer",
                   2 * bytes_of(all[i]) * all[i].elements);
    e.free(fixed_slot(buffer(chunk).parameters[i]));
  }
}

void Zero1::dispatch_gather(Emitter& e, const Buffer& b, const Bucket& bucket,
                            std::uint16_t event) {
  e.collective(Kind::all_gather, shards(b), gathered_bytes(bucket), "parameter gather", overlapped,
               event);
}

// Buckets share events if a chunk has more buckets than events.
std::uint16_t Zero1::chunk_bucket(const Buffer& b, int chunk, std::size_t index) {
  const std::size_t count = b.layout.buckets.size();
  const std::size_t at = count <= chunk_events ? index : index * chunk_events / count;
  return static_cast<std::uint16_t>(chunk_event + at +
                                    static_cast<std::size_t>(chunk_events) *
                                        static_cast<std::size_t>(chunk % 2 + 2 * b.experts));
}

// Gathers a whole chunk, one ahead of the running chunk [Megatron-LM
// pipeline_parallel/schedules.py:forward_backward_pipelining_with_interleaving, param_sync_func;
// training.py: align_param_gather, the default since core 0.9; NeMo megatron_gpt_model.py:
// param_sync_func].
void Zero1::gather_chunk(Emitter& e, int chunk) {
  if (chunk >= plan_.pipeline.virtual_stages) return;
  for (const Buffer* b : buffers(chunk)) {
    if (sharers(*b) == 1) continue;
    for (std::size_t i = b->layout.buckets.size(); i-- > 0;)
      dispatch_gather(e, *b, b->layout.buckets[i], chunk_bucket(*b, chunk, i));
  }
}

// Gathers the last of the first `buckets` of a chunk. Forward order is the reverse of creation
// order, and the bucket with the embedding is created last. The next chunk follows, except with
// mirroring stages, because their other chunk may be used first.
void Zero1::dispatch_next(Emitter& e, int chunk, bool experts, std::size_t buckets) {
  while (buckets == 0) {
    if (++chunk >= plan_.pipeline.virtual_stages || has_mirrors(plan_)) return;
    buckets = buffer(chunk, experts).layout.buckets.size();
  }
  const Buffer& b = buffer(chunk, experts);
  if (sharers(b) > 1) dispatch_gather(e, b, b.layout.buckets[buckets - 1], gathered(b));
}

void Zero1::begin_step(Emitter& e, bool first) {
  Replicated::begin_step(e, first);
  if (first || !plan_.sharding.overlap_param_gather) return;
  if (gathers_chunks()) {
    for (const int chunk : {0, 1}) gather_chunk(e, chunk);
    return;
  }
  const int chains = has_mirrors(plan_) ? plan_.pipeline.virtual_stages : 1;
  for (int chunk = 0; chunk < chains; ++chunk)
    for (const Buffer* b : buffers(chunk))
      dispatch_next(e, chunk, b->experts, b->layout.buckets.size());
}

// A module's pre-hook waits for its bucket and starts the gather of the next one.
void Zero1::used(Emitter& e, int chunk, int parameter) {
  Buffer& b = buffer_of(chunk, parameter);
  const int index = b.layout.bucket_of[static_cast<std::size_t>(parameter)];
  if (!gathers() || index < 0 || sharers(b) == 1) return;
  const auto at = static_cast<std::size_t>(index);
  if (b.gathered[at]) return;
  if (gathers_chunks()) {
    const auto untouched = [](const Buffer* of) {
      return std::find(of->gathered.begin(), of->gathered.end(), char{true}) == of->gathered.end();
    };
    const std::vector<Buffer*> all = buffers(chunk);
    if (chunk > 0 && std::all_of(all.begin(), all.end(), untouched)) gather_chunk(e, chunk + 1);
    b.gathered[at] = true;
    return e.wait(chunk_bucket(b, chunk, at));
  }
  b.gathered[at] = true;
  e.wait(gathered(b));
  dispatch_next(e, chunk, b.experts, at);
}

void Zero1::gather_updated(Emitter& e) {
  if (has_mirrors(plan_)) {
    const auto bytes = [this](int chunk) {
      std::int64_t sum = 0;
      for (const Buffer* b : buffers(chunk))
        for (const Bucket& bucket : b->layout.buckets) sum += gathered_bytes(bucket) / sharers(*b);
      return sum;
    };
    swap_with_mirror(e, bytes(0), bytes(1), mirror_parameters, "parameters of the mirror");
  }
  if (plan_.sharding.overlap_param_gather) return;
  for (int chunk = 0; chunk < plan_.pipeline.virtual_stages; ++chunk)
    for (const Buffer* b : buffers(chunk)) {
      if (sharers(*b) == 1) continue;
      if (plan_.sharding.whole_parameters) {
        send_updated(e, *b);
        continue;
      }
      const std::vector<Bucket>& buckets = b->layout.buckets;
      for (std::size_t i = buckets.size(); i-- > 0;)
        e.collective(Kind::all_gather, shards(*b), gathered_bytes(buckets[i]), "parameter gather");
    }
}

// Broadcasts from each rank that updated parameters, one after the other. The CPU has waited for
// the update.
void Zero1::send_updated(Emitter& e, const Buffer& b) {
  e.sync_device("update");
  for (const std::int64_t elements : b.layout.updated)
    e.collective(Kind::broadcast, shards(b), rank_.dim.element * elements, "updated parameters");
}

void Zero1::sum(Emitter& e, const Buffer& b, std::int64_t bytes, std::uint8_t flags) {
  if (plan_.sharding.whole_parameters) return Replicated::sum(e, b, bytes, flags);
  if (!copies(b)) {
    e.collective(Kind::reduce_scatter, group(b), bytes, "gradient reduction", flags, reduced(b));
    return;
  }
  // A separate stream keeps the two collectives in order, during or after the backward pass.
  e.record(order_event);
  e.wait(order_event, Stream::reduce);
  const auto in_order = static_cast<std::uint8_t>(flags | joins);
  if (sharers(b) > 1)
    e.collective(Kind::reduce_scatter, Stream::shard, bytes, "gradient reduction", in_order, 0,
                 Stream::reduce);
  e.collective(Kind::all_reduce, Stream::replicate, bytes / sharers(b), "gradient all-reduce",
               in_order, 0, Stream::reduce);
  e.record(reduced(b), Stream::reduce);
  if (flags & joins) e.wait(reduced(b));
}

}  // namespace sim::program
