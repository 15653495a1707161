// row_limit.cpp — finds rows that state a time below the physical minimum of their GPU.
//
// A 1F1B step has m + (p - 1) / v slots, for m microbatches, p stages and v chunks per stage. A
// rank computes in m of them; the others fill and drain the pipeline [Narayanan et al.
// arXiv:2104.04473, section 2.2]. A rank computes at least the model FLOPs, without recomputation
// and with half of causal attention.
#include <fmt/format.h>

#include "sim/calibrate/rows/row_reading.h"
#include "sim/input/cluster/cluster.h"
#include "sim/model/flops.h"

namespace sim::calibrate {

std::string above_peak(const Row& row, const program::Plan& plan, const input::Machine& machine) {
  const auto time = number(cell(row, "iter_time_s"));
  const double peak = machine.gpu.peak(plan.product_precision());
  const program::PipelinePlan& pipeline = plan.pipeline;
  const schedule::Schedule* row_of_plan = schedule::find(pipeline.schedule);
  const bool known =
      row_of_plan != nullptr && row_of_plan->default_for != schedule::DefaultFor::no_plan;
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
