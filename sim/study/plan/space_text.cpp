// space_text.cpp — reads the user's settings of a space: domains of searched fields, and bases for
// all other fields.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>
#include <set>

#include "sim/base/split.h"
#include "sim/base/text.h"
#include "sim/input/fields/cluster_fields.h"
#include "sim/input/fields/fields.h"
#include "sim/input/fields/plan_fields.h"
#include "sim/input/frameworks/framework.h"
#include "sim/input/plan/draft.h"
#include "sim/input/plan/whatif.h"
#include "sim/program/plan/context_plan.h"
#include "sim/program/plan/recompute_modules.h"
#include "sim/study/plan/space.h"

namespace sim::planner {

namespace {

using program::LayerPolicy;
using program::Recompute;
using program::RecomputeMethod;

constexpr int largest_value = 1 << 20;
constexpr std::int64_t most_bases = 4096;
constexpr std::size_t most_problems = 20;  // for the values of a question

// Reads "core_attn,mlp". The plan refuses unknown names.
program::RecomputeModules modules_named(std::string_view list) {
  program::RecomputeModules modules;
  modules.core_attention = false;
  for (const std::string& name : split(list)) program::add_recompute_module(modules, name);
  return modules;
}

// Reads "1,2,4" as numbers. Reports values that are not numbers, up to a limit.
void numbers(const input::Vary& vary, int least, std::vector<int>& to, Diagnostics& problems) {
  std::set<int> seen;
  for (const std::string& text : vary.values) {
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value < least ||
        value > largest_value) {
      if (problems.size() == most_problems) return;
      problems.push_back({fmt::format("command line, {}={}", vary.key, text.substr(0, 80)),
                          fmt::format("takes whole numbers from {} to {}", least, largest_value)});
    } else if (seen.insert(value).second) {
      to.push_back(value);
    }
  }
}

void words_of(const input::Vary& vary, const std::vector<std::string>& choices,
              std::vector<std::string>& to, Diagnostics& problems) {
  std::set<std::string_view> seen;
  for (const std::string& text : vary.values) {
    if (!choices.empty() && std::ranges::find(choices, text) == choices.end()) {
      if (problems.size() == most_problems) return;
      problems.push_back(
          {fmt::format("command line, {}={}", vary.key, text.substr(0, 80)),
           fmt::format("is none of {}{}", fmt::join(choices, ", "), did_you_mean(text, choices))});
    } else if (seen.insert(text).second) {
      to.push_back(text);
    }
  }
}

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const schedule::Schedule& row : schedule::catalog()) names.emplace_back(row.name);
  return names;
}

// Sets the domain of a searched field; false if the search does not vary this field.
bool searched(const std::string& field, const input::Vary& vary, Domains& to,
              Diagnostics& problems) {
  const std::map<std::string, std::vector<int>*> counts = {
      {"tp", &to.tp},
      {"cp", &to.cp},
      {"pp", &to.pp},
      {"dp", &to.dp},
      {"micro_batch", &to.micro_batch},
      {"virtual_stages", &to.chunks},
      {"recompute_layers", &to.recompute_layers},
      {"offload_layers", &to.offload_layers}};
  if (const auto at = counts.find(field); at != counts.end()) {
    numbers(vary, field == "offload_layers" ? 0 : 1, *at->second, problems);
    return true;
  }
  struct Row {
    const char* field;
    std::vector<std::string>* to;
    std::vector<std::string> choices;
  };
  const Row rows[] = {{"schedule", &to.schedules, schedule_names()},
                      {"zero", &to.zero, {"0", "1", "2", "3"}},
                      {"rank_order", &to.rank_orders, {}},
                      {"allocator_options", &to.allocator_options, {}},
                      {"recompute", &to.recompute, {"none", "selective", "full"}},
                      {"recompute_method", &to.recompute_method, {"uniform", "block"}},
                      {"recompute_modules", &to.recompute_modules, {}}};
  for (const Row& row : rows)
    if (field == row.field) {
      words_of(vary, row.choices, *row.to, problems);
      return true;
    }
  return false;
}

