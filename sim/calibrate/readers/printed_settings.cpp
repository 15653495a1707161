#include "sim/calibrate/readers/printed_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "sim/calibrate/readers/lines.h"
#include "sim/calibrate/readers/reader.h"
#include "sim/input/fields/fields.h"

namespace sim::calibrate {

namespace {

// The fields that tell one run from another. Logs print many more arguments.
constexpr std::array<std::string_view, 12> identifying = {"gpus",
                                                          "dp",
                                                          "tp",
                                                          "cp",
                                                          "pp",
                                                          "ep",
                                                          "virtual_stages",
                                                          "micro_batch",
                                                          "global_batch",
                                                          "sequence",
                                                          "architecture.layers",
                                                          "architecture.hidden"};

struct PrintedName {
  std::string_view text, field;
};
// Words before a number.
constexpr std::array<PrintedName, 13> labels = {{
    {"using world size:", "gpus"},
    // PyTorch Lightning (fabric/utilities/distributed.py).
    {"distributed processes registered. Starting with", "gpus"},
    {"data-parallel size:", "dp"},
    {"data-parallel-size:", "dp"},
    {"tensor-model-parallel size:", "tp"},
    {"tensor-model-parallel-size:", "tp"},
    {"context-parallel size:", "cp"},
    {"pipeline-model-parallel size:", "pp"},
    {"pipeline-model-parallel-size:", "pp"},
    {"global batch size:", "global_batch"},
    {"global_batch_size:", "global_batch"},
    // torchtitan (train.py): "local batch size 8, global batch size 64, ... sequence length 2048".
    {", global batch size", "global_batch"},
    {", sequence length", "sequence"},
}};

// Arguments of DeepSpeed and Composer that the table of fields does not have.
constexpr std::array<PrintedName, 5> more_arguments = {{
    {"train_batch_size", "global_batch"},
    {"train_micro_batch_size_per_gpu", "micro_batch"},
    {"global_train_batch_size", "global_batch"},
    {"device_train_microbatch_size", "micro_batch"},
    {"max_seq_len", "sequence"},
}};

using ArgumentNames = std::map<std::string, std::string_view, std::less<>>;

// Names of arguments with an underscore, from the synonyms and flags of the fields.
ArgumentNames argument_names() {
  ArgumentNames names;
  for (const std::string_view field : identifying) {
    const input::Field& row = *input::find_plan_field(field);
    for (const std::string_view text : {row.synonyms, row.flags})
      for (std::string_view word : split_words(text)) {
        if (word.ends_with('=')) word.remove_suffix(1);
        std::string name(word);
        std::ranges::replace(name, '-', '_');
        // A batch without more words is that of a step in one program, of a GPU in another.
        if (name.find('_') != std::string::npos && name != "batch_size") names.emplace(name, field);
      }
  }
  for (const PrintedName& one : more_arguments) names.emplace(one.text, one.field);
  return names;
}

bool in_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

// The whole number after a label that is no part of a longer name.
std::int64_t labelled(std::string_view line, std::string_view label) {
  const std::size_t at = line.find(label);
  if (at == std::string_view::npos) return 0;
  // Megatron-LM core 0.9 to 0.15 prints "hierarchical context-parallel sizes: Nonetensor-model-
  // parallel size: 8" [NVIDIA/Megatron-LM megatron/training/arguments.py].
  const bool behind_none = line.substr(0, at).ends_with("None");
  if (at > 0 && !behind_none && in_word(label.front()) && in_word(line[at - 1])) return 0;
  return count_after(line.substr(at), label);
}

class PrintedSettings {
 public:
  explicit PrintedSettings(std::string path) : path_(std::move(path)) {}

  void take(std::string_view line, std::int64_t number) {
    line_ = number;
    if (line.find("size") != std::string_view::npos || line.find("registered") < line.size())
      for (const PrintedName& label : labels) set(label.field, labelled(line, label.text));
    take_arguments(line);
    if (line.find("device mesh with") != std::string_view::npos) take_mesh(line);
    if (line.find("local batch size") != std::string_view::npos)
      local_batch_ = {line_, labelled(line, "local batch size")};
  }

  std::vector<PrintedSetting> all() {
    // With stages, torchtitan's local batch holds several microbatches.
    if (value("pp").value_or(1) == 1 && local_batch_.second > 0) {
      line_ = local_batch_.first;
      set("micro_batch", local_batch_.second);
    }
    std::vector<PrintedSetting> out;
    for (const std::string_view field : identifying)
      if (const auto found = found_.find(field); found != found_.end())
        out.push_back({std::string(field), found->second.first,
                       fmt::format("{}:{}", path_, found->second.second)});
    return out;
  }

