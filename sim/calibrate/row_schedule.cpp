// row_schedule.cpp — the pipeline of a row: its schedule, its model chunks, its uneven stages.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/calibrate/row_reading.h"
#include "sim/schedule/schedule.h"

namespace sim::calibrate {

namespace {

// The schedule that the row names; null for Megatron-LM's, which its chunks decide.
const schedule::Schedule* named(const Row& row) {
  for (const schedule::Schedule& one : schedule::catalog())
    if (!one.name.ends_with("1f1b") && contains(cell(row, "schedule"), one.name)) return &one;
  return contains(cell(row, "schedule"), "interlaced") ? schedule::find("vocab-interlaced")
                                                       : nullptr;
}

// Of layers that were moved from the last stage to the others the table has what is left there; the
// first stages of the others take one more where they do not share evenly.
void redistribute(Reading& reading, const workload::Plan& plan, workload::PipelinePlan& pipeline) {
  const auto stated = reading.extra.find("last_stage_layers");
  const int stages = plan.mesh.pp;
  if (stated == reading.extra.end() || !stated->is_string() || stages < 2) return;
  const int last = static_cast<int>(leading_number(stated->get<std::string>()).value_or(0));
  const int others = static_cast<int>(plan.architecture.layers) - last;
  for (int stage = 0; stage < stages - 1; ++stage)
    pipeline.layers_of_parts.push_back(others / (stages - 1) + (stage < others % (stages - 1)));
  pipeline.layers_of_parts.push_back(last);
  if (others % (stages - 1) != 0)
    reading.assume("account_for_embedding", "the first stages have a layer more than the others");
}

}  // namespace

std::string read_schedule(Reading& reading) {
  const std::string& text = cell(reading.row, "schedule");
  if (contains(text, "DualPipe")) return fmt::format("schedule '{}' is not represented", text);
  const schedule::Schedule* schedule = named(reading.row);
  const int chunks = degree(reading.row, "vp");
  if (schedule != nullptr) {
    reading.say("schedule", schedule->name);
    reading.say("virtual_stages", schedule->chunks);
  } else if (chunks > 1) {
    reading.say("virtual_stages", chunks);
  }
  return "";
}

std::string settle_schedule(Reading& reading, RowPlan& out) {
  workload::Plan& plan = out.plan;
  workload::PipelinePlan& pipeline = plan.pipeline;
  const bool blank = cell(reading.row, "vp").empty() && !reading.says("virtual_stages");
  if (plan.mesh.pp == 1) {
    pipeline.virtual_stages = 1;
    pipeline.schedule = "1f1b";
  } else if (contains(cell(reading.row, "schedule"), "interleaved") && blank &&
             pipeline.virtual_stages == 1) {
    return "not published: vp";
  }
  if (contains(cell(reading.row, "schedule"), "redis")) redistribute(reading, plan, pipeline);
  if (const auto listed = static_cast<int>(pipeline.layers_of_parts.size()); listed > 0) {
    if (listed % plan.mesh.pp != 0)
      return fmt::format("a layout of {} parts on {} stages", listed, plan.mesh.pp);
    pipeline.virtual_stages = listed / plan.mesh.pp;
    pipeline.schedule = pipeline.virtual_stages > 1 ? "interleaved-1f1b" : "1f1b";
    return "";
  }
  const std::int64_t parts = std::int64_t{plan.mesh.pp} * pipeline.virtual_stages;
  // The embedding and the head count as layers: the zero-bubble paper's stages, DeepSpeed's
  // partition by "type:transformer|embedding", NVIDIA's recipes for Llama-3.1-405B.
  const std::int64_t layers = plan.architecture.layers, with_ends = layers + 2;
  if (layers % parts == 0) return "";
  if (with_ends % parts != 0 || with_ends / parts <= 1)
    return fmt::format("uneven stages are not represented ({} layers on {} x {})", layers,
                       plan.mesh.pp, pipeline.virtual_stages);
  pipeline.account_for_embedding = pipeline.account_for_loss = true;
  if (!flag(reading.extra, "first_last_stage_one_layer_less"))
    reading.assume("account_for_embedding", "embedding and head count as layers of their stages");
  return "";
}

}  // namespace sim::calibrate