// Whether a field states the split of layers; below, the sharding of parameters.
bool splits_layers(const std::string& field) {
  for (const char* one : {"account_for_embedding", "account_for_loss", "first_stage_layers",
                          "last_stage_layers", "layer_split", "pipeline_layout"})
    if (field == one) return true;
  return false;
}
bool shares_parameters(const std::string& field) {
  return field == "data_parallel" || field == "distributed_optimizer" || field.starts_with("fsdp");
}

// For fields that the search sets in another form: the setting to write instead; otherwise "".
std::string not_here(const std::string& field) {
  if (field == "gpus" || field == "nodes") return "write --gpus N";
  if (field == "model" || field == "cluster" || field == "architecture")
    return "write rehearse plan MODEL CLUSTER";
  if (field == "layers_per_virtual_stage") return "write virtual_stages";
  if (field == "layer_choices")
    return "write recompute and offload_layers; run what is found with layer_choices=planned";
  if (field == "replica_microbatches")
    return "run what is found with replica_microbatches=balanced";
  if (field == "slices") return "run what is found with slices=balanced";
  return "";
}

using Settings = std::vector<std::string>;

// Whether the key is architecture.FIELD, which changes the model.
bool changes_model(const std::string& key) {
  return key.starts_with("architecture.");
}

// Whether the key is a field of a block, which has only this name.
bool is_in_block(const std::string& key) {
  return changes_model(key) || key.starts_with("fsdp.") || key.starts_with("codec.");
}

// Additional choices for fields that the user did not state.
const std::string unsaid_etp = "etp=1", unsaid_context = "context=";

std::vector<Settings> combined(const std::vector<Settings>& axes) {
  std::vector<Settings> all = {{}};
  for (const Settings& axis : axes) {
    std::vector<Settings> more;
    for (const Settings& left : all)
      for (const std::string& right : axis) {
        more.push_back(left);
        more.back().push_back(right);
      }
    all = std::move(more);
  }
  return all;
}

// Notes in the domains that the user states this field, which the search does not vary.
void note_stated(const std::string& field, const std::string& text, Domains& domains) {
  domains.context_said |= field == "context" || field == "ulysses";
  domains.ep_said |= field == "ep";
  domains.etp_said |= field == "etp";
  domains.reshard_said |= text.find("reshard_after_forward") != std::string::npos;
  domains.layers_said |= splits_layers(field);
  domains.sharding_said |= shares_parameters(field);
}

// The problem that the axes have more combinations than a search covers; empty if they have not.
Diagnostics too_many_bases(const std::vector<Settings>& axes, std::size_t gpus) {
  double bases = static_cast<double>(gpus);
  for (const Settings& axis : axes) bases *= static_cast<double>(axis.size());
  if (bases <= static_cast<double>(most_bases)) return {};
  std::string wide;
  for (const Settings& axis : axes)
    if (axis.size() > 1)  // names come from the last value, since the first may be ""
      wide += fmt::format("{}{} ({} values)", wide.empty() ? "" : ", ",
                          axis.back().substr(0, axis.back().find('=')), axis.size());
  if (gpus > 1) wide += fmt::format("{}gpus ({} values)", wide.empty() ? "" : ", ", gpus);
  return {{"command line",
           fmt::format("{:.3g} combinations of fields that change the machine or the model's "
                       "numerics; at most {} are searched, each with all degrees and schedules: "
                       "fix some of {}",
                       bases, most_bases, wide)}};
}

// The settings of the job, and of the question.
Settings all_settings(const Question& question) {
  Settings all = question.job;
  all.insert(all.end(), question.settings.begin(), question.settings.end());
  return all;
}

// The stated framework, the first of several; "": none.
std::string framework_in(const Settings& settings) {
  constexpr std::string_view key = "framework=";
  for (const std::string& one : settings)
    if (one.starts_with(key)) return one.substr(key.size(), one.find(',') - key.size());
  return "";
}

// Whether the stated framework uses PyTorch's context_parallel as its only method. `any` is some
// plan of the model.
bool shares_as_torch(Settings any, const Settings& settings) {
  const std::string framework = framework_in(settings);
  if (framework.empty()) return false;
  any.push_back("framework=" + framework);
  const Result<input::DraftPlan> file = input::load_draft("", any);
  return file && !program::context_method(file->plan).torch.empty();
}

}  // namespace

