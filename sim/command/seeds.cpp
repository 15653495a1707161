#include "sim/command/seeds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "sim/answer/site.h"
#include "sim/base/text.h"
#include "sim/output/json.h"
#include "sim/output/table.h"
#include "sim/study/sweep/pool.h"

namespace sim::command {

namespace {

constexpr double bytes_per_gib = 1024.0 * 1024.0 * 1024.0;

// The result of one seed, sent by a worker as whole numbers separated by blanks.
struct SeedAnswer {
  bool fits = true;
  std::int64_t step_ps = 0, allocated = 0, reserved = 0, needed = 0;
  int stage = -1, layer = -1, microbatch = -1;  // where it ran out of memory first
  std::string label;

  std::string text() const {
    return fmt::format("{:d} {} {} {} {} {} {} {} {}", fits, step_ps, allocated, reserved, needed,
                       stage, layer, microbatch, label);
  }
};

SeedAnswer read(const std::string& text) {
  SeedAnswer a;
  std::vector<std::int64_t> numbers;
  std::size_t at = 0;
  for (int i = 0; i < 8; ++i) {
    const std::size_t end = text.find(' ', at);
    numbers.push_back(std::stoll(text.substr(at, end - at)));
    at = end + 1;
  }
  a.fits = numbers[0] != 0;
  a.step_ps = numbers[1];
  a.allocated = numbers[2];
  a.reserved = numbers[3];
  a.needed = numbers[4];
  a.stage = static_cast<int>(numbers[5]);
  a.layer = static_cast<int>(numbers[6]);
  a.microbatch = static_cast<int>(numbers[7]);
  a.label = text.substr(at);
  return a;
}

SeedAnswer answer_of(const answer::Answer& answer) {
  SeedAnswer a;
  a.fits = answer.run.fits();
  a.step_ps = answer.run.step_time.ps;
  for (const engine::ClassReport& c : answer.run.classes) {
    a.allocated = std::max(a.allocated, c.peak_allocated.n);
    a.reserved = std::max(a.reserved, c.peak_reserved.n);
    a.needed = std::max(a.needed, c.needed.n);
  }
  if (a.fits) return a;
  const engine::OutOfMemory& first =
      *answer.run.classes[answer.run.out_of_memory.front()].out_of_memory;
  a.stage = first.stage;
  a.layer = first.place.layer;
  a.microbatch = first.place.microbatch;
  a.label = first.place.label;
  return a;
}

// The quantile: the smallest value that at least `share` of the values does not exceed.
double quantile(std::vector<double> values, double share) {
  std::ranges::sort(values);
  const double place = share * static_cast<double>(values.size());
  const auto index = static_cast<std::size_t>(std::max(0.0, std::ceil(place) - 1));
  return values[std::min(index, values.size() - 1)];
}

constexpr std::pair<const char*, double> shares[] = {{"least", 0.0}, {"p10", 0.1},  {"p50", 0.5},
                                                     {"p90", 0.9},   {"p99", 0.99}, {"most", 1.0}};

output::Json quantiles(const std::vector<double>& values) {
  output::Json json = output::Json::object();
  for (const auto& [name, share] : shares)
    json[name] = values.empty() ? output::Json(nullptr) : output::Json(quantile(values, share));
  return json;
}

// Peaks of the fullest rank, and step times of runs that fit.
struct SeedStatistics {
  std::vector<double> allocated, reserved, needed, seconds;
  std::map<std::string, int> places;
  int out_of_memory = 0, failed = 0;
};

SeedStatistics spread_of(const std::vector<SeedAnswer>& answers) {
  SeedStatistics s;
  for (const SeedAnswer& a : answers) {
    s.allocated.push_back(static_cast<double>(a.allocated) / bytes_per_gib);
    s.reserved.push_back(static_cast<double>(a.reserved) / bytes_per_gib);
    s.needed.push_back(static_cast<double>(a.needed) / bytes_per_gib);
    if (a.fits) {
      s.seconds.push_back(static_cast<double>(a.step_ps) * 1e-12);
      continue;
    }
    ++s.out_of_memory;
    ++s.places[fmt::format("stage {}, layer {}: {}", a.stage, a.layer, a.label)];
  }
  return s;
}

// Whether the cluster has parts that seeds draw: paths of flows, or GPUs that differ.
bool cluster_draws(const topology::Cluster& cluster) {
  return cluster.fabric.kind == topology::FabricKind::leaf_spine || cluster.jitter.draws();
}

bool draws_chance(const input::PlanFile& file) {
  return file.plan->draws_routes() || cluster_draws(file.machine.cluster);
}

// The answer with all seeds moved on by `draw`.
answer::Answer answer_of_draw(const input::PlanFile& file, const answer::CheckedPlan& checked,
                              const engine::Options& how, std::int64_t draw) {
  program::Plan plan = checked.plan();
  plan.experts.seed += draw;
  if (!cluster_draws(file.machine.cluster))
    return answer::evaluate_once(answer::checked(std::move(plan), checked.site()), how);
  input::Machine machine = file.machine;
  machine.cluster.fabric.hash_seed += draw;
  machine.cluster.jitter.seed += draw;
  answer::Sites sites;
  answer::Site& site = **sites.of(machine);
  return answer::evaluate_once(answer::checked(std::move(plan), site), how);
}

std::string text_of(const input::PlanFile& file, const SeedStatistics& s, int seeds) {
  std::string text =
      fmt::format("{}: {} of {} seeds ran out of memory\n", file.name, s.out_of_memory, seeds);
  if (!draws_chance(file))
    text +=
        "nothing is drawn: every seed is the same run (router=random draws routes, "
        "fabric.kind=leaf_spine paths, jitter GPUs)\n";
  output::Table table({"<", "least", "p10", "p50", "p90", "p99", "most"});
  const auto row = [&](const char* name, const std::vector<double>& values) {
    std::vector<std::string> cells{name};
    for (const auto& [quantile_name, share] : shares)
      cells.push_back(values.empty() ? "" : fmt::format("{:.3f}", quantile(values, share)));
    table.row(cells);
  };
  row("peak allocated, GiB", s.allocated);
  row("peak reserved, GiB", s.reserved);
  row("step, s", s.seconds);
  text += table.text("");
  for (const auto& [place, count] : s.places)
    text += fmt::format("{} {}\n", counted(count, "time"), place);
  return text;
}

}  // namespace

int run_seeds(const input::PlanFile& file, const answer::CheckedPlan& checked,
              const engine::Options& how, int seeds, int workers, bool json) {
  const std::int64_t first_seed = checked->experts.seed;
  std::vector<std::size_t> items(static_cast<std::size_t>(seeds));
  std::iota(items.begin(), items.end(), std::size_t{0});
  std::vector<SeedAnswer> answers(items.size());
  std::string failure;
  study::PoolCalls calls;
  calls.answer = [&](std::size_t item) {
    return answer_of(answer_of_draw(file, checked, how, static_cast<std::int64_t>(item))).text();
  };
  calls.answered = [&](std::size_t item, const std::string& text) {
    answers[item] = read(text);
    return true;
  };
  calls.failed = [&](std::size_t item, const std::string& why) {
    failure = fmt::format("seed {}: {}", first_seed + static_cast<std::int64_t>(item), why);
    return false;
  };
  calls.go_on = [] { return true; };
  const int used = std::min(workers, seeds);
  if (!draws_chance(file)) {
    const SeedAnswer one = answer_of(answer::evaluate_once(checked, how));
    std::ranges::fill(answers, one);
  } else {
    study::run_pool(items, used, calls);
  }
  if (!failure.empty()) throw Stop{exit_bug, failure};
  const SeedStatistics s = spread_of(answers);
  if (json) {
    output::Json places = output::Json::array();
    for (const auto& [place, count] : s.places)
      places.push_back({{"place", place}, {"runs", count}});
    print(output::document("run-seeds", {{"seeds", seeds},
                                         {"first_seed", first_seed},
                                         {"out_of_memory", s.out_of_memory},
                                         {"places", places},
                                         {"peak_allocated_gib", quantiles(s.allocated)},
                                         {"peak_reserved_gib", quantiles(s.reserved)},
                                         {"needed_gib", quantiles(s.needed)},
                                         {"step_time_s", quantiles(s.seconds)}})
              .dump(2) +
          "\n");
  } else {
    print(text_of(file, s, seeds));
  }
  return s.out_of_memory == 0 ? exit_yes : exit_no;
}

}  // namespace sim::command
