// command_run.cpp — `rehearse run`: one training step of a plan, and what it says.
#include <fmt/format.h>

#include "sim/command.h"
#include "sim/config/plan.h"
#include "sim/report/json.h"
#include "sim/report/perfetto.h"
#include "sim/report/run_text.h"
#include "sim/search/evaluate.h"
#include "sim/search/fixes.h"
#include "sim/workload/build.h"

namespace sim {

namespace {

// "stage 0, cp rank 1 (32 ranks)", for the tracks of a trace.
std::vector<std::string> class_names(const workload::Job& job) {
  std::vector<std::string> names;
  for (const workload::Program& program : job.classes) {
    const std::string cp = job.cp > 1 ? fmt::format(", cp rank {}", program.cp_rank) : "";
    names.push_back(fmt::format("stage {}{} ({} ranks)", program.stage, cp, program.ranks));
  }
  return names;
}

config::PlanFile load(const Options& options) {
  std::vector<std::string> settings;
  std::string path;
  for (const std::string& word : options.words()) {
    if (word.find('=') != std::string::npos) {
      settings.push_back(word);
    } else if (path.empty()) {
      path = word;
    } else {
      throw Stop{exit_usage, fmt::format("one plan at a time: '{}' and '{}'", path, word)};
    }
  }
  if (options.has("cluster")) settings.push_back("cluster=" + options.text("cluster"));
  if (options.has("megatron-args")) {
    if (!path.empty()) throw Stop{exit_usage, "either a plan or --megatron-args, not both"};
    return need(config::load_megatron(options.text("megatron-args"), settings));
  }
  if (path.empty() && settings.empty()) throw Stop{exit_usage, "name a plan, or --megatron-args"};
  if (!path.empty()) path = workload_path(path);
  return need(config::load_plan(path, settings));
}

}  // namespace

int run_run(const Arguments& arguments, Globals globals) {
  Options options("run");
  options.value("cluster", "NAME", "run on this cluster instead of the plan's")
      .value("megatron-args", "FILE", "a launch script of Megatron-LM instead of a plan")
      .value("trace", "FILE", "also write a Perfetto trace (ui.perfetto.dev opens it)")
      .flag("fixes", "when it does not fit: replay single changes of the plan, smallest first")
      .value("method", "NAME", "fast (default), or reference: every operation, no shortcut")
      .value("steps", "N", "training steps to replay, 2 by default; the last one is reported")
      .flag("all-ranks", "replay every rank instead of one of each class; up to 4096")
      .words(0, 1000)
      .parse(arguments, globals);
  const bool reference = options.choice("method", "fast", {"fast", "reference"}) == "reference";
  const config::PlanFile file = load(options);
  if (!globals.quiet) {
    for (const std::string& text : file.notes) note("note: " + text);
  }
  search::Sites sites;
  search::Site& site = *need(sites.of(file.machine));
  replay::Options how;
  how.method = reference ? replay::Method::reference : replay::Method::fast;
  how.steps = static_cast<int>(options.number("steps", how.steps, 1, 100));
  const bool all_ranks = options.has("all-ranks");
  if (all_ranks && file.plan.world() > 4096)
    throw Stop{exit_usage, fmt::format("--all-ranks: the plan has {} ranks; the limit is 4096",
                                       file.plan.world())};
  const std::string trace = options.text("trace");
  std::unique_ptr<report::PerfettoTrace> writer;
  if (!trace.empty()) {
    const workload::Job job = workload::build(
        file.plan, replay::environment(site.machine.gpu, site.profile.device), all_ranks);
    writer = std::make_unique<report::PerfettoTrace>(class_names(job));
    const std::string problem = writer->open(trace);
    if (!problem.empty()) throw Stop{exit_io, problem};
    how.observer = writer.get();
  }
  const report::Answer answer = search::evaluate(file.plan, site, how, all_ranks);
  if (writer) {
    const std::string problem = writer->close();
    if (!problem.empty()) throw Stop{exit_io, problem};
  }
  const bool fixing = options.has("fixes") && !answer.run.fits();
  std::vector<search::Fix> fixes;
  if (fixing) fixes = search::try_changes(file.plan, site);
  if (globals.json) {
    report::Json json = report::to_json(answer);
    if (fixing) json["single_changes"] = search::fixes_json(fixes);
    print(report::document("run", std::move(json)).dump(2) + "\n");
  } else {
    std::string text = report::run_text(answer);
    if (fixing) text += search::fixes_text(fixes);
    if (!fixing && !answer.run.fits()) {
      text += "\n`--fixes` replays single changes of the plan and says which would fit\n";
    }
    print(text);
  }
  return answer.run.fits() ? exit_yes : exit_no;
}

}  // namespace sim