bool is_searched(const std::string& field) {
  Domains domains;
  Diagnostics problems;
  if (searched(field, {field, {"1"}}, domains, problems)) return true;
  note_stated(field, field, domains);
  return domains.context_said || domains.ep_said || domains.etp_said || domains.layers_said ||
         domains.sharding_said || !not_here(field).empty();
}

Result<std::vector<Settings>> Space::unsaid_axes(const Question& question) const {
  std::vector<Settings> axes;
  Settings any = {"cluster=" + question.cluster,
                  "gpus=1",
                  "global_batch=1",
                  "sequence=1024",
                  "tp=1",
                  "cp=1",
                  "pp=1"};
  if (!question.model.empty()) any.push_back("model=" + question.model);
  const Settings settings = all_settings(question);
  for (const std::string& one : settings)
    if (changes_model(one))
      any.push_back(one.substr(0, one.find(',')));  // the first of several values
  if (!domains_.context_said && domains_.cp != std::vector{1})
    axes.push_back(shares_as_torch(any, settings)
                       ? Settings{"", unsaid_context + "torch-alltoall"}
                       : Settings{"", unsaid_context + "all-gather", unsaid_context + "ulysses"});
  if (domains_.ep_said && domains_.etp_said) return axes;
  const Result<input::DraftPlan> file = input::load_draft("", any);
  if (!file) return file.errors();
  const std::int64_t experts = file->plan.architecture.experts.count;
  if (experts == 0) return axes;
  if (!domains_.ep_said) {
    Settings& ep = axes.emplace_back();
    const int most = *std::ranges::max_element(question.gpus);
    for (std::int64_t n = 1; n <= std::min<std::int64_t>(experts, most); n *= 2)
      if (experts % n == 0) ep.push_back(fmt::format("ep={}", n));
  }
  if (!domains_.etp_said) axes.push_back({"", unsaid_etp});
  return axes;
}

// Loads the bases. `others` has for each base the settings that are not searched.
Diagnostics Space::load_bases(const Question& question,
                              const std::vector<std::vector<std::string>>& others) {
  Diagnostics problems;
  for (const int gpus : question.gpus)
    for (const Settings& other : others) {
      Base base;
      base.gpus = gpus;
      Settings settings = {"cluster=" + question.cluster, fmt::format("gpus={}", gpus)};
      if (!question.model.empty()) settings.insert(settings.begin(), "model=" + question.model);
      int ep = 1;
      for (const std::string& one : other) {
        if (one.empty()) continue;
        settings.push_back(one);
        if (one.starts_with("ep=")) ep = std::atoi(one.c_str() + 3);
        base.shares_tensors |= !domains_.etp_said && one == unsaid_etp;
        base.shares_sequences |= !domains_.context_said && one.starts_with(unsaid_context);
      }
      if (!domains_.ep_said && gpus % ep != 0) continue;
      const std::string framework = framework_in(settings);
      if (const auto* named = framework.empty() ? nullptr : input::find_framework(framework))
        for (const std::string& one : named->search)
          if (!stated_.contains(one.substr(0, one.find('=')))) settings.push_back(one);
      for (const std::string& one : settings) base.words += (base.words.empty() ? "" : " ") + one;
      const std::string plain = fmt::format("schedule={}", schedule::default_schedule().name);
      for (const char* one : {"tp=1", "cp=1", "pp=1", "micro_batch=1", "virtual_stages=1",
                              plain.c_str(), "recompute=none"})
        settings.emplace_back(one);
      Result<input::DraftPlan> file = input::load_draft("", settings);
      if (!file) {
        for (const Diagnostic& problem : file.errors()) problems.push_back(problem);
        return problems;
      }
      base.file = *file;
      base.limits = limits_of(framework, stated_);
      bases_.push_back(std::move(base));
    }
  return problems;
}

