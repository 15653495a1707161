// row_schedule.cpp — degrees and batch of a row, then its pipeline: schedule, model chunks, uneven
// stages.
#include <algorithm>
#include <array>
#include <regex>
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
  if (word == "interlaced") return schedule::find("vocab-interlaced");
  if (const schedule::Schedule* one = schedule::find_torch(word)) return one;
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

}  // namespace

int layer_interval(const std::string& text) {
  static const std::regex every(R"(every (\d{1,2})(st|nd|rd|th) layer)");
  std::smatch found;
  return std::regex_search(text, found, every) ? std::stoi(found[1]) : 0;
}

namespace {

// Composer runs a smaller last microbatch. The plan runs the next larger number of microbatches
// that divides the sequences of a replica, all of one size.
void even_microbatches(Reading& reading, std::int64_t sequences, int micro_batch) {
  std::int64_t count = (sequences + micro_batch - 1) / micro_batch;
  while (sequences % count != 0) ++count;
  reading.assume("micro_batch", fmt::format("{} microbatches of {} for ones of {} and a rest",
                                            count, sequences / count, micro_batch));
  reading.say("micro_batch", sequences / count);
}

}  // namespace

void read_degrees(Reading& reading) {
  const Row& row = reading.row;
  const auto said = [&](const char* field) {
    return static_cast<int>(
        std::clamp<std::int64_t>(leading_number(reading.said(field)).value_or(0), 0, count_max));
  };
  const auto take = [&](const char* column, const char* field) {
    const int value = degree(row, column);
    if (value > 0 && !reading.says(field)) reading.say(field, value);
    return said(field);
  };
  const int tp = take("tp", "tp");
  int pp = take("pp", "pp");
  if (tp > 0 && pp == 0 && cell(row, "pp").empty()) {
    pp = 1;
    reading.say("pp", 1);
    reading.assume("pp", "no pipeline");
  }
  const int cp = std::max(take("cp", "cp"), 1);
  int micro_batch = take("mbs", "micro_batch");
  if (reading.is_mixture()) take("ep", "ep");
  const int gpus = take("n_gpus", "gpus");
  int dp = reading.says("dp") ? said("dp") : degree(row, "dp");
  std::string missing;
  const auto need = [&](bool there, const char* column) {
    if (!there) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", column);
  };
  need(tp > 0, "tp");
  need(pp > 0, "pp");
  need(cell(row, "cp").empty() || degree(row, "cp") > 0, "cp");
  need(gpus > 0 || dp > 0, "n_gpus");
  if (!missing.empty()) return reading.refuse("not published: " + missing);
  if (micro_batch == 0) {
    micro_batch = 1;
    reading.say("micro_batch", 1);
    reading.assume("micro_batch", "micro-batches of one sequence");
  }
  const std::int64_t model_parallel = std::int64_t{tp} * pp * cp;
  if (dp == 0 && gpus % model_parallel != 0)
    return reading.refuse(
        fmt::format("{} GPUs are not a multiple of tp x cp x pp = {}", gpus, model_parallel));
  if (dp == 0) dp = static_cast<int>(gpus / model_parallel);
  if (model_parallel * dp > count_max) return reading.refuse("more GPUs than can be");
  if (gpus != 0 && model_parallel * dp != gpus)
    return reading.refuse(
        fmt::format("tp x cp x pp x dp = {} is not the row's {} GPUs", model_parallel * dp, gpus));
  if (gpus == 0) reading.say("gpus", model_parallel * dp);
  std::int64_t batch = take("gbs", "global_batch");
  if (batch == 0) {
    const std::int64_t microbatches = leading_number(cell(row, "n_microbatch")).value_or(0);
    batch = std::clamp<std::int64_t>(microbatches, 0, count_max) * dp * micro_batch;
    if (batch == 0 || batch > count_max) return reading.refuse("not published: gbs");
    reading.say("global_batch", batch);
  }
  if (batch % dp != 0 || batch / dp % micro_batch == 0) return;
  even_microbatches(reading, batch / dp, micro_batch);
}

