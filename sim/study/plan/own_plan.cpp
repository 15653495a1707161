#include "sim/study/plan/own_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "sim/input/fields/cluster_fields.h"
#include "sim/input/fields/fields.h"
#include "sim/output/json.h"
#include "sim/program/plan/recompute_modules.h"

namespace sim::planner {

namespace {

using program::Plan;
using program::Recompute;
using Names = std::vector<std::string_view>;

std::string field_of(const std::string& setting) {
  const std::string key = setting.substr(0, setting.find('='));
  const input::FieldName name = input::plan_field(key);
  return name.problem.empty() ? name.field : key;
}

// Fields that depend on a degree or a split that the search varies.
bool depends_on_degrees(const std::string& field) {
  constexpr std::array<std::string_view, 8> fields = {
      "interleaving", "microbatch_group", "optimizer_replicas", "embedding_layers",
      "head_layers",  "tensor_columns",   "tensor_depth",       "whole_parameters"};
  return std::ranges::find(fields, field) != fields.end();
}

bool named(const Names& names, std::string_view field) {
  return std::ranges::find(names, field) != names.end();
}

// Whether the plan ignores the field.
bool ignored(const Plan& plan, std::string_view field) {
  const Names derived = {"dp", "architecture.name"};
  const Names of_pipeline = {"schedule",        "virtual_stages",     "interleaving",
                             "layer_split",     "first_stage_layers", "last_stage_layers",
                             "pipeline_layout", "microbatch_group",   "account_for_embedding",
                             "account_for_loss"};
  if (named(derived, field)) return true;
  if (plan.mesh.pp == 1 && named(of_pipeline, field)) return true;
  if (plan.pipeline.virtual_stages == 1 && named({"interleaving", "microbatch_group"}, field))
    return true;
  if (plan.mesh.cp == 1 && named({"context", "ulysses"}, field)) return true;
  if (plan.mesh.tp == 1 && named({"sequence_parallel", "tp_comm_overlap"}, field)) return true;
  if (!plan.shards_parameters() && field.starts_with("fsdp.")) return true;
  if (plan.shards_parameters() && named({"distributed_optimizer", "optimizer_replicas"}, field))
    return true;
  const Recompute way = plan.policy.recompute;
  if (way != Recompute::full && named({"recompute_method", "recompute_layers"}, field)) return true;
  return way != Recompute::selective && field == "recompute_modules";
}

// The plan as text; fields that `like` ignores are those of `like`.
std::string json_of(const Plan& plan, const Plan& like) {
  Plan same = plan;
  for (const input::Field& field : input::plan_fields())
    if (field.place && field.name != "dp" && ignored(like, field.name))
      field.place.set(same, field.place.get(like));
  return output::to_json(same).dump();
}

bool shares_parameters(std::string_view field) {
  return field == "data_parallel" || field == "distributed_optimizer" || field.starts_with("fsdp");
}

// The stage of ZeRO, as the setting `zero` counts.
int zero_of(const Plan& plan) {
  if (plan.shards_parameters()) return plan.sharding.fsdp.reshard_after_forward ? 3 : 2;
  return plan.sharding.distributed_optimizer ? 1 : 0;
}

std::string modules_text(const program::RecomputeModules& modules) {
  std::string text;
  for (const auto& [name, module] : program::recompute_module_names)
    if (modules.*module) text += (text.empty() ? "" : ",") + std::string(name);
  return text;
}

std::string value_of(std::string_view field, const Plan& plan) {
  if (field == "zero") return fmt::format("{}", zero_of(plan));
  if (field == "recompute_modules") return modules_text(plan.policy.recompute_modules);
  return input::text_of(input::find_plan_field(field)->place.get(plan));
}

std::vector<Change> differences(const Plan& from, const Plan& to,
                                const std::vector<std::string>& said, bool ignored_too) {
  std::vector<Change> all;
  for (const input::Field& field : input::plan_fields()) {
    const std::string name(field.name);
    const bool together = name == "zero" || name == "recompute_modules";
    const bool stated =
        std::ranges::any_of(said, [&](const std::string& one) { return field_of(one) == name; });
    if (!field.place && !together) continue;
    if (name == "dp" || (!ignored_too && ignored(to, name))) continue;
    if (!stated && !is_searched(name) && !depends_on_degrees(name)) continue;
    if (shares_parameters(name) && !stated) continue;
    std::string before = value_of(name, from), after = value_of(name, to);
    if (before != after) all.push_back({name, std::move(before), std::move(after)});
  }
  return all;
}

}  // namespace

std::vector<std::string> job_of(const input::PlanFile& file, const std::vector<std::string>& said) {
  std::vector<std::string> job;
  for (const std::string& one : file.stated) {
    const std::string field = field_of(one);
    const bool asked = field == "global_batch" || field == "sequence" || field == "source";
    const bool again = std::ranges::any_of(
        said, [&](const std::string& other) { return field_of(other) == field; });
    if (asked || again || is_searched(field) || depends_on_degrees(field) ||
        input::is_cluster_setting(one))
      continue;
    job.push_back(one);
  }
  return job;
}

std::vector<std::string> changes_of_job(const std::vector<std::string>& said) {
  std::vector<std::string> own;
  for (const std::string& one : said)
    if (one.find(',') == std::string::npos && !is_searched(field_of(one))) own.push_back(one);
  return own;
}

Result<input::PlanFile> load_own(const std::string& path, bool launch_file,
                                 const std::vector<std::string>& overrides) {
  return launch_file ? input::load_megatron(path, overrides) : input::load_plan(path, overrides);
}

std::vector<Change> changes(const Plan& from, const Plan& to,
                            const std::vector<std::string>& said) {
  return differences(from, to, said, false);
}

std::string words_from_own(const OwnPlan& own, const Plan& plan) {
  const Plan& from = *own.file.plan;
  const std::string path = own.launch_file ? own.path : own.file.path;
  // A field that the new plan ignores may be wrong beside it: an interleaved schedule at pp 1.
  for (const bool ignored_too : {false, true}) {
    std::vector<std::string> settings = own.overrides;
    const auto set = [&](const std::string& field, const std::string& value) {
      std::erase_if(settings, [&](const std::string& old) { return field_of(old) == field; });
      settings.push_back(fmt::format("{}={}", field, value));
    };
    for (const Change& one : differences(from, plan, own.said, ignored_too))
      // Their values of an even split cannot be set.
      named({"first_stage_layers", "last_stage_layers", "pipeline_layout"}, one.field)
          ? set("layer_split", value_of("layer_split", plan))
          : set(one.field, one.to);
    if (plan.world() != from.world()) set("gpus", fmt::format("{}", plan.world()));
    const Result<input::PlanFile> back = load_own(path, own.launch_file, settings);
    if (back && json_of(*back->plan, plan) == json_of(plan, plan))
      return fmt::format("{}{} {}", own.launch_file ? "--megatron-args " : "", own.path,
                         fmt::join(settings, " "));
  }
  return "";
}

}  // namespace sim::planner
