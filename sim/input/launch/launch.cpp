#include "sim/input/launch/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>

#include "sim/input/launch/nemo_script.h"

namespace sim::input {
namespace {

// form: a template of Helm or Jinja, with values to fill in.
enum class Format : std::uint8_t { json, toml, yaml, script, python, form, none };

// "[section]" or `key = value`: TOML. A shell writes no blanks around '='.
bool is_toml(std::string_view line) {
  if (line.front() == '[') {
    const std::size_t name = line.find_first_not_of('[');  // a shell's test has a blank there
    return name != std::string_view::npos && line[name] != ' ' &&
           line.find(']') != std::string_view::npos;
  }
  const std::size_t equals = line.find(" = ");
  return equals != std::string_view::npos && line.substr(0, equals).find(' ') == std::string::npos;
}

// "key:" or "key: value", and the marks of a document or of a list: YAML.
bool is_yaml(std::string_view line) {
  if (line.starts_with("---") || line.starts_with("%YAML")) return true;
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  const bool ends = colon + 1 == line.size() || line[colon + 1] == ' ';
  return ends && std::ranges::all_of(line.substr(0, colon), [](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' ||
                  c == '.' || c == '"' || c == '\'';
         });
}

// The format by the first line that is no comment. none: no such line, or nothing recognises it.
Format format_of(std::string_view text) {
  if (text.starts_with("#!") && text.substr(0, text.find('\n')).find("python") == text.npos)
    return Format::script;
  if (is_python(text)) return Format::python;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back())) != 0)
      line.remove_suffix(1);
    const std::size_t first = line.find_first_not_of(" \t");
    if (first == std::string_view::npos || line[first] == '#') continue;
    line.remove_prefix(first);
    if (line.starts_with("{{") || line.starts_with("{%")) return Format::form;
    if (line.front() == '{' || line.starts_with("//")) return Format::json;
    if (is_toml(line)) return Format::toml;
    return is_yaml(line) ? Format::yaml : Format::none;
  }
  return Format::none;
}

// The format by the name of the file, for texts that do not tell.
Format format_of_name(std::string_view path) {
  if (path.ends_with(".yaml") || path.ends_with(".yml")) return Format::yaml;
  if (path.ends_with(".toml")) return Format::toml;
  if (path.ends_with(".py")) return Format::python;
  return path.ends_with(".json") ? Format::json : Format::script;
}

}  // namespace

LaunchFile refused_launch(std::string where, std::string message) {
  LaunchFile file;
  file.arguments.problems.push_back({std::move(where), std::move(message)});
  return file;
}

bool named_as_launch(std::string_view path) {
  constexpr std::array<std::string_view, 5> suffixes{".sh", ".yaml", ".yml", ".toml", ".py"};
  return std::ranges::any_of(suffixes, [&](auto suffix) { return path.ends_with(suffix); });
}

bool is_script(std::string_view text, std::string_view path) {
  Format format = format_of(text);
  if (format == Format::none) format = format_of_name(path);
  return format == Format::script;
}

LaunchFile read_launch(const std::string& text, const std::string& path) {
  Format format = format_of(text);
  if (format == Format::none) format = format_of_name(path);
  if (format == Format::yaml) return read_launch_yaml(text, path);
  if (format == Format::toml) return read_torchtitan(text, path);
  if (format == Format::form)
    return refused_launch(path,
                          "a template of Helm or Jinja; fill it in first (helm template), and give "
                          "the file that it makes");
  if (format == Format::json) return read_deepspeed(text, path);
  if (format == Format::python) return read_nemo_script(text, path);
  return {read_megatron(text, path)};
}

bool is_launch_text(std::string_view text) {
  const Format format = format_of(text);
  return format == Format::script || format == Format::yaml || format == Format::toml ||
         format == Format::python;
}

}  // namespace sim::input
