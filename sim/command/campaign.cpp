// campaign.cpp — `rehearse campaign`: a run over weeks, with its failures.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <thread>

#include "sim/campaign/request.h"
#include "sim/command/command.h"
#include "sim/command/interrupt.h"
#include "sim/config/plan.h"
#include "sim/core/quantity.h"
#include "sim/search/evaluate.h"

namespace sim::command {

namespace {

// A time in seconds, or with a unit: "90", "1.5min", "3h", "54d".
double span_option(const Options& options, const char* name, double otherwise) {
  if (!options.has(name)) return otherwise;
  const std::string text = options.text(name);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc{} && end == text.data() + text.size() && std::isfinite(value)) {
    if (value < 0)
      throw Stop{exit_data,
                 fmt::format("--{}: error: '{}' is negative; a time is zero or more", name, text)};
    return value;
  }
  const Parsed<double> parsed = parse_span(text);
  if (const auto* message = std::get_if<std::string>(&parsed))
    throw Stop{exit_data,
               fmt::format("--{}: error: {}, or seconds without a unit", name, *message)};
  return std::get<double>(parsed);
}

// The step of a plan, from its replay.
void replay_step(const Options::Named& named, campaign::Request& request) {
  const std::string path = named.name.empty() ? "" : workload_path(named.name);
  const config::PlanFile file = need(config::load_plan(path, named.settings));
  search::Sites sites;
  search::Site* site = need(sites.of(file.machine));
  Diagnostics wrong;
  for (std::string& problem : search::problems(file.plan, *site)) wrong.push_back({path, problem});
  if (!wrong.empty()) throw Stop{complain(wrong), ""};
  const report::Answer answer = search::evaluate(file.plan, *site);
  if (!answer.run.fits()) throw Stop{exit_no, "out of memory: " + report::oom_reason(answer.run)};
  request.name = file.name.empty() ? "the plan" : file.name;
  request.step = report::step_seconds(answer);
  request.gpus = file.plan.world();
  request.tokens_per_step = std::int64_t{file.plan.global_batch} * file.plan.sequence;
  request.price_per_gpu_hour = file.machine.price_per_gpu_hour;
}

}  // namespace

int run_campaign(const Arguments& arguments, Globals globals) {
  Options options("campaign");
  options
      .value("step-time", "TIME",
             "of a step, instead of a replay of PLAN; a bare number is seconds")
      .value("gpus", "N", "of the job, beside --step-time")
      .value("mtbf", "TIME", "mean time between failures of the whole job")
      .value("checkpoint-interval", "TIME", "of training between saves (default: the best)")
      .value("checkpoint-write", "TIME", "in which a save stops the job")
      .value("checkpoint-background", "TIME", "asynchronous: after it a save is complete")
      .value("restart", "TIME", "from a failure to training again")
      .value("days", "D", "of wall time (default 54)")
      .value("seeds", "N", "campaigns to simulate (default 100)")
      .value("seed", "N", "the first of them (default 1)")
      .value("vary", "interval", "simulates other intervals too")
      .value("jobs,j", "N", "threads (default: the cores)")
      .words(0, 1000)
      .parse(arguments, globals);
  campaign::Request request;
  const Options::Named named = options.named();
  if (options.has("step-time")) {
    if (!named.name.empty())
      throw Stop{exit_usage, fmt::format("--step-time and a plan, '{}': one of them", named.name)};
    request.name = "campaign";
    request.step = span_option(options, "step-time", 0);
    request.gpus = static_cast<int>(options.number("gpus", 1, 1, 10'000'000));
  } else if (named.name.empty() && named.settings.empty()) {
    throw Stop{exit_usage, "name a plan, or give --step-time"};
  }
  request.mtbf = span_option(options, "mtbf", 0);
  request.interval = span_option(options, "checkpoint-interval", 0);
  request.write = span_option(options, "checkpoint-write", 0);
  request.background = span_option(options, "checkpoint-background", 0);
  request.restart = span_option(options, "restart", 0);
  request.days = span_option(options, "days", 54);
  if (!options.has("step-time")) replay_step(named, request);
  const Diagnostics wrong = campaign::problems(request, "command line");
  if (!wrong.empty()) return complain(wrong);
  const auto cores = static_cast<std::int64_t>(std::max(1U, std::thread::hardware_concurrency()));
  campaign::Seeds seeds;
  seeds.first = static_cast<std::uint64_t>(
      options.number("seed", 1, 0, std::numeric_limits<std::int64_t>::max() / 2));
  seeds.count = static_cast<int>(options.number("seeds", 100, 1, 1'000'000));
  seeds.threads = static_cast<int>(options.number("jobs", cores, 1, 1024));
  const bool vary = options.has("vary");
  if (vary) options.choice("vary", "interval", {"interval"});
  catch_interrupts();
  const std::optional<campaign::Summary> summary = campaign::run(
      request, campaign::spec_of(request), seeds, vary, [] { return !interrupted(); });
  if (!summary) throw Stop{exit_interrupted, "interrupted"};
  print(globals.json ? report::document("campaign", campaign::to_json(*summary)).dump(2) + "\n"
                     : campaign::text(*summary));
  return exit_yes;
}

}  // namespace sim::command
