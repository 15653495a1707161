#include "sim/study/plan/launch/own_script.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <set>

#include "sim/input/fields/fields.h"
#include "sim/input/plan/plan.h"
#include "sim/study/plan/launch/launch_line.h"
#include "sim/study/plan/launch/launch_megatron.h"

namespace sim::planner {

namespace {

using program::Plan;

// Flags that decide one thing together, separated by blanks. Flags of one field are a group too.
constexpr std::array<std::string_view, 9> groups = {
    "recompute-activations recompute-granularity recompute-method recompute-num-layers "
    "recompute-modules activations-checkpoint-granularity activations-checkpoint-method "
    "activations-checkpoint-num-layers checkpoint-num-layers checkpoint-activations "
    "moe-layer-recompute distribute-saved-activations distribute-checkpointed-activations",
    "pipeline-model-parallel-size pipe-parallel-size num-layers-per-virtual-pipeline-stage "
    "num-virtual-stages-per-pipeline-rank pipeline-model-parallel-layout "
    "decoder-first-pipeline-num-layers decoder-last-pipeline-num-layers "
    "account-for-embedding-in-pipeline-split account-for-loss-in-pipeline-split",
    "use-torch-fsdp2 torch-fsdp2-no-reshard-after-forward use-distributed-optimizer "
    "num-distributed-optimizer-instances overlap-grad-reduce overlap-param-gather "
    "overlap-param-gather-with-optimizer-step overlapped-distributed-optimizer use-megatron-fsdp "
    "use-custom-fsdp data-parallel-sharding-strategy",
    "fp8-hybrid fp8-e4m3 fp8-format fp8-recipe fp4-format",
    "attention-backend use-flash-attn use-flash-attn-v1 use-flash-attn-v2 use-flash-attn-triton "
    "use-flash-attn-builder",
    "context-parallel-size cp-comm-type hierarchical-context-parallel-sizes",
    "fine-grained-activation-offloading offload-modules min-offloaded-tensor-size "
    "activation-offload-fraction delta-offload-bytes-across-pp-ranks",
    "cpu-offloading cpu-offloading-num-layers",
    "cross-entropy-loss-fusion cross-entropy-fusion-impl",
};

bool lists(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    const std::string_view one = words.substr(0, words.find(' '));
    if (one == word) return true;
    words.remove_prefix(std::min(one.size() + 1, words.size()));
  }
  return false;
}

std::string group_of(const std::string& name) {
  for (std::size_t i = 0; i < groups.size(); ++i)
    if (lists(groups[i], name)) return fmt::format("group {}", i);
  for (const input::Field& field : input::plan_fields()) {
    std::string_view rest = field.flags;
    while (!rest.empty()) {
      const std::string_view flag = rest.substr(0, rest.find(' '));
      rest.remove_prefix(std::min(flag.size() + 1, rest.size()));
      if (flag.substr(0, flag.find_first_of("=:")) == name)
        return "field " + std::string(field.name);
    }
  }
  return "flag " + name;
}

std::string name_of(const std::string& flag) {
  std::string name = flag.substr(2, flag.find_first_of(" =") - 2);
  std::ranges::replace(name, '_', '-');
  return name;
}

std::string value_of(const std::string& flag) {
  return flag.substr(std::min(flag.find(' '), flag.size() - 1) + 1);
}

using Texts = std::vector<std::string>;

std::map<std::string, Texts> by_group(const Texts& flags) {
  std::map<std::string, Texts> all;
  for (const std::string& flag : flags) all[group_of(name_of(flag))].push_back(flag);
  for (auto& [group, texts] : all) std::ranges::sort(texts);
  return all;
}

// Notes how the flags of one group change.
void note_changes(const Texts& before, const Texts& after, std::vector<ScriptChange>& changes) {
  const auto find = [](const Texts& all, const std::string& name) {
    const auto found = std::ranges::find(all, name, name_of);
    return found == all.end() ? std::string() : *found;
  };
  for (const std::string& old : before)
    if (std::string now = find(after, name_of(old)); now.empty() || value_of(now) != value_of(old))
      changes.push_back({old, std::move(now)});
  for (const std::string& now : after)
    if (find(before, name_of(now)).empty()) changes.push_back({"", now});
}

// Flags outside of the plan that Megatron-LM asserts beside its flags
// [core_v0.19.0 megatron/training/arguments.py:validate_args].
void settle_others(const Plan& plan, ChangedScript& script) {
  const auto replace = [&](std::string& flag, std::string by) {
    script.changes.push_back({flag, by});
    flag = std::move(by);
  };
  for (std::string& flag : script.flags) {
    const std::string name = name_of(flag);
    const std::string value = value_of(flag);
    if (name == "ckpt-format") {
      const bool of_shards = value == "torch_dcp" || value == "fsdp_dtensor";
      if (plan.shards_parameters() ? value != "torch_dist" && value != "torch_dcp" : of_shards)
        replace(flag, "--ckpt-format torch_dist");
    }
    if (name == "max-position-embeddings" &&
        std::strtoll(value.c_str(), nullptr, 10) < plan.batch.sequence)
      replace(flag, fmt::format("--max-position-embeddings {}", plan.batch.sequence));
  }
}

// The user's environment with the variables that the plan needs.
void settle_environment(const OwnScript& own, const Plan& plan, ChangedScript& script) {
  script.environment = own.words.environment;
  const auto before = environment_of(own.plan), after = environment_of(plan);
  const auto text = [](const auto& one) { return fmt::format("{}={}", one.first, one.second); };
  const auto drop = [&](const std::string& name) {
    const auto found =
        std::ranges::find(script.environment, name, [](const auto& one) { return one.first; });
    if (found == script.environment.end()) return;
    script.changes.push_back({text(*found), ""});
    script.environment.erase(found);
  };
  for (const auto& one : before)
    if (std::ranges::find(after, one.first, [](const auto& other) { return other.first; }) ==
        after.end())
      drop(one.first);
  for (const auto& one : after) {
    const auto found = std::ranges::find(script.environment, one.first,
                                         [](const auto& other) { return other.first; });
    if (found == script.environment.end()) {
      script.changes.push_back({"", text(one)});
      script.environment.push_back(one);
    } else if (std::ranges::find(before, one) == before.end() && found->second != one.second) {
      script.changes.push_back({text(*found), text(one)});
      found->second = one.second;
    }
  }
  // fully_shard needs several queues [validate_args].
  const std::pair<std::string, std::string> one_queue = {"CUDA_DEVICE_MAX_CONNECTIONS", "1"};
  if (plan.shards_parameters() &&
      std::ranges::find(script.environment, one_queue) != script.environment.end())
    drop(one_queue.first);
}

}  // namespace

