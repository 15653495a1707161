#include "sim/study/campaign/build.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/base/text.h"
#include "sim/input/plan/campaign.h"
#include "sim/study/campaign/reshard.h"
#include "sim/study/campaign/steps.h"
#include "sim/study/campaign/summary.h"

namespace sim::campaign {
namespace {

double or_zero(double seconds) {
  return std::max(0.0, seconds);
}

// The replayed job of one phase on one pool.
struct Base {
  std::vector<std::string> settings;
  Degrees degrees;
  Step step;
  int nodes = 0, gpus_per_node = 8;
  double leaf_nodes = 0;
  int nics = 0;
  double price = 0;
  std::string name;
};

struct Builder {
  const Setup& setup;
  Steps* steps;  // nullptr: the step is stated
  Built built;
  Diagnostics problems{};

  void refuse(const std::string& where, std::string rule) {
    problems.push_back({where.empty() ? "command line" : where, std::move(rule)});
  }
  const std::string& where() const { return setup.file.path; }

  Base stated() const;
  Base replayed(const std::vector<std::string>& settings, const std::string& place);
  double restart_of(const Base& base, double ranks) const;
  JobShape shape_of(const Base& base, const Step& step, std::string plan) const;
  std::vector<JobShape> shapes_of(const Base& base, int phase, int pool);
  double reshard_of(const std::vector<std::string>& from, const std::vector<std::string>& to,
                    int lost) const;
  void slow_down(JobShape& shape, const Base& base);
  int job_gpus(const Base& base) const;
  // Of the whole job, from --mtbf or --gpu-mtbf; 0: neither is given.
  double mtbf_of(const Base& base) const;
  void add_kinds(const Base& base, int nodes);
  void add_tiers(const Base& base);
  void add_phases(const Base& base);
  void add_trace();
  void take_intervals();
  void check_rates(const Base& base);
};

// A job with a stated step runs on nodes of the stated size.
Base Builder::stated() const {
  Base base;
  base.name = setup.file.name.empty() ? "campaign" : setup.file.name;
  base.step.fits = true;
  base.step.seconds = setup.step;
  base.step.tokens = 1;
  base.gpus_per_node = setup.gpus_per_node;
  base.nodes = topology::nodes_of(setup.gpus, setup.gpus_per_node);
  base.nics = setup.gpus_per_node;
  base.leaf_nodes = 32;
  base.degrees.dp = setup.gpus;
  return base;
}

Base Builder::replayed(const std::vector<std::string>& settings, const std::string& place) {
  Base base;
  base.settings = settings;
  const Result<input::PlanFile> file = steps->load(settings);
  if (!file) {
    problems.insert(problems.end(), file.errors().begin(), file.errors().end());
    return base;
  }
  base.step = steps->of(settings);
  if (!base.step.fits) {
    refuse(place, "the plan cannot run: " + base.step.problem);
    return base;
  }
  const topology::Cluster& cluster = file->machine.cluster;
  base.name = file->name;
  base.degrees = base.step.degrees;
  base.gpus_per_node = cluster.node.gpus;
  base.nodes = topology::nodes_of(base.degrees.gpus(), cluster.node.gpus);
  base.nics = cluster.node.nics;
  base.leaf_nodes =
      cluster.fabric.nodes_per_leaf > 0 ? cluster.fabric.nodes_per_leaf : cluster.nodes;
  base.price = file->machine.price_per_gpu_hour;
  if (base.nodes + setup.file.spares > cluster.nodes)
    refuse(setup.file.spares_where,
           fmt::format("{} spares beside the {} nodes of the job: {} has {} nodes",
                       setup.file.spares, base.nodes, cluster.name, cluster.nodes));
  return base;
}

// Ranks create communicators one after the other at the store, so the time grows with their number.
double Builder::restart_of(const Base& base, double ranks) const {
  const input::RestartFields& r = setup.file.restart;
  return or_zero(r.scheduling) + or_zero(r.start) + or_zero(r.communicators) * ranks / 1024 +
         or_zero(r.compilation) + r.slow_steps * (r.slow_factor - 1) * base.step.seconds;
}

JobShape Builder::shape_of(const Base& base, const Step& step, std::string plan) const {
  JobShape shape;
  shape.plan = std::move(plan);
  const int gpus = steps != nullptr ? step.degrees.gpus() : setup.gpus;
  shape.nodes = topology::nodes_of(gpus, base.gpus_per_node);
  shape.step = span(step.seconds);
  shape.tokens = std::max<std::int64_t>(1, step.tokens);
  shape.restart = span(restart_of(base, gpus));
  return shape;
}

// Seconds to reshard: all ranks receive at once over the new plan's network; the largest amount
// decides.
double Builder::reshard_of(const std::vector<std::string>& from, const std::vector<std::string>& to,
                           int lost) const {
  const Result<input::PlanFile> before = steps->load(from), after = steps->load(to);
  if (!before || !after) return 0;
  const Result<answer::Site*> site = steps->site(*after);
  if (!site) return 0;
  const Degrees then = degrees_of(before->plan), now = degrees_of(after->plan);
  const Received comes = received(then, now, gpus_after_loss(then.gpus(), now.gpus(), lost),
                                  state_parameters(after->plan), parameter_bytes(after->plan));
  return fabric_seconds(after->plan, **site, comes.most);
}

void Builder::slow_down(JobShape& shape, const Base& base) {
  const bool any = std::ranges::any_of(
      setup.kinds, [](const input::FailureFields& kind) { return kind.speed < 1; });
  if (!any) return;
  for (const input::FailureFields& kind : setup.kinds) {
    double factor = 1 / kind.speed;  // all other ranks wait for it
    if (kind.speed < 1 && steps != nullptr) {
      // The slow GPU is the first GPU of the first node. Its position affects the pipeline only by
      // its stage.
      std::vector<std::string> settings = base.settings;
      settings.push_back(
          fmt::format("condition={{node: 0 gpu: 0 speed: {}}}", shortest(kind.speed)));
      const Step& slow = steps->of(settings);
      if (slow.fits) factor = slow.seconds / base.step.seconds;
      if (!slow.fits) refuse(kind.where, "a slow GPU cannot be replayed: " + slow.problem);
    }
    shape.slowed.push_back({std::llround(static_cast<double>(shape.step.ns) * factor)});
  }
}

std::vector<JobShape> Builder::shapes_of(const Base& base, int phase, int pool) {
  std::vector<JobShape> shapes = {shape_of(base, base.step, base.name)};
  slow_down(shapes.front(), base);
  std::string plan = base.name;
  for (const std::string& setting : base.settings) plan += " " + setting;
  built.shapes.push_back({0, phase, pool, plan, base.step.seconds, 1, 0});
  const int most = std::min(setup.file.missing_most, shapes.front().nodes - 1);
  for (int missing = 1; steps != nullptr && setup.file.answer != "wait" && missing <= most;
       ++missing) {
    const int gpus = (shapes.front().nodes - missing) * base.gpus_per_node;
    const std::vector<std::string> settings =
        setup.file.answer == "shrink"
            ? shrunk(base.degrees, gpus)
            : replanned(*steps, base.settings, base.degrees, gpus, base.gpus_per_node, nullptr);
    JobShape less;  // cannot run
    if (!settings.empty()) {
      std::vector<std::string> all = base.settings;
      all.insert(all.end(), settings.begin(), settings.end());
      const Step& step = steps->of(all);
      if (step.fits) {
        less = shape_of(base, step, fmt::format("{}", fmt::join(settings, " ")));
        slow_down(less, base);
        const double search =
            setup.file.answer == "replan" ? or_zero(setup.file.restart.search) : 0;
        less.change = span(search + reshard_of(base.settings, all, missing * base.gpus_per_node));
        // Returning to the complete job reshards as well.
        if (missing == 1 || shapes.front().change.ns == 0)
          shapes.front().change = span(search + reshard_of(all, base.settings, 0));
        built.shapes.push_back({missing, phase, pool, less.plan, step.seconds,
                                step.per_second() / base.step.per_second(), seconds(less.change)});
      }
    }
    shapes.push_back(std::move(less));
  }
  return shapes;
}

Lifetime lifetime_of(const input::LifetimeFields& from, Diagnostics& problems) {
  Lifetime life;
  life.law = find_law(from.law);
  life.mean = from.mean;
  life.shape = from.shape;
  life.early = from.early;
  life.burn_in = from.burn_in;
  std::vector<std::string> names;
  for (const Law& law : laws()) names.emplace_back(law.name);
  if (life.law == nullptr)
    problems.push_back(
        {from.where, fmt::format("there is no law '{}'{}; one of {}", from.law,
                                 did_you_mean(from.law, names), fmt::join(names, ", "))});
  else if (const std::string wrong = problem(life); !wrong.empty())
    problems.push_back({from.where, wrong});
  return life;
}

// Number of parts in the whole pool, with spares.
double parts_of(input::PartOf part, const Base& base, int nodes) {
  switch (part) {
    case input::PartOf::gpu:
      return static_cast<double>(nodes) * base.gpus_per_node;
    case input::PartOf::nic:
      return static_cast<double>(nodes) * std::max(1, base.nics);
    case input::PartOf::node:
      return nodes;
    case input::PartOf::leaf:
      return std::ceil(nodes / base.leaf_nodes);
    case input::PartOf::job:
      break;
  }
  return 1;
}

int Builder::job_gpus(const Base& base) const {
  return steps != nullptr ? static_cast<int>(base.degrees.gpus()) : setup.gpus;
}

double Builder::mtbf_of(const Base& base) const {
  return setup.gpu_mtbf > 0 ? setup.gpu_mtbf / job_gpus(base) : or_zero(setup.file.mtbf);
}

void Builder::add_kinds(const Base& base, int nodes) {
  Spec& spec = built.spec;
  const input::CampaignFile& file = setup.file;
  double rate = 0, in_use = 0, detection = 0;
  if (setup.kinds.empty()) {
    FailureKind any;
    any.name = "any failure";
    const double mtbf = mtbf_of(base);
    any.life = {find_law("exponential"), mtbf};
    any.detection = span(or_zero(file.restart.detection));
    if (setup.repair > 0) {
      // The rate holds for the job's own nodes. Spares fail as often.
      any.life.mean *= base.nodes;
      any.parts = nodes;
      any.takes = Takes::node;
      any.repair = {find_law("exponential"), setup.repair};
    }
    spec.kinds.push_back(any);
    rate = in_use = mtbf > 0 ? 1 / mtbf : 0;
    detection = or_zero(file.restart.detection);
  }
  for (const input::FailureFields& from : setup.kinds) {
    FailureKind kind;
    kind.name = from.name;
    kind.life = lifetime_of(from.life, problems);
    kind.parts = parts_of(from.part, base, nodes);
    kind.takes = static_cast<Takes>(from.takes);
    if (kind.takes == Takes::group) kind.group = static_cast<int>(base.leaf_nodes);
    const double seen = from.detection >= 0 ? from.detection : or_zero(file.restart.detection);
    kind.detection = span(seen);
    if (from.repair.mean > 0) kind.repair = lifetime_of(from.repair, problems);
    kind.straggler = from.speed < 1;
    kind.at_save = file.stragglers == "save";
    if (kind.straggler) kind.found = lifetime_of(from.found, problems);
    spec.kinds.push_back(kind);
    if (from.life.mean <= 0) continue;
    // Rate for the job's own nodes, since failures of spares do not stop it.
    const double own = parts_of(from.part, base, base.nodes) / from.life.mean;
    rate += own;
    detection += own * seen;
    if (from.part != input::PartOf::job) continue;
    built.job_kinds.push_back(from.name);
    built.job_share += own;
  }
  if (rate > 0) built.job_share /= rate;
  if (!setup.kinds.empty() && rate > 0) detection /= rate;
  if (!setup.trace.empty() && file.length > 0)
    rate = static_cast<double>(setup.trace.size()) / file.length;
  built.costs.mtbf = rate > 0 ? 1 / rate : 0;
  built.costs.restart = detection;
  built.memoryless = setup.trace.empty() && setup.file.phases.empty() && setup.file.pools.empty() &&
                     file.checkpoints.size() == 1 && !setup.takes_nodes() && detection == 0;
}

void Builder::add_trace() {
  if (setup.trace.empty()) return;
  // The table of kinds gives the effect of a failure, the trace its time.
  for (FailureKind& kind : built.spec.kinds) kind.life.mean = 0;
  for (const input::TraceRow& row : setup.trace)
    built.spec.trace.push_back({Moment{span(row.seconds).ns}, row.kind, row.node,
                                row.repair >= 0 ? span(row.repair) : Span{-1}});
}

void Builder::add_tiers(const Base& base) {
  const Result<input::PlanFile> file =
      steps != nullptr ? steps->load(base.settings) : Diagnostics{{"", "no plan"}};
  answer::Site* site = nullptr;
  if (file) {
    const Result<answer::Site*> found = steps->site(*file);
    if (found) site = *found;
  }
  if (site != nullptr) built.ways = ways_of(file->plan, *site, base.step.seconds);
  for (const input::CheckpointFields& from : setup.file.checkpoints) {
    if (site != nullptr) {
      built.spec.tiers.push_back(tier_of(from, built.ways, file->plan, *site, base.step.seconds));
      continue;
    }
    built.spec.tiers.push_back({from.name, span(or_zero(from.interval)), span(or_zero(from.write)),
                                span(or_zero(from.background)), span(or_zero(from.load)),
                                from.survives >= 0 ? from.survives : survives_everything});
  }
  std::ranges::stable_sort(built.spec.tiers, {}, &Tier::survives);
  if (built.spec.tiers.back().survives != survives_everything)
    refuse(where(), "no checkpoint survives the loss of many nodes; add one on storage");
  built.assumed = assumptions(setup, site != nullptr);
  built.load_in_restart = setup.load_in_restart;
}

// Sets missing intervals and checks the rules of all intervals.
void Builder::take_intervals() {
  Costs costs = built.costs;
  for (std::size_t i = 0; i < built.spec.tiers.size(); ++i) {
    Tier& tier = built.spec.tiers[i];
    const std::string& place =
        setup.file.checkpoints[std::min(i, setup.file.checkpoints.size() - 1)].where;
    costs.write = seconds(tier.blocking);
    const double step = seconds(built.spec.phases.front().shapes.front().front().step);
    const double least = std::max({step, seconds(tier.blocking), seconds(tier.background)});
    // Without failures every interval is equally good: save once a day, and at least once in a
    // campaign.
    const double best =
        std::min(costs.mtbf > 0 ? best_interval(costs) : seconds_per_day, setup.file.length);
    if (i + 1 == built.spec.tiers.size()) {
      built.least_interval = least;
      built.usual_interval = std::max(best, least);
      built.costs.write = costs.write;
    }
    if (tier.interval.ns == 0) tier.interval = span(std::max(best, least));
    const double interval = seconds(tier.interval);
    if (interval < step)
      refuse(place, fmt::format("the interval of checkpoints, {}, is below one step, {}",
                                human_span(interval), human_span(step)));
    if (tier.blocking > tier.interval || tier.background > tier.interval)
      refuse(place, fmt::format("a checkpoint takes longer, {}, than its interval, {}",
                                human_span(seconds(std::max(tier.blocking, tier.background))),
                                human_span(interval)));
  }
}

// Whether every rank keeps its state and its microbatch size, so only the number of microbatches
// changes.
bool same_ranks(const Base& a, const Base& b) {
  const Degrees &x = a.degrees, &y = b.degrees;
  return x.tp == y.tp && x.cp == y.cp && x.pp == y.pp && x.dp == y.dp &&
         x.micro_batch == y.micro_batch && x.sequence == y.sequence && x.rank_order == y.rank_order;
}

void Builder::add_phases(const Base& base) {
  std::vector<input::PhaseFields> phases = setup.file.phases;
  if (phases.empty()) phases.push_back({"all", "", {}, 0, 0});
  std::vector<Base> bases;                       // the phase by pool; then the previous phase
  std::vector<std::vector<std::string>> starts;  // settings of each phase on the first pool
  for (std::size_t p = 0; p < phases.size(); ++p) {
    Phase phase;
    phase.name = phases[p].name;
    for (std::size_t pool = 0; pool <= setup.file.pools.size(); ++pool) {
      std::vector<std::string> settings = phases[p].settings;
      std::string place = phases[p].where;
      if (pool > 0) {
        const input::PoolFields& from = setup.file.pools[pool - 1];
        settings.insert(settings.end(), from.settings.begin(), from.settings.end());
        place = from.where;
      }
      const bool first = p == 0 && pool == 0;
      const Base here = first || steps == nullptr ? base : replayed(settings, place);
      if (!problems.empty()) return;
      if (pool > 0 && here.nodes > setup.file.pools[pool - 1].nodes)
        refuse(place, fmt::format("the plan needs {} nodes and the pool has {} then; set gpus",
                                  here.nodes, setup.file.pools[pool - 1].nodes));
      phase.shapes.push_back(shapes_of(here, static_cast<int>(p), static_cast<int>(pool)));
      const bool before_it = pool > 0 || p > 0;
      if (steps != nullptr && before_it) {
        const std::vector<std::string>& from = pool > 0 ? bases.back().settings : starts.back();
        JobShape& full = phase.shapes.back().front();
        full.change = std::max(full.change, span(reshard_of(from, here.settings, 0)));
        const auto note = std::ranges::find_if(built.shapes, [&](const ShapeNote& one) {
          return one.missing == 0 && one.phase == static_cast<int>(p) &&
                 one.pool == static_cast<int>(pool);
        });
        if (note != built.shapes.end()) note->change = seconds(full.change);
      }
      if (pool == 0) {
        phase.seamless = p > 0 && setup.file.pools.empty() && same_ranks(bases.front(), here);
        starts.push_back(here.settings);
        bases.clear();
      }
      bases.push_back(here);
    }
    phase.steps = phases[p].steps;
    if (phases[p].tokens > 0)
      phase.steps = std::max<std::int64_t>(
          1, std::llround(phases[p].tokens /
                          static_cast<double>(phase.shapes.front().front().tokens)));
    built.spec.phases.push_back(std::move(phase));
  }
}

void Builder::check_rates(const Base& base) {
  const input::CampaignFile& file = setup.file;
  if (!(file.length > 0)) refuse(where(), "the campaign has no length; write for example 54 days");
  if (file.length > 3.1e9) refuse(where(), "the campaign lasts longer than a century");
  const bool rates = file.mtbf > 0 || setup.gpu_mtbf > 0 || !setup.kinds.empty();
  if (!rates)
    refuse(where(),
           "nothing fails: give the mean time between failures of the job (--mtbf 3h) or of a GPU "
           "(--gpu-mtbf 1825d), or a table of failures: --failures " +
               listed(input::failure_names(), "or"));
  if (!(base.step.seconds > 0)) refuse(where(), "a step takes no time; its time must be positive");
  if (rates && built.costs.mtbf > 0 && built.costs.mtbf < base.step.seconds)
    refuse(where(),
           fmt::format("the mean time between failures, {}, is below one step, {}: nothing "
                       "would ever be trained",
                       human_span(built.costs.mtbf), human_span(base.step.seconds)));
  if (steps == nullptr && file.answer != "wait")
    refuse(where(),
           fmt::format("answer {}: a stated step says nothing of a job on fewer nodes; name "
                       "a plan instead of --step-time",
                       file.answer));
  if (steps == nullptr)
    for (const input::CheckpointFields& from : file.checkpoints)
      if (from.storage.bytes_per_second > 0)
        refuse(from.where,
               "storage: the size of the state follows from a plan, and --step-time has none. "
               "Write --checkpoint-write, or name a plan instead of --step-time");
  if (steps == nullptr && file.spares > base.nodes)
    refuse(file.spares_where,
           fmt::format("{} spares are more than the {} nodes of the job", file.spares, base.nodes));
}

}  // namespace

Steps steps_of(const Setup& setup) {
  std::vector<std::string> settings = setup.file.settings;
  settings.insert(settings.end(), setup.settings.begin(), setup.settings.end());
  return {setup.plan, std::move(settings)};
}

Result<Built> build(const Setup& setup, Steps& steps) {
  Builder builder{setup, setup.step > 0 ? nullptr : &steps, {}};
  const std::vector<std::string> first =
      setup.file.phases.empty() ? std::vector<std::string>{} : setup.file.phases.front().settings;
  const Base base =
      builder.steps != nullptr ? builder.replayed(first, builder.where()) : builder.stated();
  if (!builder.problems.empty()) return builder.problems;
  Built& built = builder.built;
  Spec& spec = built.spec;
  spec.length = span(or_zero(setup.file.length));
  const bool nodes = setup.takes_nodes();
  spec.nodes = nodes ? base.nodes + setup.file.spares : 0;
  for (const input::PoolFields& pool : setup.file.pools)
    spec.pools.push_back({Moment{span(pool.after).ns}, span(pool.notice), pool.nodes});
  int largest = spec.nodes;
  for (const PoolChange& pool : spec.pools) largest = std::max(largest, pool.nodes);
  builder.add_kinds(base, largest);
  builder.add_trace();
  builder.check_rates(base);
  if (!builder.problems.empty()) return builder.problems;
  builder.add_phases(base);
  if (!builder.problems.empty()) return builder.problems;
  builder.add_tiers(base);
  built.costs.restart +=
      seconds(spec.phases.front().shapes.front().front().restart) + seconds(spec.tiers.back().load);
  builder.take_intervals();
  if (!builder.problems.empty()) return builder.problems;
  if (!nodes)
    for (Phase& phase : spec.phases)
      for (std::vector<JobShape>& shapes : phase.shapes)
        for (JobShape& shape : shapes) shape.nodes = 0;
  built.memoryless = built.memoryless && spec.tiers.front().background.ns == 0;
  built.name = setup.file.name.empty() ? base.name : setup.file.name;
  built.job_gpus = builder.job_gpus(base);
  built.gpu_mtbf = setup.gpu_mtbf;
  built.table = !setup.kinds.empty();
  built.gpus = built.job_gpus + (nodes ? setup.file.spares * base.gpus_per_node : 0);
  built.gpus_per_node = base.gpus_per_node;
  built.tokens_per_step = builder.steps != nullptr ? base.step.tokens : 0;
  built.price_per_gpu_hour = setup.price > 0 ? setup.price : base.price;
  built.replays = steps.replays();
  return built;
}

}  // namespace sim::campaign
