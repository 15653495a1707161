// campaign.cpp — `rehearse campaign`: simulates a run over weeks with failures.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "sim/base/cores.h"
#include "sim/base/quantity.h"
#include "sim/base/text.h"
#include "sim/command/common/command.h"
#include "sim/command/common/interrupt.h"
#include "sim/command/report.h"
#include "sim/input/text/locate.h"
#include "sim/output/output.h"
#include "sim/study/campaign/document.h"
#include "sim/study/campaign/run.h"
#include "sim/study/campaign/shards.h"
#include "sim/study/campaign/timeline.h"
#include "sim/study/campaign/variants.h"

namespace sim::command {

namespace {

using campaign::Setup;

[[noreturn]] void refuse(const char* option, const std::string& rule) {
  throw Stop{complain({{fmt::format("command line, --{}", option), rule}}), ""};
}

// A time with a unit or without: "90", "1.5min", "3h", "54d". A bare number is in `unit`.
double span_option(const Options& options, const char* name, double otherwise, double unit = 1) {
  if (!options.has(name)) return otherwise;
  const std::string text = options.text(name);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc{} && end == text.data() + text.size() && std::isfinite(value)) {
    if (value < 0) refuse(name, fmt::format("'{}' is negative; it must be zero or more", text));
    return value * unit;
  }
  const Parsed<double> parsed = parse_span(text);
  if (const auto* message = std::get_if<std::string>(&parsed)) refuse(name, *message);
  return std::get<double>(parsed);
}

Bandwidth rate_option(const Options& options, const char* name) {
  const Parsed<Bandwidth> parsed = parse_bandwidth(options.text(name));
  if (const auto* message = std::get_if<std::string>(&parsed)) refuse(name, *message);
  return std::get<Bandwidth>(parsed);
}

void describe(Options& options) {
  options.value("step-time", "TIME", "of a step, instead of a replay of a plan; bare: seconds")
      .value("gpus", "N", "of the job, beside --step-time")
      .value("gpus-per-node", "N", "beside --step-time (default 8)")
      .value("mtbf", "TIME", "mean time between failures of the whole job, or")
      .value("gpu-mtbf", "TIME", "of one GPU, as vendors state it: the job's is this over its GPUs")
      .value("failures", "NAME", "a table of workloads/failures: what fails how often")
      .value("trace", "FILE", "a CSV of failures that happened, of the kinds of that table")
      .value("checkpoint-interval", "TIME", "of training between saves (default: the best)")
      .value("checkpoint-write", "TIME", "in which a save stops the job")
      .value("checkpoint-background", "TIME", "asynchronous: after it a save is complete")
      .value("storage", "RATE", "of the file system, for the size of the plan's own state")
      .flag("asynchronous", "the job stops only while its state moves to the host")
      .value("detection", "TIME", "from a failure to the decision what to do")
      .value("restart", "TIME", "from there to training again, with the load of the checkpoint")
      .value("repair", "TIME",
             "mean, until a failed node is back; with --mtbf each failure takes one")
      .value("spares", "N", "nodes that stand by, beside --failures or --repair")
      .value("answer", "NAME", "to missing nodes: wait (default), shrink, replan")
      .value("stragglers", "WHEN", "one that is found is taken: now (default), at the next save")
      .value("days", "D", "of wall time (default 54)")
      .value("seeds", "N", "campaigns to simulate (default 100)")
      .value("seed", "N", "the first of them (default 1)")
      .values("vary", "KEY=V1,V2",
              "side by side: answer, interval, mtbf, rate, repair, spares, "
              "stragglers, write; `interval` alone looks for the best")
      .value("price", "NUMBER", "what a GPU costs per hour")
      .output("timeline", "FILE", "a Perfetto trace of the first seed")
      .value("shard", "K/N", "only this part of the seeds, into the file of -o")
      .output("output,o", "FILE", "of --shard")
      .flag("overwrite", "with --shard: replace a file that is there")
      .values("merge", "FILE", "outcomes of shards, instead of a simulation")
      .value("jobs,j", "N", "threads (default: the cores)")
      .words(0, 1000);
}

void take_plan(const Options& options, Setup& setup) {
  const Options::Named named = options.named();
  setup.settings = named.settings;
  if (options.has("step-time")) {
    if (!named.name.empty() || !named.settings.empty())
      throw Stop{exit_usage, "--step-time and a plan: one of them"};
    setup.step = span_option(options, "step-time", 0);
    if (!(setup.step > 0)) refuse("step-time", "a step takes no time; its time must be positive");
    setup.gpus = static_cast<int>(options.number("gpus", 1, 1, 10'000'000));
    setup.gpus_per_node = static_cast<int>(options.number("gpus-per-node", 8, 1, 10'000));
    return;
  }
  if (options.has("gpus")) setup.settings.push_back("gpus=" + options.text("gpus"));
  std::string plan = named.name;
  if (!named.name.empty() && input::is_campaign(named.name)) {
    setup.file = need(input::load_campaign(named.name));
    plan = setup.file.plan;
  }
  if (plan.empty() && setup.settings.empty() && setup.file.settings.empty())
    throw Stop{exit_usage, "name a campaign or a plan, or give --step-time"};
  if (plan.empty()) return;
  const Result<std::string> beside = input::locate(input::Kind::workload, plan, setup.file.path);
  setup.plan = beside ? *beside : workload_path(plan);
}

void take_checkpoint(const Options& options, input::CampaignFile& file) {
  if (file.checkpoints.empty()) {
    file.checkpoints.emplace_back();
    file.checkpoints.back().name = "storage";
    file.checkpoints.back().where = "command line";
  }
  input::CheckpointFields& last = file.checkpoints.back();
  last.interval = span_option(options, "checkpoint-interval", last.interval);
  last.write = span_option(options, "checkpoint-write", last.write);
  last.background = span_option(options, "checkpoint-background", last.background);
  if (options.has("storage")) last.storage = rate_option(options, "storage");
  last.asynchronous = last.asynchronous || options.has("asynchronous");
  if (options.has("checkpoint-interval") && !(last.interval > 0))
    refuse("checkpoint-interval", "it must be more than zero");
}

void take_restart(const Options& options, Setup& setup) {
  input::CampaignFile& file = setup.file;
  input::RestartFields& restart = file.restart;
  restart.detection = span_option(options, "detection", restart.detection);
  if (!options.has("restart")) return;
  // The option gives the whole restart, with the load of the checkpoint.
  const double detection = restart.detection;
  restart = {};
  restart.detection = detection;
  restart.scheduling = span_option(options, "restart", 0);
  for (input::CheckpointFields& checkpoint : file.checkpoints) checkpoint.load = 0;
  setup.load_in_restart = true;
}

// The mean repair time of all failures that take a node.
void take_repair(const Options& options, Setup& setup) {
  if (!options.has("repair")) return;
  const double mean = span_option(options, "repair", 0);
  if (!(mean > 0)) refuse("repair", "the mean time of a repair must be positive");
  if (setup.kinds.empty()) {
    setup.repair = mean;
    return;
  }
  bool takes = false;
  for (input::FailureFields& kind : setup.kinds) {
    if (kind.takes == input::TakesWhat::nothing) continue;
    kind.repair.mean = mean;
    takes = true;
  }
  if (!takes) refuse("repair", "no failure of the table takes a node; leave it out");
}

// A mean time between failures, of the job or of one GPU, or a table of failures.
void take_failures(const Options& options, Setup& setup) {
  input::CampaignFile& file = setup.file;
  if (options.has("mtbf")) {
    file.mtbf = span_option(options, "mtbf", 0);
    file.failures.clear();
    if (!(file.mtbf > 0)) refuse("mtbf", "the mean time between failures must be positive");
  }
  if (options.has("gpu-mtbf")) {
    setup.gpu_mtbf = span_option(options, "gpu-mtbf", 0);
    file.mtbf = -1;
    file.failures.clear();
    if (!(setup.gpu_mtbf > 0))
      refuse("gpu-mtbf", "the mean time between failures must be positive");
    if (options.has("mtbf"))
      throw Stop{exit_usage,
                 "--mtbf is of the whole job, --gpu-mtbf of one GPU: write one of them"};
  }
  for (const char* mean : {"mtbf", "gpu-mtbf"})
    if (options.has("failures") && options.has(mean))
      throw Stop{exit_usage, fmt::format("--failures and --{}: one of them", mean)};
  const std::string beside = options.has("failures") ? "" : file.path;
  file.failures = options.text("failures", file.failures);
  if (options.has("failures")) file.mtbf = -1;
  if (!file.failures.empty()) setup.kinds = need(input::load_failures(file.failures, beside)).kinds;
}

Setup setup_of(const Options& options) {
  Setup setup;
  take_plan(options, setup);
  input::CampaignFile& file = setup.file;
  take_checkpoint(options, file);
  take_restart(options, setup);
  file.length = span_option(options, "days", file.length > 0 ? file.length : 54 * 86400.0, 86400);
  take_failures(options, setup);
  take_repair(options, setup);
  if (options.has("step-time") && setup.takes_nodes() && setup.gpus > setup.gpus_per_node &&
      setup.gpus % setup.gpus_per_node != 0)
    refuse("gpus",
           fmt::format("{} GPUs are not whole nodes of {}; write {}", setup.gpus,
                       setup.gpus_per_node, nearest_multiples(setup.gpus, setup.gpus_per_node)));
  if (options.has("spares")) {
    file.spares = static_cast<int>(options.number("spares", 0, 0, 1'000'000));
    file.spares_where = "command line, --spares";
  }
  const std::string take_node =
      "a failure of --mtbf takes no node. Add --repair 1d, so that each takes one for that mean "
      "time, or a table: --failures rsc-1";
  const bool repair_varies = std::ranges::any_of(
      options.list("vary"), [](const std::string& text) { return text.starts_with("repair="); });
  const bool takes = setup.takes_nodes() || repair_varies;
  if (file.spares > 0 && !takes) refuse("spares", "spares replace nodes, and " + take_node);
  file.answer = options.choice("answer", file.answer, {"wait", "shrink", "replan"});
  if (options.has("answer") && file.answer != "wait" && !takes) refuse("answer", take_node);
  file.stragglers = options.choice("stragglers", file.stragglers, {"now", "save"});
  file.trace = options.text("trace", file.trace);
  if (!file.trace.empty() && setup.kinds.empty())
    refuse("trace", "the kinds of a trace are those of a table: --failures");
  if (!file.trace.empty())
    setup.trace = need(input::load_failure_trace(file.trace, setup.kinds, 1'000'000));
  if (options.has("price")) {
    const std::string text = options.text("price");
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), setup.price);
    if (error != std::errc{} || end != text.data() + text.size() || !(setup.price > 0))
      refuse("price", fmt::format("'{}' is not a price per GPU and hour", text));
  }
  return setup;
}

campaign::Seeds seeds_of(const Options& options) {
  campaign::Seeds seeds;
  seeds.first = static_cast<std::uint64_t>(
      options.number("seed", 1, 0, std::numeric_limits<std::int64_t>::max() / 2));
  seeds.count = static_cast<int>(options.number("seeds", 100, 1, 1'000'000));
  seeds.threads = jobs_of(options, cores());
  return seeds;
}

bool go_on() {
  return !interrupted();
}

int print_comparison(const Setup& setup, campaign::Steps& steps,
                     const std::vector<input::Vary>& varies, const campaign::Seeds& seeds,
                     Globals globals) {
  const std::vector<input::Variant> variants = need(input::combinations(varies));
  const std::vector<campaign::Row> rows = campaign::compare(setup, variants, steps, seeds, go_on);
  if (rows.empty()) throw Stop{exit_interrupted, "interrupted"};
  if (globals.json) {
    output::Json json = output::Json::array();
    for (const campaign::Row& row : rows) json.push_back(campaign::to_json(row));
    print(output::document("campaign-variants", std::move(json)).dump(2) + "\n");
  } else {
    print(campaign::text(rows));
  }
  const bool any = std::ranges::any_of(rows, [](const auto& row) { return row.problem.empty(); });
  return any ? exit_yes : exit_no;
}

// Refuses options that --shard, --merge, --vary or a complete campaign would ignore.
void refuse_idle(const Options& options, bool varies) {
  const auto refuse_all = [&](const char* beside, const std::vector<const char*>& idle) {
    for (const char* name : idle)
      if (options.has(name))
        throw Stop{exit_usage, fmt::format("--{} is of no use to {}; leave it out", name, beside)};
  };
  if (options.has("report") && (varies || options.has("shard")))
    throw Stop{exit_usage,
               "--report is the page of one whole campaign: without --shard, and with "
               "no --vary but interval"};
  if (varies) refuse_all("--vary", {"shard", "merge", "timeline"});
  if (options.has("shard"))
    refuse_all("--shard, which simulates seeds of a campaign", {"merge", "timeline"});
  else if (options.has("output"))
    throw Stop{exit_usage,
               "--output is the file of --shard; what a campaign comes to is printed, and --report "
               "FILE is its page"};
}

// Writes the outcomes of one shard of the seeds, such as "2/4", to a file.
int write_shard(const Options& options, const campaign::Built& built, campaign::Seeds seeds,
                const Globals& globals) {
  const std::string text = options.text("shard");
  int number = 0, of = 0;
  const char* end = text.data() + text.size();
  const auto [slash, first] = std::from_chars(text.data(), end, number);
  const bool parted = first == std::errc{} && slash != end && *slash == '/';
  const auto [rest, second] = parted ? std::from_chars(slash + 1, end, of)
                                     : std::from_chars_result{end, std::errc::invalid_argument};
  if (second != std::errc{} || rest != end || number < 1 || number > of)
    throw Stop{exit_usage, fmt::format("--shard takes K/N with K from 1 to N, not '{}'", text)};
  if (!options.has("output")) throw Stop{exit_usage, "--shard needs -o FILE"};
  const std::string path = options.text("output");
  keep_file(options, path);
  const campaign::SeedRange part = campaign::shard({seeds.first, seeds.count}, number, of);
  std::vector<campaign::Outcome> outcomes;
  if (part.count > 0) {
    outcomes = campaign::simulate_all(built.spec, part.first, part.count, seeds.threads, go_on);
    if (outcomes.empty()) throw Stop{exit_interrupted, "interrupted"};
  }
  save(path, campaign::lines_of(built.spec, part, outcomes));
  say_written(globals, path,
              fmt::format("{}: shard {} of {} done; when all are: --merge FILE of each instead of "
                          "--shard and -o",
                          path, number, of));
  return exit_yes;
}

campaign::Summary summary_of(const Options& options, const campaign::Built& built,
                             const campaign::Seeds& seeds, bool vary) {
  if (options.has("merge")) {
    const std::vector<campaign::Outcome> outcomes =
        need(campaign::merged(built.spec, {seeds.first, seeds.count}, options.list("merge")));
    campaign::Summary summary = campaign::summary_of(built, seeds.first, outcomes);
    if (!campaign::add_interval(built, seeds, vary, summary, go_on))
      throw Stop{exit_interrupted, "interrupted"};
    return summary;
  }
  const std::optional<campaign::Summary> summary = campaign::run(built, seeds, vary, go_on);
  if (!summary) throw Stop{exit_interrupted, "interrupted"};
  return *summary;
}

}  // namespace

