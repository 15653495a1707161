#include "sim/command/serve/dropped_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "sim/base/ascii.h"
#include "sim/calibrate/readers/reader.h"
#include "sim/command/common/command.h"
#include "sim/command/common/session.h"
#include "sim/command/common/watch.h"
#include "sim/command/compare.h"
#include "sim/command/memory.h"
#include "sim/input/fields/fields.h"
#include "sim/input/frameworks/framework.h"
#include "sim/input/launch/launch.h"
#include "sim/input/models/huggingface.h"
#include "sim/input/text/locate.h"
#include "sim/input/text/textproto.h"
#include "sim/output/output.h"
#include "sim/program/plan/plan.h"

namespace sim::command::web {

namespace {

namespace fs = std::filesystem;
using output::Json;

// A file in the scratch folder, removed at the end.
class Scratch {
 public:
  Scratch(const std::string& folder, const std::string& name, const std::string& text)
      : path_(folder + "/" + name) {
    save(path_, text);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    std::error_code ignored;  // the folder is removed with the server
    fs::remove(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// The name of an installed model with this architecture; "" if there is none.
std::string installed_model(const model::Architecture& architecture) {
  program::Plan plan;
  plan.architecture = architecture;
  const Json wanted = output::to_json(plan)["architecture"];
  for (const std::string& name : input::names(input::Kind::model)) {
    if (name != architecture.name) continue;
    const Result<std::string> path = input::locate(input::Kind::model, name);
    if (!path) continue;
    const Result<model::Architecture> found = input::load_huggingface(*path);
    if (!found) continue;
    plan.architecture = *found;
    if (output::to_json(plan)["architecture"] == wanted) return name;
  }
  return "";
}

// "key=value" of each field of the group whose text differs from that of `usual`.
std::vector<std::string> differences(const program::Plan& plan, const program::Plan& usual,
                                     bool of_architecture) {
  std::vector<std::string> settings;
  for (const input::Field& field : input::plan_fields()) {
    if (!field.place || field.name.starts_with("architecture.") != of_architecture) continue;
    const std::string value = input::text_of(field.place.get(plan));
    if (value != input::text_of(field.place.get(usual)) && !value.empty())
      settings.push_back(fmt::format("{}={}", field.name, value));
  }
  return settings;
}

std::vector<std::string> model_settings(const model::Architecture& architecture) {
  const std::string known = installed_model(architecture);
  if (!known.empty()) return {"model=" + known};
  program::Plan plan, usual;
  plan.architecture = architecture;
  usual.architecture = {};
  return differences(plan, usual, true);
}

int read_model(const std::string& path, const std::string& name) {
  const model::Architecture architecture = need(input::load_huggingface(path));
  std::vector<std::string> settings = model_settings(architecture);
  print(output::line(
      {{"kind", "model"}, {"name", name}, {"settings", settings}, {"notes", Json::array()}}));
  return exit_yes;
}

// The settings that a plan of its own keeps from the page: its cluster.
std::vector<std::string> of_cluster(const std::vector<std::string>& words) {
  std::vector<std::string> kept;
  for (const std::string& word : words)
    if (word.starts_with("cluster=")) kept.push_back(word);
  return kept;
}

int read_log(const std::string& path, const std::string& name,
             const std::vector<std::string>& words) {
  const calibrate::Source source = need(calibrate::read_source(path));
  const input::PlanFile plan = need(input::load_plan("", words));
  output::Document document =
      compared(name, source, checked(plan, kept_sites()), plan.framework).document;
  document.title = name + " against this plan";
  print(output::line({{"kind", "log"}, {"name", name}, {"document", output::to_json(document)}}));
  return exit_yes;
}

int read_plan(const input::PlanFile& file, const char* kind, const std::string& name) {
  print(output::line(
      {{"kind", kind}, {"name", name}, {"settings", settings_of(file)}, {"notes", file.notes}}));
  return exit_yes;
}

}  // namespace

std::vector<std::string> settings_of(const input::PlanFile& file) {
  const program::Plan& plan = *file.plan;
  std::vector<std::string> settings = model_settings(plan.architecture);
  settings.push_back("cluster=" + file.machine.cluster.name);
  settings.push_back(fmt::format("gpus={}", plan.world()));
  const Result<std::vector<input::Framework>>& known = input::frameworks();
  // Of the frameworks of one family, the one with the family's name: Megatron-LM, not a fork of it.
  if (known && !file.framework.empty()) {
    const auto same = [&](const input::Framework& one) {
      return one.family == file.framework && one.name == lower(file.framework);
    };
    const auto found = std::ranges::find_if(*known, same);
    if (found != known->end()) settings.push_back("framework=" + found->name);
  }
  std::vector<std::string> needed = settings;
  needed.push_back(fmt::format("global_batch={}", plan.batch.global_batch));
  needed.push_back(fmt::format("sequence={}", plan.batch.sequence));
  // Against the same job with nothing else said: what the framework sets needs no words.
  program::Plan usual;
  if (const Result<input::PlanFile> bare = input::load_plan("", needed)) usual = *bare->plan;
  usual.batch.global_batch = 0;
  usual.batch.sequence = 0;
  for (std::string& setting : differences(plan, usual, false))
    if (!setting.starts_with("dp=")) settings.push_back(std::move(setting));
  return settings;
}

int read_snapshot(const Json& request) {
  const std::string name = fs::path(request.value("name", "")).filename().string();
  const std::string bytes =
      need(input::read_file(request.at("file").get<std::string>(), std::int64_t{1} << 30));
  const output::Document document = snapshot_page(bytes, name.empty() ? "snapshot" : name);
  print(output::line(
      {{"kind", "snapshot"}, {"name", name}, {"document", output::to_json(document)}}));
  return exit_yes;
}

int read_dropped(const Json& request, const std::string& scratch) {
  const std::string name = fs::path(request.value("name", "")).filename().string();
  const std::string text = request.value("text", "");
  std::vector<std::string> words;
  for (const Json& setting : request.value("settings", Json::array()))
    words.push_back(setting.get<std::string>());
  const std::string suffix = fs::path(name).extension().string();
  const bool plain = suffix.size() <= 10 && std::ranges::all_of(suffix, [](char c) {
                       return c == '.' || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
                     });
  const Scratch file(scratch, "dropped" + (plain ? suffix : std::string()), text);
  if (suffix == ".textproto")
    return read_plan(need(input::load_plan(file.path(), of_cluster(words))), "plan", name);
  if (calibrate::is_measured(text, file.path())) return read_log(file.path(), name, words);
  words = of_cluster(words);
  const Json json = suffix == ".json" ? Json::parse(text, nullptr, false) : Json();
  if (json.is_object() && (json.contains("hidden_size") || json.contains("n_embd") ||
                           json.contains("architectures") || json.contains("model_type")))
    return read_model(file.path(), name);
  return read_plan(need(input::read_megatron(text, file.path(), words)), "launch", name);
}

}  // namespace sim::command::web