// Reads one "key=value[,value...]" of the question: a domain of a searched field, or an axis of the
// bases. `said`: the settings so far, by field.
void Space::read_setting(const std::string& text, std::map<std::string, std::string>& said,
                         std::vector<Settings>& axes, Diagnostics& problems) {
  const Result<input::Vary> vary = input::parse_vary(text);
  if (!vary) {
    for (const Diagnostic& problem : vary.errors()) problems.push_back(problem);
    return;
  }
  if (!input::is_cluster_setting(text)) {
    const std::string where = "command line, " + text.substr(0, 80);
    const input::FieldName name =
        is_in_block(vary->key) ? input::FieldName{vary->key, ""} : input::plan_field(vary->key);
    if (!name.problem.empty()) return problems.push_back({where, name.problem});
    const std::string& field = name.field;
    const auto [first, added] = said.emplace(field, text);
    if (!added)
      return problems.push_back(
          {where, fmt::format("'{}' says it too; write {}={} with all values, or leave one out",
                              first->second, field, "V1,V2")});
    if (const std::string instead = not_here(field); !instead.empty())
      return problems.push_back({where, instead});
    if (searched(field, *vary, domains_, problems)) return;
    note_stated(field, text, domains_);
  }
  Settings& axis = axes.emplace_back();
  // fp8 is a way to multiply beside a precision, but most people name it as one.
  for (const std::string& value : vary->values)
    axis.push_back(vary->key == "precision" && value == "fp8" ? "fp8=true"
                                                              : vary->key + "=" + value);
}

// Problems between settings that are correct alone.
void Space::check_settings(const std::map<std::string, std::string>& said,
                           Diagnostics& problems) const {
  if (domains_.sharding_said && !domains_.zero.empty())
    problems.push_back({"command line, zero",
                        "data_parallel and distributed_optimizer say it too; "
                        "leave one out"});
  const auto without_effect = [&](const char* field, const char* needed) {
    const std::vector<std::string>& ways = domains_.recompute;
    if (!said.contains(field) || ways.empty() || std::ranges::find(ways, needed) != ways.end())
      return;
    problems.push_back({fmt::format("command line, {}", field),
                        fmt::format("is of recompute={}, which '{}' leaves out; leave one of them "
                                    "out",
                                    needed, said.at("recompute"))});
  };
  without_effect("recompute_layers", "full");
  without_effect("recompute_method", "full");
  without_effect("recompute_modules", "selective");
}

Diagnostics Space::read(const Question& question) {
  Diagnostics problems;
  std::vector<Settings> axes;
  std::map<std::string, std::string> said;  // by field
  for (const std::string& text : all_settings(question)) read_setting(text, said, axes, problems);
  check_settings(said, problems);
  if (!problems.empty()) return problems;
  for (const auto& [field, text] : said) stated_.insert(field);
  stated_.insert(question.beyond.begin(), question.beyond.end());
  if (domains_.sharding_said) stated_.insert("zero");
  if (domains_.layers_said) stated_.insert("layer_split");
  if (domains_.context_said) stated_.insert("context");
  if (!domains_.sharding_said) {
    Settings& axis = axes.emplace_back();
    for (const std::string& stage :
         domains_.zero.empty() ? std::vector<std::string>{"1", "2", "3"} : domains_.zero)
      axis.push_back("zero=" + stage);
  }
  const Result<std::vector<Settings>> unsaid = unsaid_axes(question);
  if (!unsaid) return unsaid.errors();
  axes.insert(axes.end(), unsaid->begin(), unsaid->end());
  problems = too_many_bases(axes, question.gpus.size());
  if (problems.empty()) problems = load_bases(question, combined(axes));
  if (problems.empty()) problems = absent_modules();
  return problems;
}

// Problems of stated modules that no base's network has.
Diagnostics Space::absent_modules() const {
  Diagnostics problems;
  for (const std::string& one : domains_.recompute_modules) {
    std::vector<std::string> absent;
    const bool somewhere = std::ranges::any_of(bases_, [&](const Base& base) {
      absent = program::absent_modules(modules_named(one), base.file.plan.architecture);
      return absent.empty();
    });
    if (!somewhere && !absent.empty())
      problems.push_back({"command line, recompute_modules", absent.front()});
  }
  return problems;
}

