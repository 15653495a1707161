// row_schedule.cpp — the pipeline of a row: its schedule, its model chunks, its uneven stages.
#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "sim/base/ascii.h"
#include "sim/calibrate/rows/row_reading.h"
#include "sim/job/schedule/schedule.h"

namespace sim::calibrate {

namespace {

// Content of the column `schedule`.
struct Named {
  // nullptr: Megatron-LM chooses by the number of chunks
  const schedule::Schedule* schedule = nullptr;
  bool interleaved = false;  // Megatron-LM's, with several chunks
  bool known = true;
};

// A name without case and punctuation: "ZB-1p" and "zb_1p" become equal.
std::string plain(std::string_view word) {
  std::string letters;
  for (const char c : word)
    if (c != '-' && c != '_' && c != '?') letters += lower(c);
  return letters;
}

// Finds a schedule by a name of tables or by PyTorch's class name.
const schedule::Schedule* find_named(const std::string& word) {
  static const std::map<std::string, const char*, std::less<>> others = {
      {"interlaced", "vocab-interlaced"},
      {"zbvzerobubble", "zb-v"},
      {"interleavedzerobubble", "interleaved-zb"},
      {"loopedbfs", "breadth-first"},
  };
  if (const auto found = others.find(word); found != others.end())
    return schedule::find(found->second);
  for (const schedule::Schedule& one : schedule::catalog())
    if (plain(one.name) == word) return &one;
  return nullptr;
}

// Reads words, each a schedule or a remark: "1F1B vocab-2", "interleaved-1F1B (6 interleaving)".
Named named(const Row& row) {
  // Remarks on how layers or vocabulary are distributed; other columns state that.
  constexpr std::array remarks{"", "none", "unstated", "baseline", "redis"};
  constexpr std::array interleaved{"interleaved", "interleaved1f1b", "1f1bi", "1f1binterleaved"};
  const std::string& cell_text = cell(row, "schedule");
  std::istringstream words(cell_text.substr(0, cell_text.find('(')));
  Named all;
  for (std::string word; words >> word;) {
    word = plain(word);
    if (std::ranges::count(interleaved, word) > 0) {
      all.interleaved = true;
    } else if (word != "1f1b" && std::ranges::count(remarks, word) == 0) {
      const schedule::Schedule* one = find_named(word);
      all.known = all.known && one != nullptr && all.schedule == nullptr;
      all.schedule = one;
    }
  }
  return all;
}

// Layers per stage if the row states those of the last stage. The other stages share the rest; the
// last of them take the remainder [sail-sg/VocabularyParallelism
// core/transformer/transformer_block.py, final_stage_num_layers].
std::vector<int> before_the_last(int layers, int stages, int last) {
  std::vector<int> all(static_cast<std::size_t>(stages), last);
  const int others = stages - 1, rest = layers - last;
  for (int stage = 0; stage < others; ++stage)
    all[static_cast<std::size_t>(stage)] =
        rest / others + (stage >= others - rest % others ? 1 : 0);
  return all;
}

// Reads the layers of each stage from a list that counts embedding and head as entries.
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

// Layers of each stage, if the row has columns for them; otherwise empty.
std::vector<int> stage_layers(const Reading& reading, const program::Plan& plan) {
  const auto layers = static_cast<int>(plan.architecture.layers);
  if (std::vector<int> listed = listed_stages(reading.extra, layers, plan.mesh.pp); !listed.empty())
    return listed;
  if (plan.mesh.pp < 2) return {};
  // The remainder of layers goes to the last stages [InternEvo, partition_uniform].
  if (contains(cell(reading.row, "framework"), "internevo") && layers % plan.mesh.pp != 0)
    return before_the_last(layers, plan.mesh.pp, (layers + plan.mesh.pp - 1) / plan.mesh.pp);
  const auto found = reading.extra.find("last_stage_layers");
  if (found == reading.extra.end()) return {};
  const auto last = found->is_string() ? leading_number(found->get<std::string>()) : std::nullopt;
  if (!last || *last < 0 || *last >= layers || *last * plan.mesh.pp == layers) return {};
  return before_the_last(layers, plan.mesh.pp, static_cast<int>(*last));
}

}  // namespace

std::string read_schedule(Reading& reading) {
  const Named names = named(reading.row);
  if (!names.known)
    return fmt::format("schedule '{}' is not represented", cell(reading.row, "schedule"));
  const int chunks = degree(reading.row, "vp");
  if (names.schedule != nullptr) {
    reading.say("schedule", names.schedule->name);
    reading.say("virtual_stages", chunks > 1 ? chunks : names.schedule->chunks);
  } else if (chunks > 1) {
    reading.say("virtual_stages", chunks);
  }
  return "";
}

std::string settle_schedule(Reading& reading, RowPlan& out) {
  program::Plan& plan = out.plan;
  program::PipelinePlan& pipeline = plan.pipeline;
  const Named names = named(reading.row);
  // Embedding and head count as layers in three cases: stages of the zero-bubble paper, DeepSpeed's
  // partition by "type:transformer|embedding", and NVIDIA's recipes for Llama-3.1-405B.
  const std::int64_t layers = plan.architecture.layers, with_ends = layers + 2;
  const bool one_each = contains(cell(reading.row, "notes"), "one layer per chunk");
  if (plan.mesh.pp == 1) {
    pipeline.virtual_stages = 1;
    pipeline.schedule = "1f1b";
  } else if (names.interleaved && pipeline.virtual_stages == 1 &&
             pipeline.layers_of_parts.empty()) {
    if (!one_each || with_ends % plan.mesh.pp != 0) return "not published: vp";
    pipeline.virtual_stages = static_cast<int>(with_ends / plan.mesh.pp);
    pipeline.schedule = "interleaved-1f1b";
  }
  if (pipeline.layers_of_parts.empty() && pipeline.virtual_stages == 1)
    pipeline.layers_of_parts = stage_layers(reading, plan);
  if (const auto listed = static_cast<int>(pipeline.layers_of_parts.size()); listed > 0) {
    if (listed % plan.mesh.pp != 0)
      return fmt::format("a layout of {} parts on {} stages", listed, plan.mesh.pp);
    pipeline.virtual_stages = listed / plan.mesh.pp;
    if (names.schedule == nullptr)
      pipeline.schedule = pipeline.virtual_stages > 1 ? "interleaved-1f1b" : "1f1b";
    return "";
  }
  if (pipeline.layer_split != program::LayerSplit::even) return "";
  const std::int64_t parts = std::int64_t{plan.mesh.pp} * pipeline.virtual_stages;
  if (layers % parts == 0) return "";
  const bool less_at_ends = flag(reading.extra, "first_last_stage_one_layer_less");
  // With chunks of one layer, the first and the last chunk have no layer: only embedding and head.
  if (with_ends == parts && (less_at_ends || one_each)) {
    pipeline.layer_split = program::LayerSplit::padded;
    return "";
  }
  if (with_ends % parts != 0 || with_ends / parts <= 1)
    return fmt::format("uneven stages are not represented ({} layers on {} x {})", layers,
                       plan.mesh.pp, pipeline.virtual_stages);
  pipeline.account_for_embedding = pipeline.account_for_loss = true;
  if (!less_at_ends)
    reading.assume("account_for_embedding", "embedding and head count as layers of their stages");
  return "";
}

}  // namespace sim::calibrate