namespace {

// Checkpoints every n-th layer of each chunk: "keep,recompute" repeated.
void read_choices(Reading& reading, std::int64_t layers_of_chunk) {
  const int interval = layer_interval(cell(reading.row, "recompute"));
  if (interval < 2 || layers_of_chunk < 1 || layers_of_chunk > 4096) return;
  std::string choices;
  for (std::int64_t i = 1; i <= layers_of_chunk; ++i)
    choices += fmt::format("{}{}", i == 1 ? "" : ",", i % interval == 0 ? "recompute" : "keep");
  reading.say("layer_choices", choices);
}

// A last stage with layers of its own, where the others do not share the rest evenly. Megatron-LM
// refuses it; a fork gives the rest to the later stages [sail-sg/VocabularyParallelism
// megatron/core/transformer/transformer_block.py: final_stage_num_layers].
void read_last_stage(Reading& reading, std::int64_t layers, std::int64_t stages) {
  const nlohmann::json all = extra(reading.row);
  const auto given = all.find("last_stage_layers");  // a plan cannot say 0
  if (given == all.end()) return;
  const auto last = leading_number(value_text(*given));
  if (!last || *last < 0 || *last >= layers || reading.says("first_stage_layers")) return;
  const std::int64_t others = stages - 1, rest = layers - *last;
  if (rest < others || stages > 4096 || (*last > 0 && rest % others == 0)) return;
  std::string layout = "E";
  for (std::int64_t i = 0; i < others; ++i)
    layout += fmt::format("t*{}|", rest / others + (i >= others - rest % others ? 1 : 0));
  layout += *last > 0 ? fmt::format("t*{}L", *last) : "L";
  std::erase_if(reading.settings,
                [](const std::string& one) { return one.starts_with("last_stage_layers="); });
  reading.say("pipeline_layout", layout);
}

// Layers that do not split evenly: the embedding and the head count as layers, as NVIDIA's recipes
// for Llama-3.1-405B and DeepSpeed's partition have it.
void read_ends(Reading& reading, std::int64_t layers, std::int64_t parts) {
  for (const char* field : {"pipeline_layout", "first_stage_layers", "last_stage_layers",
                            "account_for_embedding", "account_for_loss", "layer_split"})
    if (reading.says(field)) return;
  const std::int64_t with_ends = layers + 2;
  if (layers % parts == 0) return;
  if (with_ends % parts != 0)
    return reading.refuse(fmt::format(
        "the layers of the stages are not published ({} layers on {} parts)", layers, parts));
  reading.assume("account_for_embedding", "embedding and head count as layers of their stages");
  if (with_ends == parts) return reading.say("layer_split", "padded");
  reading.say("account_for_embedding", true);
  reading.say("account_for_loss", true);
}

// The model chunks of a stage that the framework's recipes have, for a row that does not tell
// them and is not sure of its schedule; 0: not known.
int chunks_of_recipes(Reading& reading, std::int64_t stages) {
  const std::string& schedule = cell(reading.row, "schedule");
  const input::Framework* framework = input::find_framework(reading.said("framework"));
  const std::int64_t layers = leading_number(reading.said("architecture.layers")).value_or(0);
  const bool unsure = schedule.empty() || schedule.ends_with('?');
  if (framework == nullptr || !framework->one_layer_chunks || !unsure || layers % stages != 0)
    return 0;
  const std::int64_t chunks = layers / stages;
  if (chunks < 2 || chunks > 4096) return 0;
  reading.assume("virtual_stages", "model chunks of one layer");
  return static_cast<int>(chunks);
}

}  // namespace

void read_schedule(Reading& reading) {
  const Named names = named(reading.row);
  const std::int64_t stages = leading_number(reading.said("pp")).value_or(1);
  if (!names.known)
    return reading.refuse(
        fmt::format("schedule '{}' is not represented", cell(reading.row, "schedule")));
  const bool laid_out = reading.says("pipeline_layout");
  if (stages > 1 && !laid_out && !reading.says("virtual_stages") && !reading.says("schedule")) {
    int chunks = degree(reading.row, "vp");
    if (names.schedule != nullptr) {
      reading.say("schedule", names.schedule->name);
      if (chunks < 2) chunks = names.schedule->chunks;
    }
    if (chunks == 0 && names.schedule == nullptr) chunks = chunks_of_recipes(reading, stages);
    if (names.interleaved && names.schedule == nullptr && chunks < 2)
      return reading.refuse("not published: vp");
    if (chunks > 1 || names.schedule != nullptr) reading.say("virtual_stages", chunks);
  }
  const std::int64_t chunks = leading_number(reading.said("virtual_stages")).value_or(1);
  const std::int64_t layers = leading_number(reading.said("architecture.layers")).value_or(0);
  if (stages < 1 || chunks < 1 || chunks > 65536) return;
  if (stages > 1 && chunks == 1 && !laid_out) read_last_stage(reading, layers, stages);
  if (stages > 1 && !laid_out) read_ends(reading, layers, stages * chunks);
  const std::int64_t of_chunk = layers / (stages * chunks);
  read_choices(reading, of_chunk);
  // Megatron-LM runs the first recompute_layers of each chunk again, or all if it has fewer
  // [core transformer/transformer_block.py:_checkpointed_forward].
  if (leading_number(reading.said("recompute_layers")).value_or(0) > of_chunk && of_chunk > 0)
    reading.say("recompute_layers", of_chunk);
}

}  // namespace sim::calibrate
