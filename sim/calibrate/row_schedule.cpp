// row_schedule.cpp — the pipeline of a row: its schedule, its model chunks, its uneven stages.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/calibrate/row_text.h"
#include "sim/schedule/schedule.h"

namespace sim::calibrate {

namespace {

// Model chunks of NVIDIA's configurations, where a table has no column for them
// [NVIDIA/dgxc-benchmarking nemotron/README.md, table of configurations; NVIDIA/NeMo-Framework-
// Launcher launcher_scripts/conf/training: gpt3/175b.yaml, llama/llama2_70b.yaml].
int chunks_of_recipe(const Row& row, int pp) {
  if (!starts_with(cell(row, "framework"), "NeMo") || cell(row, "kind") != "pretrain") return 1;
  const std::string& model = cell(row, "model");
  if (contains(model, "340b") && pp == 8) return 12;
  if (!starts_with(cell(row, "source_group"), "nemo")) return 1;
  if (model == "gpt3-175b" && pp == 8) return 12;
  return model == "llama2-70b" && pp == 4 ? 20 : 1;
}

// The schedules of zero-bubble-pipeline-parallelism, as its papers write them; null for others.
// ZB-2p is not among them: it was measured with an optimizer that validates afterwards, so that
// steps run into each other.
const schedule::Schedule* zero_bubble(const std::string& text) {
  for (const auto& [written, name] :
       {std::pair{"ZB-1p", "zb-1p"}, std::pair{"ZB-H1", "zb-h1"}, std::pair{"ZB-H2", "zb-h2"},
        std::pair{"ZB-V", "zb-v"}, std::pair{"V-Half", "v-half"}, std::pair{"V-Min", "v-min"}})
    if (contains(text, written)) return schedule::find(name);
  return nullptr;
}

}  // namespace

std::string read_schedule(const Row& row, const nlohmann::json& extra, RowPlan& out) {
  workload::Plan& plan = out.plan;
  const std::string& text = cell(row, "schedule");
  plan.pipeline.virtual_stages = std::max(degree(row, "vp"), 1);
  if (const int chunks = chunks_of_recipe(row, plan.mesh.pp);
      chunks > 1 && plan.pipeline.virtual_stages == 1) {
    plan.pipeline.virtual_stages = chunks;
    plan.pipeline.schedule = "interleaved-1f1b";
    out.assumptions.push_back(fmt::format("{} model chunks, as its recipe", chunks));
  }
  for (const char* variant : {"redis", "vocab-", "interlaced", "DualPipe", "ZB-2p"}) {
    if (contains(text, variant)) return fmt::format("schedule '{}' is not represented", text);
  }
  // Two stages a rank, unless its configuration splits them [the same, generate_split_points].
  if (contains(text, "Interleaved1F1B") && cell(row, "vp").empty()) {
    plan.pipeline.virtual_stages = 2;
    out.assumptions.emplace_back("two model chunks, as its framework splits");
  }
  if (contains(text, "Interleaved1F1B"))
    plan.pipeline.interleaving = schedule::Interleaving::whole_rounds;
  if (plan.mesh.pp == 1) {
    plan.pipeline.virtual_stages = 1;
    plan.pipeline.schedule = "1f1b";
  } else if (const schedule::Schedule* named = zero_bubble(text)) {
    plan.pipeline.schedule = named->name;
    plan.pipeline.virtual_stages = named->chunks;
  } else if (contains(text, "gpipe")) {
    plan.pipeline.schedule = "gpipe";
  } else {
    plan.pipeline.schedule = plan.pipeline.virtual_stages > 1 ? "interleaved-1f1b" : "1f1b";
    if (contains(text, "interleaved") && plan.pipeline.virtual_stages == 1 &&
        cell(row, "vp").empty()) {
      return "not published: vp";
    }
  }
  if (const auto listed = static_cast<int>(plan.pipeline.layers_of_parts.size()); listed > 0) {
    if (listed % plan.mesh.pp != 0)
      return fmt::format("a layout of {} parts on {} stages", listed, plan.mesh.pp);
    plan.pipeline.virtual_stages = listed / plan.mesh.pp;
    plan.pipeline.schedule = plan.pipeline.virtual_stages > 1 ? "interleaved-1f1b" : "1f1b";
    return "";
  }
  const std::int64_t parts = std::int64_t{plan.mesh.pp} * plan.pipeline.virtual_stages;
  // The embedding and the head count as layers: the zero-bubble paper's stages, DeepSpeed's
  // partition by "type:transformer|embedding", NVIDIA's recipes for Llama-3.1-405B.
  const std::int64_t with_ends = plan.architecture.layers + 2;
  if (plan.architecture.layers % parts != 0 && with_ends % parts == 0 && with_ends / parts > 1) {
    plan.pipeline.account_for_embedding = plan.pipeline.account_for_loss = true;
    if (!flag(extra, "first_last_stage_one_layer_less")) {
      out.assumptions.emplace_back("embedding and head count as layers of their stages");
    }
  } else if (plan.architecture.layers % parts != 0) {
    return fmt::format("uneven stages are not represented ({} layers on {} x {})",
                       plan.architecture.layers, plan.mesh.pp, plan.pipeline.virtual_stages);
  }
  return "";
}

}  // namespace sim::calibrate
