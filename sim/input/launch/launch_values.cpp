#include "sim/input/launch/launch_values.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>

#include "sim/base/ascii.h"
#include "sim/input/launch/launch.h"

namespace sim::input {
namespace {

// The scalars of a list and of lists in it: [[["flash"], 12]] has "flash" and "12".
void gather_list(const YAML::Node& list, int depth, std::vector<std::string>& words) {
  if (depth > max_launch_depth) return;
  for (const auto& element : list) {
    if (words.size() >= max_launch_values) return;
    if (element.IsScalar()) words.push_back(element.Scalar());
    if (element.IsSequence()) gather_list(element, depth + 1, words);
  }
}

void gather_yaml(const YAML::Node& node, const std::string& prefix, int depth,
                 LaunchValues& values) {
  if (depth > max_launch_depth || values.size() >= max_launch_values) return;
  if (node.IsMap()) {
    for (const auto& entry : node) {
      const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : std::string();
      if (key.empty()) continue;
      gather_yaml(entry.second, prefix.empty() ? key : prefix + "." + key, depth + 1, values);
      if (values.size() >= max_launch_values) return;
    }
    return;
  }
  LaunchValue value;
  value.at = node.Mark().pos > 0 ? static_cast<std::size_t>(node.Mark().pos) : 0;
  value.is_list = node.IsSequence();
  if (node.IsScalar()) value.words.push_back(node.Scalar());
  if (node.IsSequence()) gather_list(node, depth, value.words);
  values[prefix] = std::move(value);
}

// The end of the reference that starts at `start` ("${"), after its closing brace.
std::size_t end_of_reference(std::string_view text, std::size_t start) {
  int depth = 0;
  for (std::size_t i = start; i < text.size(); ++i) {
    if (text[i] == '{') ++depth;
    if (text[i] == '}' && --depth == 0) return i + 1;
  }
  return std::string_view::npos;
}

std::string trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t'\"");
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(" \t'\"") - first + 1));
}

class Resolver {
 public:
  explicit Resolver(const LaunchValues& values) : values_(values) {}

  // The text with all references that have an answer replaced.
  // `key`: the path of the value, for relative references.
  std::string resolve(std::string_view text, std::string_view key, int depth = 0) const {
    std::string out;
    for (std::size_t i = 0; i < text.size();) {
      const std::size_t start = std::min(text.find("${", i), text.size());
      out += text.substr(i, start - i);
      if (start == text.size()) break;
      const std::size_t end = end_of_reference(text, start);
      if (end == std::string_view::npos) return std::string(text);
      const std::string_view whole = text.substr(start, end - start);
      const std::optional<std::string> found =
          depth < deepest ? answer(whole.substr(2, whole.size() - 3), key, depth) : std::nullopt;
      out += found ? *found : std::string(whole);
      i = end;
    }
    return out;
  }

 private:
  static constexpr int deepest = 8;

  // The answer of "oc.env:TP,4", "oc.decode:X", "oc.select:KEY,X", "TP:4", "multiply:4,2" or "KEY";
  // nothing if only the run can give it.
  std::optional<std::string> answer(std::string_view inner, std::string_view key, int depth) const {
    const std::string body = resolve(inner, key, depth + 1);
    const std::size_t colon = body.find(':');
    const std::string resolver = body.substr(0, colon == std::string::npos ? 0 : colon);
    const std::string rest = colon == std::string::npos ? body : body.substr(colon + 1);
    const std::size_t comma = rest.find(',');
    const bool has_default = comma != std::string::npos;
    if (resolver == "oc.decode") {
      if (rest.find("${") != std::string::npos) return std::nullopt;
      return trimmed(rest);
    }
    if (resolver == "oc.env" || resolver == "env")
      return has_default ? std::optional(trimmed(rest.substr(comma + 1))) : std::nullopt;
    if (is_variable(resolver)) return trimmed(rest);
    if (has_default && !resolver.empty() && resolver != "oc.select")
      return calculated(resolver, trimmed(rest.substr(0, comma)), trimmed(rest.substr(comma + 1)));
    if (!resolver.empty() && resolver != "oc.select") return std::nullopt;
    const std::string path = absolute(trimmed(rest.substr(0, comma)), key);
    auto value = values_.find(path);
    // A file of a group of Hydra names its own keys below the group: ${training.model.seed}.
    if (value == values_.end() && path.find('.') != std::string::npos)
      value = values_.find(path.substr(path.find('.') + 1));
    if (value != values_.end() && !value->second.is_list)
      return resolve(value->second.text(), value->first, depth + 1);
    return has_default ? std::optional(trimmed(rest.substr(comma + 1))) : std::nullopt;
  }

