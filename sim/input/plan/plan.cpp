#include "sim/input/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "sim/input/fields/cluster_fields.h"
#include "sim/input/fields/fields.h"
#include "sim/input/fields/plan_fields.h"
#include "sim/input/frameworks/framework.h"
#include "sim/input/launch/launch.h"
#include "sim/input/models/huggingface.h"
#include "sim/input/models/network.h"
#include "sim/input/plan/draft.h"
#include "sim/input/resolve/resolve.h"
#include "sim/input/tables/codec.h"
#include "sim/input/text/locate.h"
#include "sim/job/context/context.h"
#include "sim/job/schedule/schedule.h"

namespace sim::input {
namespace {

namespace v1 = rehearse::v1;

void append(Diagnostics& to, const Diagnostics& from, const std::string& otherwise_where) {
  for (Diagnostic problem : from) {
    if (problem.where.empty()) problem.where = otherwise_where;
    to.push_back(std::move(problem));
  }
}

std::string name_of(const v1::Plan& plan, const std::string& path) {
  if (plan.has_name()) return plan.name();
  return path.empty() ? "plan" : std::filesystem::path(path).stem().string();
}

// The network of the plan: named, described, or named with changes. Errors are diagnostics.
Result<model::Architecture> load_architecture(const v1::Plan& plan, const Source& source) {
  if (!plan.has_model() && plan.has_architecture()) return network_of(plan, {});
  if (!plan.has_model())
    return Diagnostics{{source.where(plan),
                        "'Plan' needs the field 'model'; write for example "
                        "model: \"llama-3.1-8b\""}};
  Diagnostics problems;
  const Result<std::string> path = locate(Kind::model, plan.model(), source.path());
  if (!path) {
    append(problems, path.errors(), source.where(plan, "model"));
    return problems;
  }
  const Result<model::Architecture> named = load_huggingface(*path);
  if (!named) return named.errors();
  return network_of(plan, *named);
}

// A draft, and the diagnostics of everything but the rules of the plan.
struct Finished {
  DraftPlan draft;
  bool has_world = false;
  Diagnostics problems;
};

// Equal experts, if the plan does not state its routes. Precision and attention of a plan that
// names a framework and leaves them to it.
std::vector<std::string> assumed_of(const v1::Plan& plan, const program::Plan& resolved) {
  std::vector<std::string> all;
  if (resolved.architecture.is_mixture() &&
      resolved.experts.routing == program::Routing::balanced &&
      plan.router() == v1::Plan::routing_unset)
    all.emplace_back("each expert gets as many tokens (router=skewed draws others)");
  if (!plan.has_framework()) return all;
  const auto value = [&](const char* field) {
    return text_of(find_plan_field(field)->place.get(resolved));
  };
  if (!plan.has_precision())
    all.push_back(fmt::format("{} ({})", value("precision"), plan.framework()));
  if (plan.attention() == v1::Plan::attention_unset)
    all.push_back("attention " + value("attention"));
  return all;
}

Finished finish(v1::Plan& plan, Source& source, Diagnostics problems,
                const std::vector<std::string>& cluster) {
  append(problems, check_plan(source, plan, problems.empty()), source.path());
  // The following steps need valid field values.
  const bool sound = problems.empty();
  Result<Machine> machine = Diagnostics{{source.path(), "names no cluster"}};
  if (plan.has_cluster() && !plan.cluster().empty()) {
    std::vector<std::string> changes = cluster_settings(plan);
    changes.insert(changes.end(), cluster.begin(), cluster.end());
    machine = find_cluster(plan.cluster(), source.path(), changes);
    if (!machine) append(problems, machine.errors(), source.where(plan, "cluster"));
  }
  if (!sound) return {{}, false, std::move(problems)};
  const Result<model::Architecture> architecture = load_architecture(plan, source);
  if (!architecture) append(problems, architecture.errors(), source.path());
  if (!architecture) return {{}, false, std::move(problems)};
  Resolved resolved = resolve(plan, *architecture, machine ? &*machine : nullptr);
  for (Diagnostic& problem : resolved.problems)
    problems.push_back({source.where(plan, problem.where), std::move(problem.message)});
  DraftPlan file;
  file.name = name_of(plan, source.path());
  file.path = source.path();
  file.plan = std::move(resolved.plan);
  file.assumptions = std::move(resolved.assumptions);
  file.assumed = assumed_of(plan, file.plan);
  if (machine) file.machine = *machine;
  if (problems.empty() && plan.has_framework())
    file.framework = find_framework(plan.framework())->family;
  return {std::move(file), resolved.has_world, std::move(problems)};
}

// The plan file, or the diagnostics of all that is wrong with it, the rules of the plan included.
Result<PlanFile> validated(const v1::Plan& plan, Source& source, Finished from) {
  if (!from.has_world) return std::move(from.problems);
  const Result<program::ValidPlan> valid = program::validate(std::move(from.draft.plan));
  if (!valid)
    for (const Diagnostic& problem : valid.errors())
      from.problems.push_back({source.where(plan, problem.where), problem.message});
  if (!from.problems.empty()) return std::move(from.problems);
  return PlanFile{
      std::move(from.draft.name),        std::move(from.draft.path),      *valid,
      std::move(from.draft.machine),     std::move(from.draft.framework), {},
      std::move(from.draft.assumptions), std::move(from.draft.assumed),   plan_settings(plan)};
}

std::vector<Setting> settings_of(const std::vector<std::string>& overrides) {
  std::vector<Setting> settings;
  for (const std::string& text : overrides)
    if (!is_cluster_setting(text))
      settings.push_back({text, fmt::format("command line, {}", text.substr(0, 80))});
  return settings;
}

// True if the command line gives a setting that the script leaves open.
bool supplied(const std::string& setting, const v1::Plan& plan,
              const std::vector<std::string>& overrides) {
  if (setting == "gpus") return plan.has_gpus() || plan.has_nodes() || plan.has_dp();
  const std::string of_network = "architecture.";
  if (setting.starts_with(of_network) && plan.has_model()) return true;
  for (const std::string& text : overrides) {
    const std::string key = text.substr(0, text.find('='));
    if (key == setting || of_network + key == setting) return true;
    if (setting == "zero" && key == "data_parallel") return true;
    if (const FieldName field = plan_field(key); field.field == setting) return true;
  }
  return false;
}

// Sets the global batch that a file leaves out: `accumulation` microbatches per replica, or the
// program's `least_batch`, else one microbatch (Megatron-LM). Without a number of GPUs, from which
// it follows, the plan has another problem; the batch is then 1 and no second problem.
void default_batch(v1::Plan& plan, const std::vector<std::string>& cluster,
                   MegatronArguments& arguments) {
  std::int64_t world = plan.gpus();
  if (!plan.has_gpus() && plan.has_nodes()) {
    const Result<Machine> machine = find_cluster(plan.cluster(), "", cluster);
    if (machine) world = std::int64_t{plan.nodes()} * machine->cluster.node.gpus;
  }
  const auto degree = [](bool given, int value) { return std::int64_t{given ? value : 1}; };
  const __int128 model_parallel = static_cast<__int128>(degree(plan.has_tp(), plan.tp())) *
                                  degree(plan.has_cp(), plan.cp()) *
                                  degree(plan.has_pp(), plan.pp());
  std::int64_t dp = plan.dp();
  if (!plan.has_dp() && model_parallel > 0 && world % model_parallel == 0)
    dp = static_cast<std::int64_t>(world / model_parallel);
  const std::int64_t once = dp * degree(plan.has_micro_batch(), plan.micro_batch());
  if (once < 1) return plan.set_global_batch(1);
  if (once > 1 << 24) return;
  std::int64_t accumulation = arguments.accumulation;
  if (accumulation == 0) accumulation = (arguments.least_batch + once - 1) / once;
  const std::int64_t batch = once * std::clamp<std::int64_t>(accumulation, 1, 1 << 20);
  if (batch > 1 << 24) return;
  plan.set_global_batch(static_cast<int>(batch));
  if (arguments.accumulation > 0) return;
  arguments.notes.push_back(
      accumulation > 1
          ? fmt::format("no accumulation is given: {} sequences a step, the program's default",
                        batch)
          : fmt::format("no --global-batch-size: {} sequences a step, a microbatch of each replica",
                        batch));
}

// Megatron-LM's launch without --bf16 and --fp16 trains in fp32; so do the programs that share its
// arguments [NVIDIA/Megatron-LM megatron/training/arguments.py: params_dtype]. A plan file that
// names them has the default of plans.
void default_precision(v1::Plan& plan, const std::string& path, MegatronArguments& arguments,
                       Diagnostics& problems) {
  if (!problems.empty() || plan.has_precision() || !frameworks()) return;
  if (std::ranges::any_of(arguments.missing,
                          [](const Missing& one) { return one.setting == "precision"; }))
    return;
  const Framework* framework = plan.has_framework() ? find_framework(plan.framework()) : nullptr;
  v1::Plan filled;
  if (framework != nullptr) complete(*framework, filled);
  if (filled.has_precision()) return;
  const auto is_megatron = [](const std::string& name) { return name == "megatron-lm"; };
  if (framework == nullptr ||
      !(is_megatron(framework->name) || std::ranges::any_of(framework->bases, is_megatron))) {
    problems.push_back({path, "nothing says a precision; write precision=bf16 or another one"});
    return;
  }
  plan.set_precision(v1::Plan::fp32);
  arguments.notes.emplace_back("no --bf16 and no --fp16: fp32");
}

// Adds notes: launch settings that are not simulated, and conditions and GPU kinds of nodes that
// the job does not use.
Result<PlanFile> noted(const Result<PlanFile>& loaded, std::vector<std::string> notes) {
  if (!loaded) return loaded;
  const topology::Cluster& cluster = loaded->machine.cluster;
  const int world = static_cast<int>(loaded->plan->world());
  const int reached =
      topology::nodes_reached(cluster, topology::nodes_of(world, cluster.node.gpus));
  const std::string where =
      fmt::format("the plan's {} on {}", world == 1 ? "GPU is" : fmt::format("{} GPUs are", world),
                  reached == 1 ? "node 0" : fmt::format("nodes 0 to {}", reached - 1));
  for (const topology::Condition& condition : cluster.conditions) {
    const bool of_leaf = condition.leaf >= 0;
    const int first =
        of_leaf ? topology::first_node_of_leaf(cluster, condition.leaf) : condition.node;
    if (first >= reached)
      notes.push_back(fmt::format("the condition of {} {} touches nothing: {}",
                                  of_leaf ? "leaf" : "node",
                                  of_leaf ? condition.leaf : condition.node, where));
  }
  for (std::size_t kind = 1; kind <= loaded->machine.others.size(); ++kind) {
    const auto first = std::ranges::find(cluster.gpu_kinds, static_cast<int>(kind));
    const auto node = first - cluster.gpu_kinds.begin();
    if (node >= reached)
      notes.push_back(fmt::format("the other GPUs from node {} on touch nothing: {}", node, where));
  }
  if (notes.empty()) return loaded;
  PlanFile file = *loaded;
  file.notes = std::move(notes);
  return file;
}

// Problems of names in a plan that do not exist.
Diagnostics unknown_names(const v1::Plan& plan, const std::string& beside) {
  Diagnostics problems;
  const auto take = [&](const auto& found) {
    if (!found) append(problems, found.errors(), "");
  };
  const auto say = [&](std::string message) { problems.push_back({"", std::move(message)}); };
  if (plan.has_cluster()) take(locate(Kind::topology, plan.cluster(), beside));
  if (plan.has_model()) take(locate(Kind::model, plan.model(), beside));
  if (plan.has_framework() && frameworks() && find_framework(plan.framework()) == nullptr)
    say(unknown_framework(plan.framework()));
  if (plan.has_schedule() && schedule::find(plan.schedule()) == nullptr)
    say(schedule::unknown(plan.schedule()));
  if (plan.has_context() && context::find(plan.context()) == nullptr)
    say(context::unknown(plan.context()));
  const v1::Codecs& codec = plan.codec();
  for (const std::string& name :
       {codec.tensor(), codec.data(), codec.pipeline(), codec.parameters()})
    if (!name.empty() && name != "none") take(load_codec(name));
  return problems;
}

}  // namespace

Diagnostics setting_problems(const Setting& setting, const std::string& beside) {
  Source source(beside);
  if (is_cluster_setting(setting.text)) {
    v1::Cluster cluster;
    return apply(std::span(&setting, 1), cluster, source);
  }
  v1::Plan plan;
  Diagnostics problems = apply(std::span(&setting, 1), plan, source);
  if (!problems.empty()) return problems;
  append(problems, unknown_names(plan, beside), setting.where);
  return problems;
}

Result<PlanFile> load_plan(const std::string& path, const std::vector<std::string>& overrides) {
  v1::Plan plan;
  Source source(path);
  Diagnostics problems;
  if (!path.empty()) problems = load(source, plan, plan_synonyms(), false);
  if (!problems.empty() && named_as_launch(path)) {
    return Diagnostics{
        {path, fmt::format("is what a run is started with, not a plan; --megatron-args {} reads it",
                           path)}};
  }
  append(problems, apply(settings_of(overrides), plan, source), "command line");
  return noted(validated(plan, source,
                         finish(plan, source, std::move(problems), cluster_settings_of(overrides))),
               {});
}

Result<DraftPlan> load_draft(const std::string& path, const std::vector<std::string>& overrides) {
  v1::Plan plan;
  Source source(path);
  Diagnostics problems;
  if (!path.empty()) problems = load(source, plan, plan_synonyms(), false);
  append(problems, apply(settings_of(overrides), plan, source), "command line");
  Finished draft = finish(plan, source, std::move(problems), cluster_settings_of(overrides));
  if (!draft.problems.empty()) return std::move(draft.problems);
  return std::move(draft.draft);
}

Result<DraftPlan> read_draft(const std::string& text, const std::string& path) {
  v1::Plan plan;
  Source source(path);
  Diagnostics problems = source.read(text, plan, plan_synonyms(), false);
  Finished draft = finish(plan, source, std::move(problems), {});
  if (!draft.problems.empty()) return std::move(draft.problems);
  return std::move(draft.draft);
}

Result<PlanFile> load_megatron(const std::string& path, const std::vector<std::string>& overrides) {
  const Result<std::string> text = read_file(path);
  if (!text) return text.errors();
  return read_megatron(*text, path, overrides);
}

namespace {

// Says that a launch file states no number of GPUs, whatever else it leaves out.
void ask_for_gpus(const v1::Plan& plan, const std::string& path, Diagnostics& problems) {
  if (plan.has_gpus() || plan.has_nodes() || plan.has_dp()) return;
  if (std::ranges::any_of(problems, [](const Diagnostic& one) {
        return one.message.find("how many GPUs run") != std::string::npos;
      }))
    return;
  problems.push_back({path, "say how many GPUs run: gpus, nodes or dp"});
}

}  // namespace

Result<PlanFile> read_megatron(const std::string& text, const std::string& path,
                               const std::vector<std::string>& overrides) {
  LaunchFile launch = read_launch(text, path);
  MegatronArguments& arguments = launch.arguments;
  v1::Plan plan;
  if (!arguments.framework.empty()) plan.set_framework(arguments.framework);
  Source source(path);
  Diagnostics problems = std::move(arguments.problems);
  const bool readable = problems.empty();
  append(problems, apply(arguments.settings, plan, source), path);
  append(problems, apply(settings_of(overrides), plan, source), "command line");
  default_precision(plan, path, arguments, problems);
  const bool asks_batch = std::ranges::any_of(arguments.missing, [](const Missing& one) {
    return one.setting == "global_batch" || one.setting == "micro_batch" || one.setting == "gpus";
  });
  for (Missing& missing : arguments.missing)
    if (!supplied(missing.setting, plan, overrides)) problems.push_back(std::move(missing.problem));
  if (!plan.has_global_batch() && (problems.empty() || !asks_batch))
    default_batch(plan, cluster_settings_of(overrides), arguments);
  Finished done = finish(plan, source, std::move(problems), cluster_settings_of(overrides));
  if (readable) ask_for_gpus(plan, path, done.problems);
  return noted(validated(plan, source, std::move(done)), std::move(arguments.notes));
}

}  // namespace sim::input
