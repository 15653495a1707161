#include "sim/study/plan/space.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <map>
#include <set>

#include "sim/program/plan/layer_partition.h"
#include "sim/program/plan/schedule_plan.h"

namespace sim::planner {

namespace {

using program::Plan;
using program::Recompute;
using program::RecomputeMethod;

constexpr std::int64_t least_tokens_of_a_rank = 1024;
constexpr int most_context_parallel = 32, most_micro_batch = 64;
const std::vector<int> usual_chunks = {1, 2, 3, 4, 5, 6, 7, 8};
constexpr std::size_t most_reasons = 5;

std::vector<int> powers_of_two(std::int64_t most) {
  std::vector<int> all;
  for (std::int64_t n = 1; n <= most; n *= 2) all.push_back(static_cast<int>(n));
  return all;
}

std::vector<int> divisors_up_to(std::int64_t n, std::int64_t most) {
  std::vector<int> all;
  for (std::int64_t d = 1; d <= std::min(n, most); ++d)
    if (n % d == 0) all.push_back(static_cast<int>(d));
  return all;
}

std::vector<int> either(const std::vector<int>& said, const std::vector<int>& otherwise) {
  return said.empty() ? otherwise : said;
}

bool has(const std::vector<int>& said, int value) {
  return said.empty() || std::ranges::find(said, value) != said.end();
}

// Rules on these fields depend only on mesh and microbatch.
bool of_the_mesh(const std::string& field) {
  for (const char* other :
       {"schedule", "pp", "virtual_stages", "layer_split", "pipeline_layout", "first_stage_layers",
        "last_stage_layers", "account_for_embedding", "account_for_loss", "recompute_layers",
        "recompute_modules", "offload_layers"})
    if (field == other) return false;
  return true;
}

bool of_the_layers(const std::string& field) {
  return field == "recompute_layers" || field == "recompute_modules" || field == "offload_layers";
}

// Whether the schedule accepts this number of chunks for some shape.
bool takes(const schedule::Schedule& row, int chunks) {
  const schedule::PipelineShape shape{.stages = 2, .microbatches = 24, .chunks = chunks};
  return row.problem(shape).empty();
}

void set_split(Split split, Plan& plan) {
  plan.pipeline.account_for_embedding = plan.pipeline.account_for_loss = split == Split::ends;
  plan.pipeline.layer_split =
      split == Split::padded ? program::LayerSplit::padded : program::LayerSplit::even;
}

int fewest_layers(const Plan& plan) {
  int least = program::part_layers(plan, 0);
  const int parts = program::count_parts(plan);
  for (const int part : {1, parts / 2, parts - 1})
    least = std::min(least, program::part_layers(plan, std::clamp(part, 0, parts - 1)));
  return least;
}

}  // namespace

// A path from the root of the tree to a core.
struct Space::Level {
  bool first_only = false;
  PlanShape core;
  Plan plan;
  // by field: count and message
  std::map<std::string, std::pair<std::int64_t, std::string>> broken;