  // An environment variable with its default [AMD-AGI/Primus: ${PRIMUS_SEQ_LENGTH:2048}].
  static bool is_variable(std::string_view name) {
    return name.size() > 1 && std::ranges::all_of(name, [](char c) {
             return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
           });
  }

  // The path that ".b" or "..b" means in the value of `key`: beside it, or one level higher.
  static std::string absolute(const std::string& path, std::string_view key) {
    const std::size_t dots = path.find_first_not_of('.');
    if (dots == 0 || dots == std::string::npos) return path;
    for (std::size_t up = 0; up < dots; ++up)
      key = key.substr(0,
                       key.find_last_of('.') == std::string_view::npos ? 0 : key.find_last_of('.'));
    return key.empty() ? path.substr(dots) : fmt::format("{}.{}", key, path.substr(dots));
  }

  // [NVIDIA/NeMo-Framework-Launcher launcher_scripts/main.py: multiply, divide_ceil, divide_floor]
  static std::optional<std::string> calculated(std::string_view resolver, const std::string& a,
                                               const std::string& b) {
    const auto number = [](const std::string& text) {
      std::int64_t n = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
      const bool is_whole = error == std::errc{} && end == text.data() + text.size();
      return is_whole && n > 0 && n < 1 << 30 ? std::optional(n) : std::nullopt;
    };
    const auto x = number(a), y = number(b);
    if (!x || !y) return std::nullopt;
    if (resolver == "multiply") return std::to_string(*x * *y);
    if (resolver == "divide_ceil") return std::to_string((*x + *y - 1) / *y);
    if (resolver == "divide_floor") return std::to_string(*x / *y);
    return std::nullopt;
  }

  const LaunchValues& values_;
};

}  // namespace

LaunchValues yaml_values(const std::string& text) {
  LaunchValues values;
  gather_yaml(YAML::Load(text), "", 0, values);
  resolve_references(values);
  return values;
}

void resolve_references(LaunchValues& values) {
  const LaunchValues given = values;
  const Resolver resolver(given);
  for (auto& [path, value] : values)
    for (std::string& word : value.words)
      if (word.find("${") != std::string::npos) word = resolver.resolve(word, path);
}

bool is_true_word(std::string_view text) {
  const std::string word = lower(text);
  return word == "true" || word == "yes" || word == "on";
}

bool is_off_word(std::string_view text) {
  const std::string word = lower(text);
  return word.empty() || word == "false" || word == "no" || word == "off" || word == "null" ||
         word == "none" || word == "~";
}

bool is_off_value(std::string_view text) {
  return is_off_word(text) || text == "0" || text == "0.0";
}

std::string reference_of(std::string_view text) {
  const std::size_t start = text.find("${");
  if (start == std::string_view::npos) return "";
  const std::size_t end = end_of_reference(text, start);
  return std::string(text.substr(start, end == std::string_view::npos ? end : end - start));
}

shell::Word word_of(const std::string& text, std::size_t at) {
  shell::Word word{text, at, {}};
  if (const std::string reference = reference_of(text); !reference.empty())
    word.unknowns.push_back(reference);
  return word;
}

bool has_path(const LaunchValues& values, std::string_view path) {
  const auto found = values.lower_bound(path);
  if (found == values.end() || !found->first.starts_with(path)) return false;
  if (found->first.size() == path.size()) return true;
  for (auto it = found; it != values.end() && it->first.starts_with(path); ++it)
    if (it->first[path.size()] == '.') return true;
  return false;
}

}  // namespace sim::input
