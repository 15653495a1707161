#include "sim/command/common/plan_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "sim/input/fields/plan_fields.h"
#include "sim/input/plan/search.h"
#include "sim/input/text/locate.h"

namespace sim::command {

namespace {

// characters of a setting, which may list thousands of values
constexpr std::size_t most_shown = 80;

// The field of a setting, also under a synonym.
std::string field_of(const std::string& setting) {
  const std::string key = setting.substr(0, setting.find('='));
  const input::FieldName name = input::plan_field(key);
  return name.problem.empty() ? name.field : key;
}

// A question in the words of a plan: "model=llama-3.1-8b cluster=dgx-h100 gpus=16 ...".
PlanWords from_settings(const Options& options, const Arguments& arguments) {
  const std::array<std::pair<const char*, const char*>, 3> named = {
      std::pair{"gpus", "gpus"}, std::pair{"global_batch", "batch"},
      std::pair{"sequence", "sequence"}};
  std::string model, cluster;
  PlanWords words;
  for (const std::string& one : arguments) {
    const std::string field = one.starts_with("-") ? "" : field_of(one);
    const std::string value = one.substr(std::min(one.find('=') + 1, one.size()));
    const auto option = std::ranges::find(named, field, [](const auto& n) { return n.first; });
    if (field == "model")
      model = value;
    else if (field == "cluster")
      cluster = value;
    else if (option != named.end() && !options.has(option->second))
      words.arguments.push_back(fmt::format("--{}={}", option->second, value));
    else
      words.arguments.push_back(one);
  }
  if (model.empty() || cluster.empty()) return {arguments, {}};
  words.arguments.insert(words.arguments.begin(), {model, cluster});
  return words;
}

}  // namespace

PlanWords spelled_out(const Options& options, const Arguments& arguments) {
  std::vector<std::string> names, said;
  for (const std::string& word : options.words())
    (word.find('=') == std::string::npos ? names : said).push_back(word);
  if (names.empty() && !options.has("megatron-args")) return from_settings(options, arguments);
  if (names.size() != 1 || options.has("megatron-args")) return {arguments, {}};
  const bool is_model = options.has("cluster") && !input::locate(input::Kind::workload, names[0]);
  if (is_model || input::is_plan_file(workload_path(names[0]))) return {arguments, {}};
  const input::SearchFile file = need(input::load_search(workload_path(names[0])));
  PlanWords words;
  words.arguments = {file.model, file.cluster};
  for (const auto& [name, value] : file.options)
    if (!options.has(name)) words.arguments.push_back("--" + name + "=" + value);
  for (const input::SearchFile::Setting& setting : file.settings) {
    const auto same = [&](const std::string& one) {
      return field_of(one) == field_of(setting.text);
    };
    if (std::ranges::any_of(said, same)) continue;
    words.arguments.push_back(setting.text);
    words.places[setting.text] = setting.where;
  }
  // A setting without a value would be read as a name.
  Diagnostics problems;
  for (const input::SearchFile::Setting& setting : file.settings)
    if (setting.text.find('=') == std::string::npos)
      problems.push_back({setting.where, "'" + setting.text + "' is no setting; write \"tp=4\""});
  if (!problems.empty()) throw Stop{complain(problems), ""};
  bool left_out = false;
  for (const std::string& one : arguments) {
    const bool is_file = !left_out && one == names[0];
    if (!is_file) words.arguments.push_back(one);
    left_out = left_out || is_file;
  }
  return words;
}

Diagnostics placed(Diagnostics problems, const std::map<std::string, std::string>& places) {
  constexpr std::string_view here = "command line, ";
  for (Diagnostic& problem : problems) {
    if (!problem.where.starts_with(here)) continue;
    const std::string about = problem.where.substr(here.size());
    for (const auto& [setting, place] : places)
      if (setting == about || field_of(setting) == field_of(about)) {
        // Names the wrong value if the setting has several.
        const std::string& named = about.find('=') == about.npos ? setting : about;
        problem.message = "'" + named.substr(0, most_shown) +
                          (named.size() > most_shown ? "...': " : "': ") + problem.message;
        problem.where = place;
        break;
      }
  }
  return problems;
}

}  // namespace sim::command