void Space::fill_domains() {
  if (domains_.rank_orders.empty()) {
    const std::string& own = bases_.front().file.plan.mesh.rank_order;
    domains_.rank_orders = {own};
    if (own.empty()) domains_.rank_orders.emplace_back("tp-cp-ep-pp-dp");
  }
  if (domains_.allocator_options.empty()) {
    const std::string& own = bases_.front().file.plan.environment.allocator_options;
    domains_.allocator_options = {own};
    if (own.empty()) domains_.allocator_options.emplace_back("expandable_segments:True");
  }
  const auto allowed = [](const std::vector<std::string>& said, const char* one) {
    return said.empty() || std::ranges::find(said, one) != said.end();
  };
  // A mixture with experts in all layers has no MLP to recompute.
  const auto reaches_a_layer = [&](const LayerPolicy& policy) {
    return std::ranges::any_of(bases_, [&](const Base& base) {
      return program::absent_modules(policy.recompute_modules, base.file.plan.architecture).empty();
    });
  };
  if (allowed(domains_.recompute, "none")) policies_.push_back({LayerPolicy{}, "", false});
  if (allowed(domains_.recompute, "selective")) {
    // Flash attention recomputes its core itself, so only the MLP is offered.
    std::vector<std::string> modules = domains_.recompute_modules;
    if (modules.empty()) modules = {"mlp"};
    if (domains_.recompute_modules.empty() && !domains_.recompute.empty())
      modules.insert(modules.begin(), "core_attn");
    for (const std::string& one : modules) {
      LayerChoice choice;
      choice.policy.recompute = Recompute::selective;
      choice.policy.recompute_modules = modules_named(one);
      choice.modules = one;
      if (reaches_a_layer(choice.policy)) policies_.push_back(choice);
    }
  }
  if (!allowed(domains_.recompute, "full")) return;
  for (const auto& [name, method] : {std::pair{"uniform", RecomputeMethod::uniform},
                                     std::pair{"block", RecomputeMethod::block}}) {
    if (!allowed(domains_.recompute_method, name)) continue;
    LayerChoice choice;
    choice.policy.recompute = Recompute::full;
    choice.policy.recompute_method = method;
    if (domains_.recompute_layers.empty()) {
      choice.eighths = method == RecomputeMethod::block;
      policies_.push_back(choice);
    }
    for (const int layers : domains_.recompute_layers) {
      choice.policy.recompute_layers = layers;
      policies_.push_back(choice);
    }
  }
}

// Message if the space is too large, by an upper bound from the sizes of its domains.
std::string Space::too_large() const {
  const auto size = [](const auto& said, std::size_t otherwise) {
    return static_cast<double>(said.empty() ? otherwise : said.size());
  };
  double policies = 0;
  for (const LayerChoice& choice : policies_) policies += choice.eighths ? 7 : 1;
  const double below =
      size(domains_.micro_batch, 7) * size(domains_.schedules, 14) * size(domains_.chunks, 3) *
      (domains_.layers_said ? 1 : 2) * policies * size(domains_.offload_layers, 1) *
      static_cast<double>(domains_.rank_orders.size()) *
      static_cast<double>(domains_.allocator_options.size()) * static_cast<double>(bases_.size());
  const double meshes = size(domains_.tp, 4) * size(domains_.cp, 4) * size(domains_.pp, 6) / 2;
  constexpr double most = 1e9;  // limit of this bound, which also counts impossible plans
  // A variant's number has 16 bits.
  const bool numbered = domains_.rank_orders.size() * domains_.allocator_options.size() < 1 << 16;
  if (below * meshes <= most && numbered) return "";
  std::vector<std::pair<std::size_t, std::string>> wide;
  const auto add = [&](const char* name, std::size_t count) {
    if (count > 1) wide.emplace_back(count, name);
  };
  add("tp", domains_.tp.size());
  add("cp", domains_.cp.size());
  add("pp", domains_.pp.size());
  add("micro_batch", domains_.micro_batch.size());
  add("virtual_stages", domains_.chunks.size());
  add("schedule", domains_.schedules.size());
  add("recompute_layers", domains_.recompute_layers.size());
  add("recompute_modules", domains_.recompute_modules.size());
  add("offload_layers", domains_.offload_layers.size());
  add("rank_order", domains_.rank_orders.size());
  add("allocator_options", domains_.allocator_options.size());
  add("gpus, and fields that are not searched by themselves", bases_.size());
  std::ranges::sort(wide, std::greater<>());
  std::string text;
  for (const auto& [count, name] : wide)
    text += fmt::format("{}{} ({} values)", text.empty() ? "" : ", ", name, count);
  return fmt::format("the space has about {:.2g} plans; at most {} are searched: fix some of {}",
                     below * meshes, max_plans, text);
}

}  // namespace sim::planner