int run_campaign(const Arguments& arguments, Globals globals) {
  Options options("campaign");
  describe(options);
  declare_report(options);
  options.parse(arguments, globals);
  const Setup setup = setup_of(options);
  const campaign::Seeds seeds = seeds_of(options);
  std::vector<input::Vary> varies;
  bool vary_interval = false;
  for (const std::string& text : options.list("vary")) {
    if (text == "interval") {
      vary_interval = true;
    } else {
      varies.push_back(need(input::parse_vary(text)));
      const std::string unknown = campaign::unknown(varies.back().key);
      if (!unknown.empty()) refuse("vary", unknown);
      for (const std::string& value : varies.back().values)
        if (const std::string bad = campaign::malformed(varies.back().key + "=" + value);
            !bad.empty())
          refuse("vary", bad);
    }
  }
  refuse_idle(options, !varies.empty());
  std::vector<std::string> varied;
  for (const input::Vary& vary : varies) varied.push_back(vary.key);
  if (const std::string idle = campaign::without_effect(setup, varied); !idle.empty())
    refuse("vary", idle);
  catch_interrupts();
  campaign::Steps steps = campaign::steps_of(setup);
  if (!varies.empty()) return print_comparison(setup, steps, varies, seeds, globals);
  const campaign::Built built = need(campaign::build(setup, steps));
  if (options.has("shard")) return write_shard(options, built, seeds, globals);
  const campaign::Summary summary = summary_of(options, built, seeds, vary_interval);
  std::vector<campaign::Slice> timeline;
  campaign::simulate(built.spec, seeds.first, &timeline);
  if (options.has("timeline")) {
    const std::string problem =
        campaign::write_trace(options.text("timeline"), built.spec, built.name, timeline);
    if (!problem.empty()) throw Stop{exit_io, problem};
  }
  if (options.has("report"))
    write_page(options.text("report"), campaign::document(summary, built, timeline));
  print(globals.json
            ? output::document("campaign", campaign::to_json(summary, built)).dump(2) + "\n"
            : campaign::text(summary, built, campaign::strip(timeline, 72)));
  return exit_yes;
}

}  // namespace sim::command