std::optional<OwnScript> own_script(const std::string& path,
                                    const std::vector<std::string>& overrides) {
  std::optional<input::ScriptWords> words = input::script_words(path);
  if (!words) return std::nullopt;
  std::vector<std::string> of_job;
  for (const std::string& one : overrides)
    if (one.starts_with("cluster=") || one.starts_with("model=") || one.starts_with("gpus="))
      of_job.push_back(one);
  Result<input::PlanFile> file = input::load_megatron(path, of_job);
  if (!file) file = input::load_megatron(path, overrides);
  if (!file || file->framework != "Megatron-LM") return std::nullopt;
  return OwnScript{path, std::move(*words), *file->plan};
}

ChangedScript with_plan(const OwnScript& own, const Plan& plan, const std::string& model) {
  ChangedScript script;
  const auto before = by_group(megatron_flags(own.plan, model).flags);
  const auto after = by_group(megatron_flags(plan, model).flags);
  const auto texts = [](const auto& all, const std::string& group) {
    const auto found = all.find(group);
    return found == all.end() ? Texts{} : found->second;
  };
  std::map<std::string, Texts> written;  // of changed groups, what the user wrote
  for (const input::ScriptFlag& flag : own.words.flags) {
    const std::string group = group_of(flag.name);
    const bool decided = before.contains(group) || after.contains(group);
    if (decided && (flag.is_unknown || texts(before, group) != texts(after, group)))
      written[group].push_back(flag.text);
  }
  for (const auto& [group, flags] : after)
    if (flags != texts(before, group)) written.try_emplace(group);
  std::set<std::string> placed;  // where the user's flags of the group were
  for (const input::ScriptFlag& flag : own.words.flags) {
    const std::string group = group_of(flag.name);
    if (!written.contains(group)) {
      script.flags.push_back(flag.text);
      continue;
    }
    if (!placed.insert(group).second) continue;
    for (const std::string& one : texts(after, group)) script.flags.push_back(one);
  }
  for (const auto& [group, was] : written) {
    if (!placed.contains(group))
      for (const std::string& one : texts(after, group)) script.flags.push_back(one);
    note_changes(was, texts(after, group), script.changes);
  }
  settle_others(plan, script);
  settle_environment(own, plan, script);
  for (const std::string& other : own.words.others) script.flags.push_back(other);
  return script;
}

std::string change_text(const ScriptChange& change) {
  if (change.from.empty()) return "add " + change.to;
  if (change.to.empty()) return "remove " + change.from;
  const std::size_t space = change.to.find_first_of(" =");
  return fmt::format("{} -> {}", change.from,
                     change.to.substr(std::min(space, change.to.size() - 1) + 1));
}

}  // namespace sim::planner
