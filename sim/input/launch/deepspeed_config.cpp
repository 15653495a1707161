#include "sim/input/launch/deepspeed_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

#include "sim/base/ascii.h"
#include "sim/input/launch/launch.h"

namespace sim::input {
namespace {

using nlohmann::json;

// True if brackets outside strings are nested too deep for a launch file.
bool too_deep(const std::string& text) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '\\') {
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && (c == '{' || c == '[')) {
      if (++depth > max_launch_depth) return true;
    } else if (!quoted && (c == '}' || c == ']')) {
      --depth;
    }
  }
  return false;
}

std::string word_of_json(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.is_null() ? "null" : value.dump();
}

// The scalars of a list and of lists in it.
void list_words(const json& list, std::vector<std::string>& words) {
  for (const json& one : list) {
    if (words.size() >= max_launch_values) return;
    if (one.is_array())
      list_words(one, words);
    else
      words.push_back(word_of_json(one));
  }
}

// Flattens an object. The place of a value is the first place of its key in the text.
void flatten(const json& node, const std::string& prefix, const std::string& text,
             LaunchValues& values) {
  for (const auto& [key, value] : node.items()) {
    if (values.size() >= max_launch_values) return;
    const std::string path = prefix.empty() ? key : prefix + "." + key;
    if (value.is_object()) {
      flatten(value, path, text, values);
      if (!value.empty()) continue;
    }
    LaunchValue& made = values[path];
    made.at = std::min(text.find('"' + key + '"'), text.size());
    made.is_list = value.is_array();
    if (value.is_array())
      list_words(value, made.words);
    else if (!value.is_object())
      made.words.push_back(word_of_json(value));
  }
}

std::string place_in(const std::string& text, const std::string& path, const LaunchValue& value) {
  const shell::TextPosition at = shell::place(text, value.at);
  return fmt::format("{}:{}:{}", path, at.line, at.column);
}

void read_stage(DeepSpeedConfig& config, const std::string& text, const std::string& path) {
  const LaunchValue* stage = config.find("zero_optimization.stage");
  if (const LaunchValue* whole = config.find("zero_optimization"); whole && !stage)
    config.stage = is_true_word(whole->text()) ? 1 : 0;  // before 2020 a switch
  if (!stage) return;
  const std::string& word = stage->text();
  if (word.size() == 1 && word[0] >= '0' && word[0] <= '3')
    config.stage = word[0] - '0';
  else
    config.problems.push_back({place_in(text, path, *stage),
                               fmt::format("zero_optimization.stage is {}; ZeRO has the stages 0, "
                                           "1, 2 and 3",
                                           word.substr(0, 40))});
}

void read_precision(DeepSpeedConfig& config, const std::string& text, const std::string& path) {
  config.fp16 = config.is_true("fp16.enabled");
  config.bf16 = config.is_true("bf16.enabled") || config.is_true("bfloat16.enabled");
  for (const char* key : {"fp16.enabled", "bf16.enabled"})
    if (const LaunchValue* value = config.find(key); value && value->text() == "auto")
      config.auto_precision = !config.fp16 && !config.bf16;
  if (config.fp16 && config.bf16)
    config.problems.push_back({place_in(text, path, *config.find("bf16.enabled")),
                               "bf16 and fp16 exclude each other: DeepSpeed stops; enable one"});
  const auto is_fp32 = [&](const char* key) {
    const LaunchValue* value = config.find(key);
    constexpr std::array<std::string_view, 4> words = {"fp32", "float32", "torch.float32", "float"};
    return value && std::ranges::count(words, value->text()) > 0;
  };
  config.fp32_gradients =
      is_fp32("communication_data_type") || is_fp32("data_types.grad_accum_dtype");
}

void read_offload(DeepSpeedConfig& config, const std::string& text, const std::string& path) {
  if (config.is_true("zero_optimization.cpu_offload")) config.offloads_optimizer = true;
  const LaunchValue* device = config.find("zero_optimization.offload_optimizer.device");
  if (!device || is_off_word(device->text())) return;
  if (device->text() == "nvme")
    config.problems.push_back({place_in(text, path, *device),
                               "offload_optimizer: states on NVMe are not simulated; write "
                               "\"device\": \"cpu\" or remove it"});
  config.offloads_optimizer = true;
  if (const LaunchValue* ratio = config.find("zero_optimization.offload_optimizer.ratio")) {
    const std::string& word = ratio->text();
    double& share = config.offload_ratio;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), share);
    if (error != std::errc{} || end != word.data() + word.size() || !(share >= 0 && share <= 1))
      config.problems.push_back(
          {place_in(text, path, *ratio),
           fmt::format("offload_optimizer: ratio is '{}'; it is a number from 0 to 1",
                       word.substr(0, 40))});
  }
}

}  // namespace

bool DeepSpeedConfig::is_true(std::string_view path) const {
  const LaunchValue* value = find(path);
  return value && is_true_word(value->text());
}

bool DeepSpeedConfig::is_false(std::string_view path) const {
  const LaunchValue* value = find(path);
  return value && is_off_word(value->text());
}

std::int64_t DeepSpeedConfig::whole(std::string_view path) const {
  const LaunchValue* value = find(path);
  if (!value) return 0;
  const std::string& text = value->text();
  double real = 0;  // DeepSpeed's files write 5e8, too
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), real);
  const bool is_number = error == std::errc{} && end == text.data() + text.size();
  return is_number && real >= 1 && real < 1e15 ? static_cast<std::int64_t>(real) : 0;
}

DeepSpeedConfig read_deepspeed_config(const std::string& text, const std::string& path) {
  DeepSpeedConfig config;
  if (text.size() > max_launch_bytes || too_deep(text)) {
    config.problems.push_back(
        {path, "too large or nested too deep for a configuration of DeepSpeed"});
    return config;
  }
  const json root = json::parse(text, nullptr, false, true);
  if (!root.is_object()) {
    config.is_no_json = true;
    config.problems.push_back({path, "not a JSON object: is it DeepSpeed's configuration?"});
    return config;
  }
  flatten(root, "", text, config.values);
  read_stage(config, text, path);
  read_precision(config, text, path);
  read_offload(config, text, path);
  return config;
}

}  // namespace sim::input
