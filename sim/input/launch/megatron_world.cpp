// megatron_world.cpp — translates the launcher, the environment and DeepSpeed's configuration file.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>

#include "sim/input/launch/deepspeed_config.h"
#include "sim/input/launch/launch.h"
#include "sim/input/launch/megatron_translator.h"
#include "sim/input/models/huggingface_json.h"
#include "sim/input/text/textproto.h"

namespace sim::input {
namespace {

// The number of GPUs in "gpu:8", "gpu:a100:4" or "8(S:0-1)".
std::optional<std::int64_t> gpus_of(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  const std::string_view digits = text.substr(colon == std::string_view::npos ? 0 : colon + 1);
  std::int64_t n = 0;
  std::size_t i = 0;
  for (; i < digits.size() && digits[i] >= '0' && digits[i] <= '9' && n < 1 << 20; ++i)
    n = n * 10 + (digits[i] - '0');
  return i > 0 && n > 0 ? std::optional(n) : std::nullopt;
}

struct Started {
  const Given* nodes = nullptr;
  const Given* per_node = nullptr;
  const Given* ranks = nullptr;
};

Started started(const Flags& launcher) {
  const auto first = [&](std::initializer_list<std::string_view> names) -> const Given* {
    for (const std::string_view name : names)
      if (const Given* given = Translator::find(launcher, name); given && !given->values.empty())
        return given;
    return nullptr;
  };
  return {first({"nnodes", "num-nodes", "nodes", "sbatch-nodes"}),
          first({"nproc-per-node", "num-gpus", "npernode", "gpus-per-node", "ntasks-per-node",
                 "sbatch-gpus-per-node", "sbatch-ntasks-per-node"}),
          first({"ranks", "num-processes"})};
}

// Number of GPUs in "localhost:0,1,2,3" or "0,1,2,3"; 0 for other texts.
std::int64_t listed(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  const std::string_view list = text.substr(colon == std::string_view::npos ? 0 : colon + 1);
  const bool plain = !list.empty() && list.find_first_not_of("0123456789,") == std::string::npos;
  return plain && text.find('@') == std::string_view::npos ? std::ranges::count(list, ',') + 1 : 0;
}

// The launcher's flags, with the variables that start ms-swift and the lists of GPUs of DeepSpeed
// and CUDA in their place.
Flags with_environment(const Launch& launch) {
  Flags flags = launch.launcher;
  const auto add = [&](const char* name, const shell::Word& from, const std::string& value) {
    shell::Word word = from;
    word.text = value;
    flags.try_emplace(name, Given{{word}, from});
  };
  for (const auto& [variable, flag] :
       {std::pair{"NPROC_PER_NODE", "nproc-per-node"}, std::pair{"NNODES", "nnodes"}})
    if (const auto at = launch.environment.find(variable);
        at != launch.environment.end() && !launch.by.empty())
      add(flag, at->second, at->second.text.substr(at->second.text.find('=') + 1));
  if (const auto at = flags.find("include"); at != flags.end() && !at->second.values.empty())
    if (const std::int64_t n = listed(at->second.value()); n > 0)
      add("nproc-per-node", at->second.values.front(), std::to_string(n));
  return flags;
}

}  // namespace

// Sets the number of GPUs that the launcher starts. The command line can override it.
void Translator::world() {
  const Flags launcher = with_environment(launch_);
  const Started at = started(launcher);
  const auto per_node = at.per_node ? gpus_of(at.per_node->value()) : std::nullopt;
  const std::int64_t nodes = number(at.nodes).value_or(0);
  if (const auto ranks = number(at.ranks); ranks && (!per_node || nodes == 0))
    return set(*at.ranks, fmt::format("gpus={}", *ranks));
  if (per_node && (nodes > 0 || !at.nodes))
    return set(*at.per_node, fmt::format("gpus={}", *per_node * std::max<std::int64_t>(nodes, 1)));
  if (nodes > 0 && !at.per_node) return set(*at.nodes, fmt::format("nodes={}", nodes));
  if (!at.nodes && !at.per_node && !at.ranks && !launch_.by.empty())
    if (const auto devices = launch_.environment.find("CUDA_VISIBLE_DEVICES");
        devices != launch_.environment.end())
      if (const std::int64_t n = listed(devices->second.text.substr(21)); n > 0)
        return set(Given{{}, devices->second}, fmt::format("gpus={}", n));
  for (const Given* given : {at.nodes, at.per_node, at.ranks})
    if (given && !given->values.front().unknowns.empty())
      return miss("gpus", given->flag,
                  fmt::format("how many GPUs run is {}, which the script does not define; write "
                              "gpus=",
                              given->values.front().unknowns.front()));
}

// Megatron-AxoNN's microbatch counts all ranks of the depth. Its tensor-parallel ranks are the rows
// and columns of a grid [axonn-ai/Megatron-AxoNN megatron/arguments.py].
void Translator::tensor_grid() {
  const Given* rows = find("row-tensor-model-parallel-size");
  const Given* columns = find("column-tensor-model-parallel-size");
  const Given* depth = find("depth-tensor-model-parallel-size");
  const Given* first = rows ? rows : columns ? columns : depth;
  if (!first) return;
  out_.framework = "axonn";
  set(*first, fmt::format("tp={}", number(rows).value_or(1) * number(columns).value_or(1)));
  if (columns) set_value(*columns, "tensor_columns");
  if (depth) set_value(*depth, "tensor_depth");
  for (const auto& [flag, setting] :
       {std::pair{"overlap-axonn-comm", "overlap_tensor_reduce"},
        std::pair{"overlap-axonn-all-gather", "overlap_depth_gather"},
        std::pair{"overlap-axonn-reduce-scatter", "overlap_depth_scatter"}})
    set(*first, fmt::format("{}={}", setting, has(flag)));
  const Given* batch = find("micro-batch-size");
  const std::int64_t share = number(depth).value_or(1), sequences = number(batch).value_or(0);
  if (share > 1 && sequences > 0 && sequences % share == 0)
    set(*batch, fmt::format("micro_batch={}", sequences / share));
}

// The text of the file that --deepspeed_config names: written by the script, or beside it.
std::optional<std::string> Translator::deepspeed_file() {
  const Given* file = find("deepspeed-config");
  if (!file || file->values.empty()) return {};
  const std::string name = file->value();
  if (const auto written = script_.files.find(name); written != script_.files.end())
    return written->second;
  const auto beside = std::filesystem::path(path_).parent_path() / name;
  const auto text = read_file(beside.string(), max_json_bytes);
  return text ? std::optional(*text) : std::nullopt;
}

// The ZeRO stage: from --zero-stage, otherwise from the file of --deepspeed_config.
void Translator::deepspeed() {
  const Given* on = find("deepspeed");
  if (!on || has("no-deepspeed")) return;
  out_.framework = "megatron-deepspeed";
  const Given* stage = find("zero-stage");
  int zero = stage && stage->value().size() == 1 ? stage->value()[0] - '0' : -1;
  if (zero > 3) zero = -1;
  DeepSpeedConfig config;
  const Given* file = find("deepspeed-config");
  if (const auto text = deepspeed_file()) {
    config = read_deepspeed_config(*text, file->value().substr(0, 80));
    for (Diagnostic& problem : config.problems)
      refuse(file->flag, fmt::format("{}: {}", problem.where, problem.message));
    if (zero < 0 && !stage) zero = config.stage.value_or(0);
    if (has_path(config.values, "curriculum_learning"))
      say("curriculum learning is not simulated: the step is of the full sequence");
  } else if (file && !stage) {
    return miss("zero", file->flag,
                fmt::format("--deepspeed_config {} is neither in the script nor beside it, and it "
                            "says the ZeRO stage; write zero=",
                            file->value().substr(0, 80)));
  }
  if (stage && zero < 0)
    return miss("zero", stage->flag,
                fmt::format("--zero-stage is {}; write zero= with 0, 1, 2 or 3",
                            stage->value().substr(0, 40)));
  zero_stage(stage ? *stage : *on, std::max(zero, 0), config);
}

void Translator::zero_stage(const Given& by, int stage, const DeepSpeedConfig& config) {
  const bool offloads = config.offloads_optimizer || has("cpu-optimizer");
  if (config.offloads_optimizer) set(by, "optimizer_cpu_offload=true");
  const bool is_short = has("fp16") || has("bf16");
  // bf16 without ZeRO is DeepSpeed's BF16_Optimizer, which keeps the states in shards over the
  // data-parallel ranks [DeepSpeed runtime/bf16_optimizer.py; runtime/engine.py:
  // _configure_bf16_optimizer].
  const bool is_sharded = stage == 1 || (stage == 0 && has("bf16"));
  set(by, stage >= 2 ? fmt::format("zero={}", stage)
                     : fmt::format("distributed_optimizer={}", is_sharded));
  if (stage == 1 && offloads && is_short) {
    // [DeepSpeed runtime/zero/stage_1_and_2.py]
    for (const char* setting :
         {"deepspeed_optimizer=true", "precision_aware_optimizer=false", "fp32_gradients=false",
          "overlap_grad_reduce=false", "overlap_param_gather=false"})
      set(by, setting);
    return;
  }
  if (stage == 1)
    say("DeepSpeed's ZeRO stage 1 is simulated as Megatron-LM's distributed optimizer");
  if (stage == 0 && is_sharded)
    say("DeepSpeed's BF16_Optimizer is simulated as Megatron-LM's distributed optimizer");
  if (stage < 2) return;
  // [DeepSpeed runtime/engine.py: get_data_types]
  if (is_short) {
    set(by, fmt::format("fp32_gradients={}", config.fp32_gradients));
    if (stage >= 3) return set(by, "deepspeed_optimizer=true");
  }
  say(fmt::format("DeepSpeed's ZeRO stage {} is simulated as PyTorch's fully_shard", stage));
}

void Translator::environment() {
  const auto of = [&](const char* name) -> std::optional<std::string> {
    const auto found = launch_.environment.find(name);
    if (found == launch_.environment.end() || !found->second.unknowns.empty()) return {};
    return found->second.text.substr(found->second.text.find('=') + 1);
  };
  const auto place = [&](const char* name) {
    return Given{{}, launch_.environment.find(name)->second};
  };
  if (of("TORCH_NCCL_AVOID_RECORD_STREAMS") == "1")
    set(place("TORCH_NCCL_AVOID_RECORD_STREAMS"), "avoid_record_streams=true");
  if (of("CUDA_LAUNCH_BLOCKING") == "1") set(place("CUDA_LAUNCH_BLOCKING"), "launch_blocking=true");
  for (const char* name : {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"})
    if (const auto options = of(name); options && !options->empty())
      set(place(name), "allocator_options=" + *options);
  network_environment();
}

// Variables of NCCL and CUDA that change times and are not simulated. Names: [NVIDIA/nccl-docs
// env.html].
void Translator::network_environment() {
  constexpr std::array changing = {
      "NCCL_ALGO",          "NCCL_PROTO",       "NCCL_MIN_NCHANNELS",
      "NCCL_MAX_NCHANNELS", "NCCL_MIN_CTAS",    "NCCL_MAX_CTAS",
      "NCCL_BUFFSIZE",      "NCCL_NTHREADS",    "NCCL_P2P_DISABLE",
      "NCCL_P2P_LEVEL",     "NCCL_SHM_DISABLE", "NCCL_NET_GDR_LEVEL",
      "NCCL_CROSS_NIC",     "NCCL_IB_DISABLE",  "NCCL_COLLNET_ENABLE",
      "NCCL_CUMEM_ENABLE",  "NCCL_PXN_DISABLE", "NCCL_P2P_NVL_CHUNKSIZE"};
  for (const auto& [name, word] : launch_.environment) {
    if (!word.unknowns.empty()) continue;
    if (word.text == "NCCL_NVLS_ENABLE=0") {
      say(
          fmt::format("{}: {} is a property of the cluster here; add "
                      "`cluster.node.nvlink_sharp=false`",
                      where(word), word.text));
    } else if (std::ranges::find(changing, name) != changing.end()) {
      say(fmt::format("{}: {} is not simulated; collectives run as NCCL chooses", where(word),
                      word.text));
    } else if (name == "CUDA_DEVICE_MAX_CONNECTIONS" && !word.text.ends_with("=1")) {
      say(
          fmt::format("{}: {} is not simulated; with tensor or context parallelism streams share "
                      "one queue",
                      where(word), word.text));
    }
  }
}

}  // namespace sim::input
