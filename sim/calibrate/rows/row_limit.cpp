// row_limit.cpp — rows whose time no GPU of theirs can reach.
//
// A rank of 1F1B computes for m of m + (p - 1) / v spans of a step: the rest fills and drains the
// pipeline [Narayanan et al. arXiv:2104.04473, section 2.2]. Model FLOPs alone, without
// recomputation and with the causal half of attention, are the least that it computes.
#include <fmt/format.h>

#include "sim/calibrate/rows/row_reading.h"
#include "sim/input/cluster/cluster.h"
#include "sim/model/flops.h"

namespace sim::calibrate {

std::string above_peak(const Row& row, const program::Plan& plan, const input::Machine& machine) {
  const auto time = number(cell(row, "iter_time_s"));
  const double peak = machine.gpu.peak(plan.product_precision());
  const program::PipelinePlan& pipeline = plan.pipeline;
  const bool known = pipeline.schedule == "1f1b" || pipeline.schedule == "interleaved-1f1b";
  if (!time || *time <= 0 || peak <= 0 || !known || plan.trains_adapters() ||
      plan.batch.packed_document > 0 || !program::problems(plan).empty())
    return "";
  const model::Batch batch{static_cast<double>(plan.batch.global_batch),
                           static_cast<double>(plan.batch.sequence),
                           static_cast<double>(plan.architecture.vocab), model::Recompute::none};
  const double flops = model::find_flop_convention("megatron")->flops(plan.architecture, batch);
  const double filling = (plan.mesh.pp - 1.0) / pipeline.virtual_stages / plan.microbatches();
  const double rate = flops / *time / plan.world() * (1 + filling);
  if (rate <= peak) return "";
  return fmt::format(
      "its time asks for {:.0f} TFLOP/s of each {} while the pipeline is full, above the peak of "
      "{:.0f}",
      rate * 1e-12, machine.gpu.name, peak * 1e-12);
}

}  // namespace sim::calibrate
