// plan.cpp — `rehearse plan`: which plan should I run?
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "sim/command/command.h"
#include "sim/command/interrupt.h"
#include "sim/command/progress.h"
#include "sim/config/residuals.h"
#include "sim/planner/search.h"
#include "sim/report/json.h"

namespace sim::command {

namespace {

using planner::Objective;

Objective objective_of(const Options& options) {
  const std::string name = options.choice("objective", "time", {"time", "cost", "gpus"});
  return name == "cost" ? Objective::cost : name == "gpus" ? Objective::gpus : Objective::time;
}

}  // namespace

int run_plan(const Arguments& arguments, Globals globals) {
  Options options("plan");
  options.value("gpus", "N", "GPUs of the job; N1,N2: each of these")
      .value("batch", "B", "sequences of a step")
      .value("sequence", "S", "tokens of a sequence")
      .value("objective", "NAME", "time (default), cost, gpus")
      .value("best", "N", "plans to find (10)")
      .value("jobs,j", "N", "worker processes (default: the cores)")
      .words(2, 1000)
      .parse(arguments, globals);
  planner::Question question;
  question.model = options.words()[0];
  question.cluster = options.words()[1];
  question.gpus = {std::stoi(options.text("gpus"))};
  question.settings.assign(options.words().begin() + 2, options.words().end());
  question.settings.push_back("global_batch=" + options.text("batch"));
  question.settings.push_back("sequence=" + options.text("sequence"));
  const auto t0 = std::chrono::steady_clock::now();
  const planner::Space space = need(planner::Space::make(question));
  const auto t1 = std::chrono::steady_clock::now();
  search::Sites sites;
  for (const planner::Base& base : space.bases()) need(sites.of(base.file.machine));
  planner::Wanted wanted;
  wanted.objective = objective_of(options);
  const auto cores = static_cast<std::int64_t>(std::max(1U, std::thread::hardware_concurrency()));
  wanted.workers = static_cast<int>(options.number("jobs", cores, 1, 1024));
  catch_interrupts();
  const planner::Outcome outcome = planner::find_best(
      space, sites, wanted, [](const planner::Progress&) { return !interrupted(); });
  const auto t2 = std::chrono::steady_clock::now();
  const auto& c = outcome.counts;
  print(fmt::format("space {} s search {} s cores {}\nplans {} impossible {} time {} memory {} replayed {} bounded {}\n",
                    std::chrono::duration<double>(t1 - t0).count(),
                    std::chrono::duration<double>(t2 - t1).count(), space.cores().size(), c.plans,
                    c.impossible, c.cut_by_time, c.cut_by_memory, c.replayed, c.bounded));
  for (const auto& one : outcome.best)
    print(fmt::format("{:.4f} {:.1f}/{:.1f} {}\n", one.step_ps * 1e-12, one.reserved / 1073741824.0,
                      one.capacity / 1073741824.0,
                      space.words(space.cores()[one.core], one.variant)));
  return outcome.best.empty() ? exit_no : exit_yes;
}

}  // namespace sim::command
