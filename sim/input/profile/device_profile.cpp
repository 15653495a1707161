#include "sim/input/profile/profile_fields.h"
#include "sim/input/text/rules.h"

namespace sim::input {
namespace {

namespace v1 = rehearse::v1;

model::Precision precision(v1::GemmPeak::Precision from) {
  switch (from) {
    case v1::GemmPeak::fp32:
      return model::Precision::fp32;
    case v1::GemmPeak::tf32:
      return model::Precision::tf32;
    case v1::GemmPeak::fp16:
      return model::Precision::fp16;
    case v1::GemmPeak::fp8:
      return model::Precision::fp8;
    case v1::GemmPeak::fp4:
      return model::Precision::fp4;
    default:
      return model::Precision::bf16;
  }
}

device::Provenance provenance(const v1::Provenance& from) {
  device::Provenance to;
  to.device = from.device();
  for (const std::string& source : from.source())
    to.source += (to.source.empty() ? "" : "; ") + source;
  to.date = from.date();
  to.command = from.command();
  for (const v1::Residual& residual : from.residuals())
    to.residuals.push_back({residual.group(), residual.source(), residual.samples(),
                            residual.mean_absolute_percent(), residual.bias_percent()});
  to.fitted_rows.assign(from.fitted_rows().begin(), from.fitted_rows().end());
  to.base = from.base();
  to.run_residuals.assign(from.run_residuals().begin(), from.run_residuals().end());
  to.reserved_residuals.assign(from.reserved_residuals().begin(), from.reserved_residuals().end());
  to.allocated_residuals.assign(from.allocated_residuals().begin(),
                                from.allocated_residuals().end());
  return to;
}

device::GemmProfile gemm(const v1::GemmProfile& from) {
  device::GemmProfile to;
  for (const v1::GemmPeak& peak : from.peaks())
    to.peaks.push_back({precision(peak.precision()), peak.fraction()});
  to.sustained = from.sustained();
  for (const v1::Tile& tile : from.tiles())
    to.tiles.push_back({tile.m(), tile.n(), tile.efficiency()});
  if (from.split_k_size() > 0) to.split_k.assign(from.split_k().begin(), from.split_k().end());
  to.wave_quantisation = from.wave_quantisation();
  to.ramp_k = from.ramp_k();
  to.forward = from.forward();
  to.input_gradient = from.input_gradient();
  to.weight_gradient = from.weight_gradient();
  to.exposed_accumulation = from.exposed_accumulation();
  to.hbm = from.hbm();
  if (from.has_boost()) to.boost = to_duration(from.boost());
  if (from.has_throttled()) to.throttled = from.throttled();
  if (from.has_misaligned()) to.misaligned = from.misaligned();
  to.power_w = from.power_w();
  to.rated_power_w = from.rated_power_w();
  return to;
}

device::AttentionPass attention_pass(const v1::AttentionPass& from) {
  device::AttentionPass to;
  for (const v1::HeadEfficiency& one : from.full())
    to.full.push_back({one.head_dim(), one.fraction()});
  for (const v1::HeadEfficiency& one : from.causal())
    to.causal.push_back({one.head_dim(), one.fraction()});
  to.ramp_keys = from.ramp_keys();
  to.ramp_keys_causal = from.ramp_keys_causal();
  to.tail = from.tail();
  return to;
}

device::AttentionProfile attention(const v1::AttentionProfile& from) {
  device::AttentionProfile to;
  to.implementation = from.implementation();
  to.sustained = from.sustained();
  to.forward = attention_pass(from.forward());
  to.backward = attention_pass(from.backward());
  to.block_queries = from.block_queries();
  to.hbm = from.hbm();
  return to;
}

device::MemoryBoundProfile memory_bound(const v1::MemoryBoundProfile& from) {
  return {from.hbm(), to_bytes(from.ramp())};
}

device::HostProfile host(const v1::HostProfile& from) {
  device::HostProfile to;
  to.kernel = to_duration(from.kernel());
  to.collective = to_duration(from.collective());
  to.point_to_point = to_duration(from.point_to_point());
  to.event = to_duration(from.event());
  to.allocation = to_duration(from.allocation());
  to.release = to_duration(from.release());
  to.cuda_malloc = to_duration(from.cuda_malloc());
  to.cuda_malloc_per_gib = to_duration(from.cuda_malloc_per_gib());
  to.cuda_free = to_duration(from.cuda_free());
  to.synchronisation = to_duration(from.synchronisation());
  to.layer_forward = to_duration(from.layer_forward());
  to.layer_backward = to_duration(from.layer_backward());
  // Chosen: the Python of a graphed call costs as much as ten launches.
  to.graph = from.has_graph() ? to_duration(from.graph()) : 10 * to.kernel;
  if (from.has_experts_forward()) to.experts_forward = to_duration(from.experts_forward());
  if (from.has_experts_backward()) to.experts_backward = to_duration(from.experts_backward());
  if (from.has_expert()) to.expert = to_duration(from.expert());
  to.microbatch = to_duration(from.microbatch());
  to.step = to_duration(from.step());
  if (from.has_launch_queue()) to.launch_queue = from.launch_queue();
  if (from.has_queue_entries_per_collective())
    to.queue_entries_per_collective = from.queue_entries_per_collective();
  if (from.has_loader())
    to.loader = {to_duration(from.loader().mask()), from.loader().neighbour(),
                 from.loader().many_documents(), from.loader().many_documents_extra()};
  return to;
}

}  // namespace

device::Profile device_profile(const v1::Profile& from) {
  device::Profile to;
  to.name = from.name();
  to.provenance = provenance(from.provenance());
  to.kernel_overhead = to_duration(from.kernel_overhead());
  if (from.has_block_stream()) to.block_stream = to_bandwidth(from.block_stream());
  to.gemm = gemm(from.gemm());
  for (const v1::AttentionProfile& one : from.attention()) to.attention.push_back(attention(one));
  to.norm = memory_bound(from.norm());
  to.elementwise = memory_bound(from.elementwise());
  to.softmax = memory_bound(from.softmax());
  to.copy = memory_bound(from.copy());
  to.reduction = memory_bound(from.reduction());
  to.optimizer = memory_bound(from.optimizer());
  to.embedding = memory_bound(from.embedding());
  to.host = host(from.host());
  to.overlap = {from.overlap().compute(), from.overlap().memory(), from.overlap().collective_node(),
                from.overlap().collective_network(), to_duration(from.overlap().arrival())};
  to.memory = {to_bytes(from.memory().context()), to_bytes(from.memory().libraries()),
               to_bytes(from.memory().cublas_workspace()),
               to_bytes(from.memory().engine_workspace())};
  const bool older = !from.memory().has_unexplained();
  if (!older || from.memory().has_unaccounted()) {
    const v1::UnexplainedMemory& left =
        older ? from.memory().unaccounted() : from.memory().unexplained();
    to.memory.unexplained = to_bytes(left.bytes());
    to.memory.unexplained_least = to_bytes(left.least());
    to.memory.unexplained_most = to_bytes(left.most());
  }
  return to;
}

}  // namespace sim::input
