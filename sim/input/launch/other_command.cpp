// other_command.cpp — reads a command of a script that starts a program of workloads/launchers: the
// Trainer of transformers, LLaMA-Factory, ms-swift. Its flags are the keys of that program.
#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>

#include "sim/input/launch/deepspeed_config.h"
#include "sim/input/launch/launch_files.h"
#include "sim/input/launch/megatron_translator.h"

namespace sim::input {
namespace {

LaunchValues values_of(const Flags& flags) {
  LaunchValues values;
  for (const auto& [name, given] : flags) {
    std::string key = name;
    std::replace(key.begin(), key.end(), '-', '_');
    LaunchValue& value = values[key];
    value.at = given.flag.at;
    for (const shell::Word& word : given.values) {
      value.words.push_back(word.text);
      value.is_unknown = value.is_unknown || !word.unknowns.empty();
    }
    value.is_list = value.words.size() > 1;
    if (value.words.empty()) value.words.emplace_back("true");  // a switch
  }
  return values;
}

}  // namespace

// Reads the flags, then the launcher's GPUs and the environment.
void Translator::rows() {
  if (!out_.problems.empty()) return;
  if (!launch_.file.text.empty()) merge_file(launch_.file);
  const LaunchValues values = values_of(launch_.flags);
  if (launch_.file.text.empty())
    if (auto read = read_rows(launch_.by, values, text_, path_)) {
      read->notes.insert(read->notes.begin(), out_.notes.begin(), out_.notes.end());
      out_ = std::move(*read);
    }
  // The file of `accelerate launch --config_file` says how parameters are sharded.
  if (const Given* config = find(launch_.launcher, "config-file"); config)
    if (!config->values.empty()) {
      std::erase_if(out_.settings, [](const Setting& one) {
        return one.text == "data_parallel=ddp" || one.text == "distributed_optimizer=false";
      });
      merge_file(config->values.front());
    }
  world();
  environment();
}

// Adds what a YAML says that the command names.
void Translator::merge_file(const shell::Word& file) {
  const auto found = file.unknowns.empty() ? above(path_, file.text) : std::nullopt;
  if (!found) {
    const bool is_whole = launch_.file.text == file.text;
    const std::string why =
        fmt::format("{} is not found from the folder of the script", file.text.substr(0, 80));
    if (is_whole)
      refuse(file, fmt::format("{}, and it holds the arguments; give that file", why));
    else
      miss("zero", file,
           fmt::format("{}, and it says how parameters are sharded; write zero= with a stage, or "
                       "data_parallel=",
                       why));
    return;
  }
  MegatronArguments said = read_launch_yaml(found->text, found->path).arguments;
  std::ranges::move(said.settings, std::back_inserter(out_.settings));
  std::ranges::move(said.notes, std::back_inserter(out_.notes));
  std::ranges::move(said.problems, std::back_inserter(out_.problems));
  for (Missing& missing : said.missing)
    if (std::ranges::none_of(out_.settings, [&](const Setting& one) {
          return one.text.starts_with(missing.setting + "=");
        }))
      out_.missing.push_back(std::move(missing));
  if (said.accumulation > 0) out_.accumulation = said.accumulation;
  if (said.least_batch > 0) out_.least_batch = said.least_batch;
  if (!said.framework.empty()) out_.framework = said.framework;
}

}  // namespace sim::input