 private:
  void set(std::string_view field, std::int64_t value) {
    if (value <= 0) return;
    const auto [found, is_new] = found_.try_emplace(field, value, line_);
    if (!is_new && found->second.first != value) found->second = {value, line_};
  }
  std::optional<std::int64_t> value(std::string_view field) const {
    const auto found = found_.find(field);
    if (found == found_.end()) return std::nullopt;
    return found->second.first;
  }

  // "NAME ..... 8", "NAME  8" of DeepSpeed's table, and "NAME: 8" on a line of its own.
  void take_arguments(std::string_view line) {
    if (line.find("_size") == std::string_view::npos &&
        line.find("_len") == std::string_view::npos &&
        line.find("num_layers") == std::string_view::npos)
      return;
    const std::vector<std::string_view> words = split_words(line);
    for (std::size_t i = 0; i + 1 < words.size(); ++i) {
      std::string_view name = words[i];
      const bool yaml = words.size() == 2 && name.ends_with(':');
      if (yaml) name.remove_suffix(1);
      const auto known = names_.find(name);
      if (known == names_.end()) continue;
      const bool dots = words[i + 1].find_first_not_of('.') == std::string_view::npos;
      const bool deepspeed = line.find("[config.py:") != std::string_view::npos;
      if (dots ? i + 2 >= words.size() : !yaml && !deepspeed) continue;
      // DeepSpeed's world is the data-parallel group of a Megatron mesh. Layers of YAML may be
      // those of an encoder.
      if ((deepspeed && known->second == "gpus") ||
          (yaml && known->second.starts_with("architecture.")))
        continue;
      set(known->second, positive_whole(words[i + (dots ? 2 : 1)]));
    }
  }

  // "['dp_shard', 'tp'], [32, 8]" has only degrees above 1; "parallelism: pp=1, dp_shard=32, ...".
  void take_mesh(std::string_view line) {
    std::map<std::string, std::int64_t, std::less<>> degrees = {{"pp", 1}, {"cp", 1}, {"tp", 1}};
    const std::size_t names = line.find("with ['"), sizes = line.find("], [");
    if (names != std::string_view::npos && sizes != std::string_view::npos && sizes > names) {
      std::vector<std::string> keys = listed(line.substr(names + 6, sizes - names - 6));
      std::vector<std::string> values = listed(line.substr(sizes + 4));
      if (keys.size() != values.size()) return;
      for (std::size_t i = 0; i < keys.size(); ++i) degrees[keys[i]] = positive_whole(values[i]);
    } else if (const std::size_t from = line.find("parallelism:"); from != std::string_view::npos) {
      for (const std::string& word : listed(line.substr(from + 12))) {
        const std::size_t equals = word.find('=');
        if (equals == std::string::npos) continue;
        const std::int64_t degree = positive_whole(word.substr(equals + 1));
        // Experts share the GPUs of the other dimensions.
        if (word.starts_with("ep=")) set("ep", degree);
        if (!word.starts_with("ep=") && !word.starts_with("etp="))
          degrees[word.substr(0, equals)] = degree;
      }
    } else {
      return;
    }
    std::int64_t world = 1;
    for (const auto& [name, degree] : degrees) {
      if (degree < 1 || degree > (1 << 24) || world > (1 << 24)) return;
      world *= degree;
    }
    for (const char* axis : {"pp", "cp", "tp"}) set(axis, degrees[axis]);
    set("gpus", world);
  }

  // The words of "'dp_shard', 'tp'" or "32, 8]".
  static std::vector<std::string> listed(std::string_view text) {
    std::vector<std::string> out;
    std::string word;
    for (const char c : text.substr(0, text.find(']')))
      if (in_word(c) || c == '=')
        word += c;
      else if (!word.empty())
        out.push_back(std::exchange(word, {}));
    if (!word.empty()) out.push_back(word);
    return out;
  }

  std::string path_;
  ArgumentNames names_ = argument_names();
  std::int64_t line_ = 0;
  std::map<std::string_view, std::pair<std::int64_t, std::int64_t>> found_;  // value, line
  std::pair<std::int64_t, std::int64_t> local_batch_ = {0, 0};               // line, value
};

}  // namespace

std::vector<PrintedSetting> printed_settings(std::string_view bytes, const std::string& path) {
  constexpr std::size_t longest = 1 << 16;
  PrintedSettings settings(path);
  for (std::int64_t number = 1; !bytes.empty(); ++number) {
    const std::size_t end = bytes.find('\n');
    const std::string_view line = bytes.substr(0, std::min(end, longest));
    if (line.find('\x1b') == std::string_view::npos)
      settings.take(line, number);
    else
      settings.take(without_colours(line), number);
    if (end == std::string_view::npos) break;
    bytes.remove_prefix(end + 1);
  }
  return settings.all();
}

}  // namespace sim::calibrate
