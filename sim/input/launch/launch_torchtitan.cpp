// launch_torchtitan.cpp — reads the TOML configuration of torchtitan.
#include <fmt/format.h>

#include <array>
#include <boost/property_tree/ini_parser.hpp>
#include <charconv>
#include <cstdint>
#include <map>
#include <sstream>

#include "sim/base/ascii.h"
#include "sim/input/launch/launch.h"
#include "sim/input/launch/launch_files.h"
#include "sim/input/models/huggingface.h"
#include "sim/input/text/locate.h"
#include "sim/job/schedule/schedule.h"

namespace sim::input {
namespace {

// Keys of torchtitan and their settings. A setting that ends in '=' takes the key's value.
struct TitanKey {
  std::string_view key, setting;
};
constexpr std::array titan_keys{
    TitanKey{"parallelism.tensor_parallel_degree", "tp="},
    TitanKey{"training.tensor_parallel_degree", "tp="},
    TitanKey{"parallelism.pipeline_parallel_degree", "pp="},
    TitanKey{"experimental.pipeline_parallel_degree", "pp="},
    TitanKey{"parallelism.context_parallel_degree", "cp="},
    TitanKey{"experimental.context_parallel_degree", "cp="},
    TitanKey{"parallelism.data_parallel_replicate_degree", "fsdp.replicas="},
    TitanKey{"training.data_parallel_replicate_degree", "fsdp.replicas="},
    TitanKey{"training.local_batch_size", "micro_batch="},
    TitanKey{"training.batch_size", "micro_batch="},
    TitanKey{"training.global_batch_size", "global_batch="},
    TitanKey{"training.seq_len", "sequence="},
};
// Keys that change the cost and are not simulated.
constexpr std::array<std::string_view, 3> titan_left = {"parallelism.expert_parallel_degree",
                                                        "training.enable_cpu_offload",
                                                        "parallelism.module_fqns_per_model_part"};

// A TOML value without comment and quotes.
std::string plain_value(std::string value) {
  if (!value.empty() && (value[0] == '"' || value[0] == '\'')) {
    const std::size_t close = value.find(value[0], 1);
    return value.substr(1, close == std::string::npos ? close : close - 1);
  }
  value.erase(std::min(value.find('#'), value.size()));
  while (!value.empty() && (value.back() == ' ' || value.back() == '\t')) value.pop_back();
  return value;
}

// The file of models/ for a name and size such as "llama3" and "8B".
std::string titan_model(const std::string& name, const std::string& flavor) {
  const std::string size = lower(flavor);
  if (name == "llama3")
    return size == "405b"  ? "llama-3.1-405b"
           : size == "70b" ? "llama-3.1-70b"
                           : "llama-3.1-" + size;
  if (name == "llama2") return "llama-2-" + size;
  return name + "-" + size;
}

// The values of the file by "section.key", with their places "FILE:LINE".
struct TitanValues {
  std::map<std::string, std::string, std::less<>> texts;
  std::map<std::string, std::string, std::less<>> places;
  std::map<std::string, std::size_t, std::less<>> offsets;
  std::string path;