  void note(const Diagnostics& problems, std::int64_t plans) {
    auto& [count, message] = broken[problems.front().where];
    if (message.empty()) message = problems.front().message;
    count += plans;
  }
  // Whether the plan is beyond a limit of its framework. The space leaves such plans out.
  bool is_limited(const Base& base) {
    const auto found =
        std::ranges::find_if(base.limits, [&](const Limit* one) { return one->breaks(plan); });
    if (found == base.limits.end()) return false;
    auto& [count, message] = broken[std::string((*found)->fields)];
    if (message.empty()) message = (*found)->reason(plan);
    ++count;
    return true;
  }
};

namespace {

// Number of recomputation policies below one choice of schedule.
std::int64_t policies_of(const std::vector<LayerChoice>& policies, int layers) {
  std::int64_t count = 0;
  for (const LayerChoice& choice : policies) count += choice.eighths ? std::min(7, layers - 1) : 1;
  return count;
}

// Offloaded modules are not searched and come from the base.
void take_modules(const program::LayerPolicy& base, program::LayerPolicy& to) {
  to.offload_modules = base.offload_modules;
  to.offload_min_elements = base.offload_min_elements;
  to.activation_offload_fraction = base.activation_offload_fraction;
  to.offload_delta_bytes = base.offload_delta_bytes;
}

// One to seven eighths of a chunk's layers, without duplicates.
std::vector<int> eighths_of(int layers) {
  std::vector<int> all;
  for (int eighth = 1; eighth < 8; ++eighth) {
    const int n = (layers * eighth + 4) / 8;
    if (n > 0 && n < layers && (all.empty() || all.back() != n)) all.push_back(n);
  }
  return all;
}

}  // namespace

int Space::orders(const PlanShape& core) const {
  const bool alike = core.pp == 1 || core.dp == 1;
  return alike ? 1 : static_cast<int>(domains_.rank_orders.size());
}

// Adds every recomputation and offload choice under a schedule. True: `first_only` found its plan.
bool Space::consider(Level& at) {
  const std::vector<int> offloads = either(domains_.offload_layers, {0});
  const std::int64_t variants = this->variants(at.core);
  const int layers = fewest_layers(at.plan);
  const program::LayerPolicy& base = bases_[at.core.base].file.plan.policy;
  // Sequence slices and experts exclude some policies, so the rules are checked.
  const bool ask = !domains_.recompute_layers.empty() || !domains_.recompute_modules.empty() ||
                   !domains_.offload_layers.empty() || base.offload_modules != 0 ||
                   program::slice_count(at.plan) > 1 || at.plan.architecture.is_mixture();
  for (std::size_t i = 0; i < policies_.size(); ++i) {
    const LayerChoice& choice = policies_[i];
    const std::vector<int> counts =
        choice.eighths ? eighths_of(layers) : std::vector{choice.policy.recompute_layers};
    for (const int count : counts)
      for (const int offload : offloads) {
        at.plan.policy = choice.policy;
        at.plan.policy.recompute_layers = count;
        at.plan.policy.offload_layers = offload;
        take_modules(base, at.plan.policy);
        if (at.is_limited(bases_[at.core.base])) continue;
        plans_ += variants;
        if (ask) {
          const auto problems = program::problems(at.plan);
          if (!problems.empty()) {
            at.note(problems, variants);
            impossible_ += variants;
            continue;
          }
        }
        at.core.policy = static_cast<std::uint32_t>(i);
        at.core.recompute_layers = count;
        at.core.offload_layers = offload;
        cores_.push_back(at.core);
        if (at.first_only) return true;
      }
  }
  at.plan.policy = {};
  return false;
}

// Visits every schedule, number of chunks and split of layers of a mesh.
void Space::below(Level& at) {
  const std::span<const schedule::Schedule> catalog = schedule::catalog();
  const int layers = static_cast<int>(at.plan.architecture.layers);
  for (std::size_t s = 0; s < catalog.size(); ++s) {
    const schedule::Schedule& row = catalog[s];
    const bool said = !domains_.schedules.empty();
    if (said ? std::ranges::find(domains_.schedules, row.name) == domains_.schedules.end()
             : !program::apart(row).empty())
      continue;
    if (at.core.pp == 1 && !said && &row != &schedule::default_schedule()) continue;
    std::vector<int> chunks;
    for (const int n : either(domains_.chunks, usual_chunks))
      if (n * at.core.pp <= layers + 2 && takes(row, n)) chunks.push_back(n);
    if (row.placement != schedule::Placement::round_robin && domains_.chunks.empty())
      chunks = {row.chunks};
    if (chunks.empty() && !domains_.chunks.empty()) {
      const schedule::PipelineShape shape{
          .stages = 2, .microbatches = 24, .chunks = domains_.chunks[0]};
      if (const std::string rule = row.problem(shape); !rule.empty())
        at.note({{"virtual_stages", fmt::format("schedule {}: {}", row.name, rule)}}, 1);
    }
    for (const int n : chunks)
      for (const Split split : {Split::even, Split::ends, Split::padded}) {
        if (split != Split::even && (at.core.pp == 1 || domains_.layers_said)) continue;
        const int parts = n * at.core.pp;
        if (split == Split::padded && (layers % parts == 0 || (layers + 2) % parts == 0)) continue;
        at.core.schedule = static_cast<std::uint8_t>(s);
        at.core.chunks = n;
        at.core.split = split;
        at.plan.pipeline.schedule = row.name;
        at.plan.pipeline.virtual_stages = n;
        if (!domains_.layers_said) set_split(split, at.plan);
        at.plan.policy = {};
        if (at.is_limited(bases_[at.core.base])) continue;
        auto problems = program::problems(at.plan);
        std::erase_if(problems, [](const auto& p) { return of_the_layers(p.where); });
        if (problems.empty()) {
          if (consider(at)) return;
          continue;
        }
        const std::int64_t lost =
            policies_of(policies_, std::max(2, layers / (n * at.core.pp))) * variants(at.core);
        at.note(problems, lost);
        plans_ += lost;
        impossible_ += lost;
      }
  }
}

// The plans of one mesh, for each microbatch size.
bool Space::enumerate_microbatches(Level& at) {
  const std::int64_t most =
      std::clamp<std::int64_t>(at.plan.batch.global_batch / at.core.dp, 1, most_micro_batch);
  for (const int size : either(domains_.micro_batch, powers_of_two(most))) {
    at.core.micro_batch = size;
    at.plan.batch.micro_batch = size;
    at.plan.pipeline.schedule = schedule::default_schedule().name;
    at.plan.pipeline.virtual_stages = 1;
    at.plan.policy = {};
    if (!domains_.layers_said) set_split(Split::even, at.plan);
    auto problems = program::problems(at.plan);
    std::erase_if(problems, [](const auto& p) { return !of_the_mesh(p.where); });
    if (!problems.empty()) {
      const std::int64_t lost = policies_of(policies_, 8) * variants(at.core);
      at.note(problems, lost);
      plans_ += lost;
      impossible_ += lost;
      continue;
    }
    below(at);
    if ((at.first_only && !cores_.empty()) || plans_ > max_plans) return true;
  }
  return false;
}

// The plans of one base, for each mesh.
bool Space::enumerate_base(std::size_t number, Level& at) {
  const Base& base = bases_[number];
  at.plan = base.file.plan;
  const topology::Node& node = base.file.machine.cluster.node;
  const std::int64_t layers = at.plan.architecture.layers;
  const std::int64_t most_cp = std::clamp<std::int64_t>(
      at.plan.batch.sequence / least_tokens_of_a_rank, 1, most_context_parallel);
  for (const int tp : either(domains_.tp, powers_of_two(std::min(node.gpus, base.gpus)))) {
    if (base.shares_tensors && tp == 1) continue;
    for (const int cp : either(domains_.cp, powers_of_two(most_cp))) {
      if (base.shares_sequences && cp == 1) continue;
      for (const int pp : either(domains_.pp, divisors_up_to(base.gpus, layers))) {
        const std::int64_t parallel = std::int64_t{tp} * cp * pp;
        if (parallel > base.gpus || base.gpus % parallel != 0) continue;
        const int dp = static_cast<int>(base.gpus / parallel);
        if (!has(domains_.dp, dp)) continue;
        at.core = {};
        at.core.base = static_cast<std::uint16_t>(number);
        at.core.tp = at.plan.mesh.tp = tp;
        at.core.cp = at.plan.mesh.cp = cp;
        at.core.pp = at.plan.mesh.pp = pp;
        at.core.dp = at.plan.mesh.dp = dp;
        if (enumerate_microbatches(at)) return true;
      }
    }
  }
  return false;
}

// The rules that impossible plans broke, or why no plan was looked at.
void Space::note_reasons(const Level& at) {
  std::vector<std::pair<std::int64_t, std::string>> reasons;
  for (const auto& [field, why] : at.broken) reasons.emplace_back(-why.first, why.second);
  std::ranges::sort(reasons);
  for (const auto& [count, message] : reasons)
    if (reasons_.size() < most_reasons) reasons_.push_back(message);
  if (plans_ > 0 || !reasons_.empty()) return;
  std::set<int> gpus;
  for (const Base& base : bases_) gpus.insert(base.gpus);
  reasons_.push_back(fmt::format("the degrees that are asked for do not multiply to {} GPUs",
                                 fmt::join(gpus, " or ")));
}

void Space::enumerate(bool first_only) {
  Level at;
  at.first_only = first_only;
  for (std::size_t b = 0; b < bases_.size(); ++b)
    if (enumerate_base(b, at)) return;
  note_reasons(at);
}

Contradiction Space::contradiction() const {
  // The batch is the question, never part of a contradiction.
  std::vector<std::string> always, said;
  for (const std::string& one : question_.settings) {
    const bool batch = one.starts_with("global_batch=") || one.starts_with("sequence=");
    (batch ? always : said).push_back(one);
  }
  Contradiction found;  // of the last impossible settings
  const auto possible = [&](const std::vector<std::string>& settings) {
    Question part = question_;
    part.settings = always;
    part.settings.insert(part.settings.end(), settings.begin(), settings.end());
    Space space;
    if (!space.read(part).empty()) return true;
    space.fill_domains();
    space.enumerate(true);
    if (!space.cores_.empty()) return true;
    found = {settings, space.reasons_};
    return false;
  };
  if (!possible({})) return found;
  for (const std::string& one : said)
    if (!possible({one})) return found;
  for (std::size_t i = 0; i < said.size(); ++i)
    for (std::size_t j = i + 1; j < said.size(); ++j)
      if (!possible({said[i], said[j]})) return found;
  // Removes each setting without which the others are still impossible.
  possible(said);
  for (const std::string& one : said) {
    std::vector<std::string> others = found.settings;
    std::erase(others, one);
    possible(others);
  }
  return found;
}

Result<Space> Space::make(const Question& question) {
  Space space;
  space.question_ = question;
  Diagnostics problems = space.read(question);
  if (!problems.empty()) return problems;
  space.fill_domains();
  if (const std::string size = space.too_large(); !size.empty())
    return Diagnostics{{"command line", size}};
  space.enumerate(false);
  if (space.plans_ > max_plans)
    return Diagnostics{{"command line", fmt::format("the space has more than {} plans, the most "
                                                    "that are searched: fix some of its fields",
                                                    max_plans)}};
  return space;
}

// As in resolve(): with a pipeline, users of fully_shard keep parameters gathered.
bool Space::reshards(const PlanShape& core) const {
  const program::ShardingPlan& sharding = bases_[core.base].file.plan.sharding;
  const bool kept = domains_.sharding_said && !domains_.reshard_said && core.pp > 1 &&
                    sharding.data_parallel == program::DataParallelism::fsdp2;
  return !kept && sharding.fsdp.reshard_after_forward;
}

Plan Space::plan(const PlanShape& core, int variant) const {
  Plan plan = bases_[core.base].file.plan;
  plan.mesh.tp = core.tp;
  plan.mesh.cp = core.cp;
  plan.mesh.pp = core.pp;
  plan.mesh.dp = core.dp;
  plan.batch.micro_batch = core.micro_batch;
  plan.pipeline.schedule = schedule::catalog()[core.schedule].name;
  plan.pipeline.virtual_stages = core.chunks;
  if (!domains_.layers_said) set_split(core.split, plan);
  plan.sharding.fsdp.reshard_after_forward = reshards(core);
  plan.policy = policies_[core.policy].policy;
  plan.policy.recompute_layers = core.recompute_layers;
  plan.policy.offload_layers = core.offload_layers;
  take_modules(bases_[core.base].file.plan.policy, plan.policy);
  assert(variant < variants(core));
  plan.mesh.rank_order = domains_.rank_orders[static_cast<std::size_t>(variant / allocators())];
  plan.environment.allocator_options =
      domains_.allocator_options[static_cast<std::size_t>(variant % allocators())];
  return plan;
}

std::string Space::words(const PlanShape& core, int variant) const {
  const schedule::Schedule& row = schedule::catalog()[core.schedule];
  std::string words =
      fmt::format("{} tp={} cp={} pp={} micro_batch={} schedule={}", bases_[core.base].words,
                  core.tp, core.cp, core.pp, core.micro_batch, row.name);
  // A single chunk is written if the schedule's default has more.
  if (core.chunks > 1 || row.chunks > 1) words += fmt::format(" virtual_stages={}", core.chunks);
  if (core.split == Split::ends) words += " account_for_embedding=true account_for_loss=true";
  if (core.split == Split::padded) words += " layer_split=padded";
  const LayerChoice& choice = policies_[core.policy];
  if (choice.policy.recompute == Recompute::selective) {
    words += " recompute=selective recompute_modules=" + choice.modules;
  } else if (choice.policy.recompute == Recompute::full) {
    words +=
        fmt::format(" recompute=full recompute_method={} recompute_layers={}",
                    choice.policy.recompute_method == RecomputeMethod::block ? "block" : "uniform",
                    core.recompute_layers);
  } else {
    words += " recompute=none";
  }
  if (core.offload_layers > 0) words += fmt::format(" offload_layers={}", core.offload_layers);
  const std::string& order = domains_.rank_orders[static_cast<std::size_t>(variant / allocators())];
  if (!order.empty()) words += " rank_order=" + order;
  const std::string& options =
      domains_.allocator_options[static_cast<std::size_t>(variant % allocators())];
  if (!options.empty()) words += " allocator_options=" + options;
  return words;
}

}  // namespace sim::planner
