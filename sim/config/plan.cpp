#include "sim/config/plan.h"

#include <fmt/format.h>

#include <filesystem>

#include "sim/config/cluster_fields.h"
#include "sim/config/huggingface.h"
#include "sim/config/locate.h"
#include "sim/config/megatron.h"
#include "sim/config/plan_fields.h"
#include "sim/config/resolve.h"

namespace sim::config {
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

// The model, by name or described; {} with diagnostics.
Result<model::Architecture> load_architecture(const v1::Plan& plan, const Source& source) {
  if (plan.has_model() && plan.has_architecture())
    return Diagnostics{{source.where(plan, "model"),
                        "'model' and 'architecture' both describe the network; leave one out"}};
  if (plan.has_architecture()) return architecture_of(plan.architecture(), plan.sequence());
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
  return load_huggingface(*path);
}

Result<PlanFile> finish(v1::Plan& plan, Source& source, Diagnostics problems,
                        const std::vector<std::string>& cluster) {
  // Values first: what reads the model or the cluster may rely on them.
  append(problems, source.check(plan, problems.empty()), source.path());
  if (!problems.empty()) return problems;

  const Result<model::Architecture> architecture = load_architecture(plan, source);
  if (!architecture) append(problems, architecture.errors(), source.path());
  const Result<Machine> machine = find_cluster(plan.cluster(), source.path(), cluster);
  if (!machine) append(problems, machine.errors(), source.where(plan, "cluster"));
  if (!problems.empty()) return problems;

  Resolved resolved = resolve(plan, *architecture, *machine);
  for (PlanProblem& problem : resolved.problems)
    problems.push_back({source.where(plan, problem.field), std::move(problem.message)});
  if (!problems.empty()) return problems;
  return PlanFile{
      name_of(plan, source.path()), source.path(), std::move(resolved.plan), *machine, {}};
}

std::vector<Setting> settings_of(const std::vector<std::string>& overrides) {
  std::vector<Setting> settings;
  for (const std::string& text : overrides)
    if (!is_cluster_setting(text))
      settings.push_back({text, fmt::format("command line, {}", text.substr(0, 80))});
  return settings;
}

// Those of the overrides that change the cluster.
std::vector<std::string> of_cluster(const std::vector<std::string>& overrides) {
  std::vector<std::string> all;
  for (const std::string& text : overrides)
    if (is_cluster_setting(text)) all.push_back(text);
  return all;
}

}  // namespace

Result<PlanFile> load_plan(const std::string& path, const std::vector<std::string>& overrides) {
  v1::Plan plan;
  Source source(path);
  Diagnostics problems;
  if (!path.empty()) problems = load(source, plan, plan_synonyms(), false);
  append(problems, apply(settings_of(overrides), plan, source), "command line");
  return finish(plan, source, std::move(problems), of_cluster(overrides));
}

Result<PlanFile> load_megatron(const std::string& path, const std::vector<std::string>& overrides) {
  const Result<std::string> text = read_file(path);
  if (!text) return text.errors();
  MegatronArguments arguments = read_megatron(*text, path);
  v1::Plan plan = megatron_defaults();
  Source source(path);
  Diagnostics problems = std::move(arguments.problems);
  append(problems, apply(arguments.settings, plan, source), path);
  append(problems, apply(settings_of(overrides), plan, source), "command line");
  Result<PlanFile> loaded = finish(plan, source, std::move(problems), of_cluster(overrides));
  if (!loaded) return loaded;
  PlanFile file = *loaded;
  file.notes = std::move(arguments.notes);
  return file;
}

}  // namespace sim::config