  std::string of(std::string_view key) const {
    const auto found = texts.find(key);
    return found == texts.end() ? std::string() : found->second;
  }
  std::string place(std::string_view key) const {
    const auto found = places.find(key);
    return found == places.end() ? path : found->second;
  }
};

// The INI reader records no places, so the lines of the file are scanned again.
void find_places(const std::string& text, TitanValues& values) {
  std::istringstream in(text);
  std::string section;
  std::string line;
  std::size_t offset = 0, next = 0;
  for (int number = 1; std::getline(in, line); ++number) {
    offset = next;
    next += line.size() + 1;
    const std::size_t begin = line.find_first_not_of(" \t");
    if (begin == std::string::npos) continue;
    const std::size_t end = line.find_first_of(line[begin] == '[' ? "]" : " \t=", begin);
    if (end == std::string::npos) continue;
    if (line[begin] == '[')
      section = line.substr(begin + 1, end - begin - 1);
    else if (const std::string key = section + "." + line.substr(begin, end - begin);
             values.texts.count(key) > 0) {
      values.places.try_emplace(key, fmt::format("{}:{}:{}", values.path, number, begin + 1));
      values.offsets.try_emplace(key, offset + begin);
    }
  }
}

// Keys that do more than one row of titan_keys says: workloads/launchers/torchtitan.textproto.
void titan_rows(const TitanValues& values, const std::string& text, MegatronArguments& out) {
  LaunchValues all;
  for (const auto& [key, value] : values.texts) {
    const auto at = values.offsets.find(key);
    const bool is_list = value.starts_with('[');
    all[key] = {{value == "[]" ? std::string() : value},
                at == values.offsets.end() ? 0 : at->second,
                is_list && value != "[]"};
  }
  const auto rows = read_rows("torchtitan", all, text, values.path);
  if (!rows) return;
  out.settings.insert(out.settings.end(), rows->settings.begin(), rows->settings.end());
  out.notes.insert(out.notes.end(), rows->notes.begin(), rows->notes.end());
  out.problems.insert(out.problems.end(), rows->problems.begin(), rows->problems.end());
}

// The number of layers of the model; 0 if models/ has no file for it.
std::int64_t titan_layers(const TitanValues& values) {
  const std::string name = titan_model(values.of("model.name"), values.of("model.flavor"));
  const Result<std::string> path = locate(Kind::model, name, "");
  if (!path) return 0;
  const auto network = load_huggingface(*path);
  return network ? network->layers : 0;
}

// Selective by default, of every second layer [torchtitan v0.1.0 to v0.2.2 job_config.py:
// ActivationCheckpoint].
void titan_recompute(const TitanValues& values, MegatronArguments& out) {
  const std::string given = values.of("activation_checkpoint.mode");
  const std::string mode = given.empty() ? "selective" : given;
  const std::string place = values.place("activation_checkpoint.mode");
  const std::string stated = values.of("activation_checkpoint.selective_ac_option");
  const std::string option = stated.empty() ? "2" : stated;
  if (mode != "selective" || option == "op") {
    out.settings.push_back({"recompute=" + mode, place});
    if (mode == "selective") out.settings.push_back({"recompute_modules=operators", place});
    return;
  }
  int step = 0;
  std::from_chars(option.data(), option.data() + option.size(), step);
  const std::int64_t layers = titan_layers(values);
  const bool is_pipeline = values.of("parallelism.pipeline_parallel_degree") > "1";
  if (step < 1 || layers == 0 || is_pipeline) {
    out.missing.push_back(
        {"recompute",
         {place,
          fmt::format("every layer of number {} is recomputed (selective_ac_option), of a "
                      "pipeline or of a model that models/ does not have; write recompute= or "
                      "layer_choices=",
                      option.substr(0, 20))}});
    return;
  }
  std::string choices;
  for (std::int64_t layer = 1; layer <= layers; ++layer)
    choices += fmt::format("{}{}", layer > 1 ? "," : "", layer % step == 0 ? "recompute" : "keep");
  out.settings.push_back({"recompute=none", place});
  out.settings.push_back({"layer_choices=" + choices, place});
}

constexpr std::string_view embedding_key = "parallelism.pipeline_parallel_first_stage_less_layers";
constexpr std::string_view head_key = "parallelism.pipeline_parallel_last_stage_less_layers";

// torchtitan counts the embedding and the head as some layers when it deals out layers to stages.
void titan_split(const TitanValues& values, MegatronArguments& out) {
  if (values.of(embedding_key) == "0" && values.of(head_key) == "0") {
    out.settings.push_back({"layer_split=even", values.place(embedding_key)});
    return;
  }
  for (const auto& [key, setting] :
       {std::pair(embedding_key, "embedding_layers="), std::pair(head_key, "head_layers=")})
    if (const std::string value = values.of(key); !value.empty())
      out.settings.push_back({setting + value, values.place(key)});
}

// The chunks of a stage follow from its layers [torchtitan/distributed/pipeline_parallel.py].
void titan_chunks(const TitanValues& values, MegatronArguments& out) {
  const std::string key = "parallelism.pipeline_parallel_layers_per_stage";
  const auto number = [&](std::string_view of, int otherwise) {
    const std::string text = values.of(of);
    std::from_chars(text.data(), text.data() + text.size(), otherwise);
    return otherwise;
  };
  const int of_stage = number(key, 0), pp = number("parallelism.pipeline_parallel_degree", 1);
  if (values.of(key).empty() || pp <= 1) return;
  const std::int64_t layers = titan_layers(values);
  const std::int64_t counted = layers + number(embedding_key, 1) + number(head_key, 1);
  const std::int64_t stages = of_stage < 1 ? 0 : (counted + of_stage - 1) / of_stage;
  if (layers == 0 || stages < pp || stages % pp != 0)
    out.missing.push_back(
        {"virtual_stages",
         {values.place(key), fmt::format("{} layers a stage give no whole number of chunks for "
                                         "each of {} ranks, or models/ does not have the model; "
                                         "write virtual_stages=",
                                         values.of(key).substr(0, 20), pp)}});
  else
    out.settings.push_back({fmt::format("virtual_stages={}", stages / pp), values.place(key)});
}

// fp8 is a converter since 2025 and was a switch before. Its options later moved to their own
// section.
void titan_fp8(const TitanValues& values, MegatronArguments& out) {
  const bool converted = values.of("model.converters").find("float8") != std::string::npos;
  std::string key = converted ? "model.converters" : "";
  for (const char* enable : {"float8.enable_float8_linear", "float8.enable_fsdp_float8_all_gather"})
    if (key.empty() && values.of(enable) == "true") key = enable;
  if (key.empty()) return;
  out.settings.push_back({"fp8=true", values.place(key)});
  out.settings.push_back({"fp8_recipe=tensorwise", values.place(key)});
  for (const char* recipe : {"float8.recipe_name", "quantize.linear.float8.recipe_name"})
    if (values.of(recipe).starts_with("rowwise"))
      // [torchtitan benchmarks/asyncTP_llama3_h100_2025-06_torchtitan.md: 1.35 to 1.55 times]
      out.notes.push_back(fmt::format(
          "{}: a scale a row is simulated as one a tensor; measured steps with a scale a "
          "row took up to 1.5 times as long",
          recipe));
}

void titan_pipeline_and_context(const TitanValues& values, MegatronArguments& out) {
  if (const std::string key = "parallelism.pipeline_parallel_schedule", given = values.of(key);
      !given.empty() && values.of("parallelism.pipeline_parallel_degree") > "1") {
    const schedule::Schedule* found = schedule::find_torch(given);
    out.settings.push_back(
        {"schedule=" + (found != nullptr ? std::string(found->name) : given), values.place(key)});
  }
  // [torch/distributed/tensor/experimental/_attention.py: gathered at once, or in turns]
  for (const std::string section : {"parallelism", "experimental"})
    if (const std::string key = section + ".context_parallel_rotate_method";
        !values.of(key).empty())
      out.settings.push_back({"context=torch-" + values.of(key), values.place(key)});
}

// Settings of torch.compile, and of keys that depend on it. Returns the key that needs the compiler
// but does not have it, or "".
std::string titan_compile(const TitanValues& values, MegatronArguments& out) {
  const auto set = [&](std::string_view key, std::string setting) {
    out.settings.push_back({std::move(setting), values.place(key)});
  };
  const bool compiled =
      values.of("compile.enable") == "true" || values.of("training.compile") == "true";
  if (compiled) set("compile.enable", "layer_kernels=compiled");
  // A compiler removes unused results, whatever this key says.
  if (const std::string key = "activation_checkpoint.early_stop";
      !compiled && !values.of(key).empty())
    set(key, "checkpoint_early_stop=" + values.of(key));
  for (const std::string section : {"parallelism", "experimental"}) {
    const std::string key = section + ".enable_async_tensor_parallel";
    if (values.of(key) != "true") continue;
    // The compiler splits matmuls to overlap them with their gathers and scatters
    // [torchtitan/distributed/tensor_parallel.py:maybe_enable_async_tp].
    if (!compiled) return key;
    set(key, "tp_comm_overlap=true");
  }
  return "";
}

// The values of all keys. Boost throws ini_parser_error if the text is no configuration.
TitanValues titan_values(const std::string& text, const std::string& path) {
  boost::property_tree::ptree tree;
  std::istringstream in(text);
  boost::property_tree::ini_parser::read_ini(in, tree);
  TitanValues values;
  values.path = path;
  for (const auto& [section, keys] : tree)
    for (const auto& [key, value] : keys)
      if (values.texts.size() < max_launch_values)
        values.texts[section + "." + key] = plain_value(value.data());
  find_places(text, values);
  return values;
}

}  // namespace

// Reads torchtitan's configuration format before 2026 (torchtitan/config_manager.py). Its files are
// a subset of TOML, which the INI reader of Boost.PropertyTree reads. The TOML libraries of Debian
// 12 crash on damaged input (marzer/tomlplusplus#294).
LaunchFile read_torchtitan(const std::string& text, const std::string& path) {
  if (text.size() > max_launch_bytes) return refused_launch(path, "too large for a configuration");
  TitanValues values;
  try {
    values = titan_values(text, path);
  } catch (const boost::property_tree::ini_parser_error& error) {
    return refused_launch(fmt::format("{}:{}", path, error.line()),
                          fmt::format("not a configuration of torchtitan: {}", error.message()));
  }
  LaunchFile file;
  file.arguments.framework = "torchtitan";
  MegatronArguments& out = file.arguments;
  const auto of = [&](std::string_view key) { return values.of(key); };
  const auto set = [&](std::string_view key, std::string setting) {
    out.settings.push_back({std::move(setting), values.place(key)});
  };
  for (const auto& [key, setting] : titan_keys)
    if (values.texts.contains(key) && of(key) != "-1") set(key, std::string(setting) + of(key));
  set("", "data_parallel=fsdp2");
  if (!of("model.name").empty() && !of("model.flavor").empty())
    set("model.name", "model=" + titan_model(of("model.name"), of("model.flavor")));
  titan_pipeline_and_context(values, out);
  titan_split(values, out);
  titan_chunks(values, out);
  if (const std::string key = titan_compile(values, out); !key.empty())
    return refused_launch(values.place(key),
                          key + " needs torch.compile: set enable = true in [compile]");
  // "always" or "never"; "default" is the plan's own default.
  if (const std::string key = "parallelism.fsdp_reshard_after_forward", way = of(key);
      way == "always" || way == "never")
    set(key,
        way == "always" ? "fsdp.reshard_after_forward=true" : "fsdp.reshard_after_forward=false");
  if (out.settings.size() > 1) titan_rows(values, text, out);
  titan_fp8(values, out);
  titan_recompute(values, out);
  for (const std::string_view key : titan_left)
    if (const std::string value = of(key); !value.empty() && value != "false" && value != "1")
      out.notes.push_back(fmt::format("{} is not simulated", key));
  if (out.settings.size() == 1 && out.notes.empty())
    return refused_launch(path,
                          "not a configuration of torchtitan: nothing of its sections [model], "
                          "[training] and [parallelism] is in it");
  return file;
}

}  // namespace sim::input
