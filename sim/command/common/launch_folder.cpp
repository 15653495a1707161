#include "sim/command/common/launch_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "sim/command/common/command.h"
#include "sim/input/text/textproto.h"
#include "sim/output/json.h"
#include "sim/output/output.h"

namespace sim::command {

LaunchFiles listed_launches(const std::string& folder) {
  LaunchFiles files;
  const Result<std::string> text = input::read_file(folder + "/plan.json");
  const output::Json json = output::Json::parse(text ? *text : "", nullptr, false);
  const output::Json::json_pointer listed("/result/launch");
  if (!json.contains(listed) || !json[listed].is_array()) return files;
  for (const output::Json& one : json[listed])
    if (one.is_object() && one.value("file", output::Json()).is_string() &&
        one.value("text", output::Json()).is_string())
      files[one["file"].get<std::string>()] = one["text"].get<std::string>();
  return files;
}

std::vector<std::string> write_launches(const std::string& folder,
                                        const std::vector<planner::LaunchText>& launches,
                                        const LaunchFiles& earlier, bool overwrite) {
  std::error_code error;
  const auto is_kept = [&](const std::string& name, const std::string& text) {
    const std::string path = folder + "/" + name;
    if (!std::filesystem::exists(path, error)) return false;
    const Result<std::string> there = input::read_file(path);
    const auto listed = earlier.find(name);
    const bool ours = there && listed != earlier.end() && *there == listed->second;
    return !ours && !(there && *there == text) && !overwrite;
  };
  std::vector<std::string> written;
  for (const planner::LaunchText& one : launches) {
    const std::string path = folder + "/" + one.file;
    if (one.text.empty()) continue;
    if (is_kept(one.file, one.text)) {
      note(fmt::format("{} is not of an earlier plan, so it stays; --overwrite writes over it",
                       path));
      continue;
    }
    if (std::string problem = output::write_file(path, one.text); !problem.empty())
      throw Stop{exit_io, problem};
    written.push_back(one.file);
  }
  for (const auto& [name, text] : earlier) {
    const bool again = std::ranges::any_of(launches, [&](const planner::LaunchText& one) {
      return one.file == name && !one.text.empty();
    });
    const bool plain = name.find('/') == std::string::npos && !text.empty();
    if (again || !plain) continue;
    const Result<std::string> there = input::read_file(folder + "/" + name);
    if (there && *there == text) std::filesystem::remove(folder + "/" + name, error);
  }
  return written;
}

}  // namespace sim::command
