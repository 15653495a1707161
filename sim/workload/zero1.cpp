#include "sim/workload/zero1.h"

namespace sim::workload {

using collective::Kind;
using model::OperationKind;

std::int64_t Zero1::gathered_bytes(const Bucket& bucket) const {
  return rank_.dim.element * bucket.elements - bucket.in_fp8 * (rank_.dim.element - 1);
}

// Each parameter is copied into the buffer, the last one first, and its own tensor goes.
void Zero1::allocate_buffers(Emitter& e, int chunk, Buffer& b) {
  if (b.layout.buckets.empty()) return;  // all is frozen
  std::int64_t bytes = 0;
  for (const Bucket& bucket : b.layout.buckets) bytes += gathered_bytes(bucket);
  e.alloc(fixed_slot(rank_.new_fixed()), bytes, Category::weights, "parameter buffer");
  Replicated::allocate_buffers(e, chunk, b);
  const ParameterList& all = parameters(chunk).all();
  for (std::size_t i = all.size(); i-- > 0;) {
    if (all[i].frozen || all[i].expert != b.experts) continue;
    memory_bound(e, OperationKind::copy, "parameter to buffer",
                 2 * bytes_of(all[i]) * all[i].elements);
    e.free(fixed_slot(buffer(chunk).parameters[i]));
  }
}

void Zero1::dispatch_gather(Emitter& e, const Buffer& b, const Bucket& bucket) {
  e.collective(Kind::all_gather, group(b), gathered_bytes(bucket), "parameter gather", overlapped,
               gathered(b));
}

// Forward order is the reverse of creation: the bucket with the embedding is the last one built.
void Zero1::begin_step(Emitter& e, bool first) {
  Replicated::begin_step(e, first);
  if (first || !plan_.sharding.overlap_param_gather) return;
  for (int chunk = 0; chunk < plan_.pipeline.virtual_stages; ++chunk)
    for (const Buffer* b : buffers(chunk))
      if (!b->layout.buckets.empty() && ranks(*b) > 1)
        dispatch_gather(e, *b, b->layout.buckets.back());
}

// A module's pre-hook waits for its bucket and dispatches the next.
void Zero1::used(Emitter& e, int chunk, int parameter) {
  Buffer& b = buffer_of(chunk, parameter);
  const int index = b.layout.bucket_of[static_cast<std::size_t>(parameter)];
  if (!gathers() || index < 0 || ranks(b) == 1) return;
  if (b.gathered[static_cast<std::size_t>(index)]) return;
  b.gathered[static_cast<std::size_t>(index)] = true;
  e.wait(gathered(b));
  if (index > 0) dispatch_gather(e, b, b.layout.buckets[static_cast<std::size_t>(index - 1)]);
}

void Zero1::gather_updated(Emitter& e) {
  if (plan_.sharding.overlap_param_gather) return;
  for (int chunk = 0; chunk < plan_.pipeline.virtual_stages; ++chunk)
    for (const Buffer* b : buffers(chunk)) {
      const std::vector<Bucket>& buckets = b->layout.buckets;
      for (std::size_t i = buckets.size(); i-- > 0 && ranks(*b) > 1;)
        e.collective(Kind::all_gather, group(*b), gathered_bytes(buckets[i]), "parameter gather");
    }
}

}  // namespace sim::workload
