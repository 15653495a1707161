// row_schedule.cpp — the pipeline of a row: its schedule, its model chunks, its uneven stages.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "sim/calibrate/row_reading.h"
#include "sim/schedule/schedule.h"

namespace sim::calibrate {

namespace {

// The schedule that the row names; null for Megatron-LM's, which its chunks decide.
const schedule::Schedule* named(const Row& row) {
  const std::string& text = cell(row, "schedule");
  for (const schedule::Schedule& one : schedule::catalog())
    if (!one.name.ends_with("1f1b") && contains(text, one.name)) return &one;
  return contains(text, "interlaced") ? schedule::find("vocab-interlaced") : nullptr;
}

// Layers of the stages where the row says those of the last one: the others share the rest, what is
// left over the last of them [sail-sg/VocabularyParallelism core/transformer/transformer_block.py,
// final_stage_num_layers].
std::vector<int> before_the_last(int layers, int stages, int last) {
  std::vector<int> all(static_cast<std::size_t>(stages), last);
  const int others = stages - 1, rest = layers - last;
  for (int stage = 0; stage < others; ++stage)
    all[static_cast<std::size_t>(stage)] =
        rest / others + (stage >= others - rest % others ? 1 : 0);
  return all;
}

// A list of the layers of each stage, with the embedding and the head as entries.
std::vector<int> listed_stages(const nlohmann::json& extra, int layers, int stages) {
  const auto found = extra.find("layers_per_stage incl. embedding+head entries");
  if (found == extra.end() || !found->is_array() ||
      found->size() != static_cast<std::size_t>(stages))
    return {};
  std::vector<int> all;
  for (const nlohmann::json& entry : *found) {
    if (!entry.is_number_integer() || entry < 1 || entry > layers + 2) return {};
    all.push_back(entry.get<int>());
  }
  --all.front();
  --all.back();
  return std::accumulate(all.begin(), all.end(), 0) == layers ? all : std::vector<int>{};
}

// The layers of each stage, as far as the row has columns for them; empty: it has none.
std::vector<int> stage_layers(const Reading& reading, const workload::Plan& plan) {
  const auto layers = static_cast<int>(plan.architecture.layers);
  if (std::vector<int> listed = listed_stages(reading.extra, layers, plan.mesh.pp); !listed.empty())
    return listed;
  const auto found = reading.extra.find("last_stage_layers");
  if (found == reading.extra.end() || plan.mesh.pp < 2) return {};
  const auto last = found->is_string() ? leading_number(found->get<std::string>()) : std::nullopt;
  if (!last || *last < 0 || *last >= layers || *last * plan.mesh.pp == layers) return {};
  return before_the_last(layers, plan.mesh.pp, static_cast<int>(*last));
}

}  // namespace

void read_schedule(Reading& reading) {
  const schedule::Schedule* schedule = named(reading.row);
  const int chunks = degree(reading.row, "vp");
  if (schedule != nullptr) {
    reading.say("schedule", schedule->name);
    reading.say("virtual_stages", schedule->chunks);
  } else if (chunks > 1) {
    reading.say("virtual_stages", chunks);
  }
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
  if (pipeline.layers_of_parts.empty() && pipeline.virtual_stages == 1)
    pipeline.layers_of_parts = stage_layers(reading, plan);
  if (const auto listed = static_cast<int>(pipeline.layers_of_parts.size()); listed > 0) {
    if (listed % plan.mesh.pp != 0)
      return fmt::format("a layout of {} parts on {} stages", listed, plan.mesh.pp);
    pipeline.virtual_stages = listed / plan.mesh.pp;
    if (named(reading.row) == nullptr)
      pipeline.schedule = pipeline.virtual_stages > 1 ? "interleaved-1f1b" : "1f1b";
    return "";
  }
  if (pipeline.layer_split != workload::LayerSplit::even) return "";
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
