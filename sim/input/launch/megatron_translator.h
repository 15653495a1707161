// megatron_translator.h — translates the flags of one launch into settings, notes and problems.
//
// read_megatron and the YAML reader create one Translator for each launch and call run() once. Its
// parts are in megatron.cpp, megatron_program.cpp, megatron_model.cpp, megatron_policy.cpp,
// megatron_world.cpp and other_command.cpp.
// Settings keep the place of their flag, for later diagnostics.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/input/launch/megatron.h"

namespace sim::input {

struct DeepSpeedConfig;

class Translator {
 public:
  Translator(const Launch& launch, const shell::Script& script, const std::string& text,
             const std::string& path)
      : launch_(launch), script_(script), text_(text), path_(path) {}

  MegatronArguments run();

  const Given* find(std::string_view name) const { return find(launch_.flags, name); }
  static const Given* find(const Flags& flags, std::string_view name);
  // The first given flag among several names.
  const Given* find(std::initializer_list<std::string_view> names) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  std::string value(std::string_view name) const;
  std::optional<std::int64_t> number(const Given* given) const;

  std::string where(const shell::Word& word) const;
  void set(const Given& given, std::string setting);
  // Sets `field` to the flag's first value. If the value is unknown, `field` becomes missing.
  void set_value(const Given& given, std::string_view field);
  void miss(std::string_view field, const shell::Word& word, std::string message);
  void note(const Given& given, std::string_view instead);
  void say(std::string text) { out_.notes.push_back(std::move(text)); }
  void refuse(const shell::Word& word, std::string message);

  // True for a script that is older than TransformerEngine. Its attention is unfused unless a flag
  // asks for flash attention.
  bool legacy() const;
  const shell::Script& script() const { return script_; }
  const Launch& launch() const { return launch_; }

 private:
  void program();
  void other_program();
  void lost_words();
  void sourced_files();
  void rows();
  bool is_unknown_program();
  void merge_file(const shell::Word& file);
  void flag(const std::string& name, const Given& given);
  // The reason why the program ignores a flag: a flag that it depends on is not given. "" if it
  // uses it.
  std::string needed(std::string_view name, std::string_view setting) const;
  bool has_experts() const;
  bool has_module(std::string_view name) const;  // is it a module of this model?
  void gather_notes();
  void world();
  void tensor_grid();
  void recomputation();
  void offloaded_modules();
  void cuda_graphs();
  void schedule_of_fork();
  void replicas();
  void cross_entropy();
  void attention();
  void attention_kernel();
  void context();
  void windows();
  void numerics();
  void experts();
  void sharding();
  void deepspeed();
  std::optional<std::string> deepspeed_file();
  void zero_stage(const Given& by, int stage, const DeepSpeedConfig& config);
  void deepspeed_experts();
  void environment();
  void network_environment();
  void loading();

  const Launch& launch_;
  const shell::Script& script_;
  const std::string& text_;
  const std::string& path_;
  MegatronArguments out_;
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons_;  // flags by reason
};

// Translates the flags that describe the network (megatron_model.cpp).
void describe_model(Translator& translator);

}  // namespace sim::input
