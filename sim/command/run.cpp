// run.cpp — `rehearse run`: one training step of a plan, and what it says.
#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <memory>

#include "sim/command/detail.h"
#include "sim/command/report.h"
#include "sim/command/seeds.h"
#include "sim/command/session.h"
#include "sim/command/watch.h"
#include "sim/config/residuals.h"
#include "sim/core/cores.h"
#include "sim/report/interval.h"
#include "sim/report/run_text.h"
#include "sim/report/timelines.h"
#include "sim/search/evaluate.h"
#include "sim/search/fixes.h"
#include "sim/search/slices.h"

namespace sim::command {

int run_run(const Arguments& arguments, Globals globals) {
  Options options("run");
  declare_plan(options);
  declare_watch(options);
  declare_report(options);
  declare_detail(options);
  options.flag("fixes", "when it does not fit: replay single changes of the plan, smallest first")
      .value("method", "NAME", "fast (default), or reference: every operation, no shortcut")
      .value("network", "NAME",
             "isolated (default): groups of a kind share links; coupled: all traffic of the step")
      .value("steps", "N",
             "training steps to replay, 2 by default: a warm-up, then whole ones; the last is "
             "reported")
      .value("seeds", "N",
             "replay the routes of N seeds (router=random or skewed): how many ran out of memory, "
             "and how peaks and times spread")
      .value("jobs", "N", "with --seeds: processes at once, all cores by default")
      .flag("timelines", "with --json: passes and memory over time as columns of numbers")
      .flag("all-ranks", "replay every rank instead of one of each class; up to 4096")
      .words(0, 1000)
      .parse(arguments, globals);
  std::string other;  // option that looks at tensors
  for (const char* name :
       {"trace", "memory-plot", "memory-snapshot", "report", "timelines", "seeds"})
    if (options.has(name)) other = std::string("--") + name;
  if (options.has("timelines") && !globals.json)
    throw Stop{exit_usage, "--timelines: columns of numbers are for --json"};
  const bool reference = options.choice("method", "fast", {"fast", "reference"}) == "reference";
  config::PlanFile file = load_plan(options, globals);
  search::Site& site = site_of(file, kept_sites());
  replay::Options how;
  how.couple = options.choice("network", "isolated", {"isolated", "coupled"}) == "coupled";
  how.method = reference ? replay::Method::reference : replay::Method::fast;
  how.steps = static_cast<int>(options.number("steps", how.steps, 2, 100));
  if (how.couple) other = "--network coupled";
  if (reference) other = "--method reference";
  how.memory = detail_of(options, other);
  if (options.has("fixes") && how.memory != replay::MemoryDetail::exact &&
      how.memory != replay::MemoryDetail::bounded)
    throw Stop{exit_usage,
               fmt::format("--fixes: --memory {} does not replay whether it fits; leave out one of "
                           "them",
                           options.text("memory"))};
  const bool all_ranks = options.has("all-ranks");
  if (all_ranks && file.plan.world() > 4096)
    throw Stop{exit_usage, fmt::format("--all-ranks: the plan has {} ranks; the limit is 4096",
                                       file.plan.world())};
  const int jobs = static_cast<int>(options.number("jobs", cores(), 1, 1024));
  if (options.has("seeds")) {
    for (const char* of_one :
         {"trace", "memory-plot", "memory-snapshot", "report", "timelines", "fixes", "all-ranks"})
      if (options.has(of_one))
        throw Stop{exit_usage, fmt::format("--{} is of one run, --seeds are many", of_one)};
    const int seeds = static_cast<int>(options.number("seeds", 100, 1, 100'000));
    return run_seeds(file, site, how, seeds, jobs, globals.json);
  }
  how.threads = cores();
  std::unique_ptr<Watch> watch;
  if (Watch::wanted(options)) {
    file.plan = search::settled(file.plan, site);
    watch = std::make_unique<Watch>(options, search::job_of(file.plan, site, all_ranks));
    how.observer = watch->observer();
  }
  std::unique_ptr<RunPage> page;
  replay::Observers watchers;
  if (options.has("report")) {
    page = std::make_unique<RunPage>(options.text("report"));
    watchers.all = page->observers();
    if (how.observer != nullptr) watchers.all.push_back(how.observer);
    how.observer = &watchers;
  }
  report::PassTimeline passes;
  report::MemoryTimeline memory;
  const bool timelines = options.has("timelines");
  if (timelines) {
    if (!page && how.observer != nullptr) watchers.all.push_back(how.observer);
    watchers.all.push_back(&passes);
    watchers.all.push_back(&memory);
    how.observer = &watchers;
  }
  // Wanted at the end alone: read beside the replay.
  auto residuals = std::async([] { return &kept_residuals(); });
  const report::Answer answer = search::evaluate(file.plan, site, how, all_ranks);
  if (watch) watch->finish(answer);
  const report::Basis basis =
      report::basis_of(site.profile.device, site.machine.gpu.name, file.framework);
  const report::Intervals intervals = report::intervals(answer, *residuals.get(), basis, "paper");
  if (page) page->finish(file, site, answer, report::intervals_text(intervals));
  const bool fixing = options.has("fixes") && !answer.run.fits();
  search::Fixes fixes;
  if (fixing) fixes = search::find_fixes(file.plan, site, false);
  report::Document document = report::answer_document(answer, report::intervals_text(intervals));
  if (answer.run.fits())
    document.blocks.emplace_back(report::Data{"interval_90", report::intervals_json(intervals)});
  if (timelines)
    document.blocks.emplace_back(
        report::Data{"timelines", report::timelines(answer, passes, memory)});
  if (fixing) {
    for (report::Block& block : search::fixes_blocks(fixes, "single_changes"))
      document.blocks.push_back(std::move(block));
  } else if (!answer.run.fits()) {
    document.blocks.emplace_back(
        report::Note{"", "`--fixes` replays single changes of the plan and says which would fit"});
  }
  say(globals, "run", std::move(document));
  return answer.run.fits() ? exit_yes : exit_no;
}

}  // namespace sim::command
