// run.cpp — `rehearse run`: replays one training step of a plan and prints the result.
#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <memory>

#include "sim/answer/evaluate.h"
#include "sim/answer/interval.h"
#include "sim/answer/pass_times.h"
#include "sim/answer/resolve_balanced.h"
#include "sim/base/cores.h"
#include "sim/command/common/detail.h"
#include "sim/command/common/session.h"
#include "sim/command/common/watch.h"
#include "sim/command/report.h"
#include "sim/command/seeds.h"
#include "sim/input/profile/residuals.h"
#include "sim/output/documents/run_text.h"
#include "sim/output/documents/timelines.h"
#include "sim/study/tune/fixes.h"
#include "sim/study/tune/whatif.h"

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
             "training steps to replay, at least (2): a warm-up, then whole ones; further ones, up "
             "to 8, until driver calls no longer lengthen a step. The last is reported")
      .value("seeds", "N",
             "replay the routes of N seeds (router=random or skewed): how many ran out of memory, "
             "and how peaks and times spread")
      .value("jobs", "N", "with --seeds: processes at once, all cores by default")
      .flag("timelines", "with --json: passes and memory over time as columns of numbers")
      .flag("all-ranks", "replay every rank instead of one of each class; up to 4096")
      .words(0, 1000)
      .parse(arguments, globals);
  std::string other;  // name of an option that needs tensors
  for (const char* name :
       {"trace", "memory-plot", "memory-snapshot", "report", "timelines", "seeds"})
    if (options.has(name)) other = std::string("--") + name;
  if (options.has("timelines") && !globals.json)
    throw Stop{exit_usage, "--timelines: columns of numbers are for --json"};
  const bool reference = options.choice("method", "fast", {"fast", "reference"}) == "reference";
  const input::PlanFile file = load_plan(options, globals);
  answer::CheckedPlan plan = checked(file, kept_sites());
  const answer::Site& site = plan.site();
  engine::Options how;
  how.couple = options.choice("network", "isolated", {"isolated", "coupled"}) == "coupled";
  if (how.couple && plan->world() > study::most_coupled_gpus)
    throw Stop{
        exit_usage,
        fmt::format("--network coupled: the plan has {} GPUs; the limit is {}. Leave it out, "
                    "or use fewer replicas",
                    plan->world(), study::most_coupled_gpus)};
  how.method = reference ? engine::Method::reference : engine::Method::fast;
  how.steps = static_cast<int>(options.number("steps", how.steps, 2, 100));
  if (how.couple) other = "--network coupled";
  if (reference) other = "--method reference";
  how.memory = detail_of(options, other);
  if (options.has("fixes") && how.memory != engine::MemoryDetail::exact &&
      how.memory != engine::MemoryDetail::bounded)
    throw Stop{exit_usage,
               fmt::format("--fixes: --memory {} does not replay whether it fits; leave out one of "
                           "them",
                           options.text("memory"))};
  const bool all_ranks = options.has("all-ranks");
  if (all_ranks && plan->world() > 4096)
    throw Stop{exit_usage,
               fmt::format("--all-ranks: the plan has {} ranks; the limit is 4096", plan->world())};
  const int jobs = static_cast<int>(options.number("jobs", cores(), 1, 1024));
  if (options.has("seeds")) {
    for (const char* of_one :
         {"trace", "memory-plot", "memory-snapshot", "report", "timelines", "fixes", "all-ranks"})
      if (options.has(of_one))
        throw Stop{exit_usage, fmt::format("--{} is of one run, --seeds are many", of_one)};
    const int seeds = static_cast<int>(options.number("seeds", 100, 1, 100'000));
    return run_seeds(file, plan, how, seeds, jobs, globals.json);
  }
  how.threads = cores();
  std::unique_ptr<Watch> watch;
  if (Watch::wanted(options)) {
    plan = answer::resolve_balanced(plan);
    watch = std::make_unique<Watch>(options, *answer::timed_job(plan, all_ranks));
    how.observer = watch->observer();
  }
  std::unique_ptr<RunPage> page;
  engine::Observers watchers;
  if (options.has("report")) {
    page = std::make_unique<RunPage>(options.text("report"));
    watchers.all = page->observers();
    if (how.observer != nullptr) watchers.all.push_back(how.observer);
    how.observer = &watchers;
  }
  output::PassTimeline passes;
  output::MemoryTimeline memory;
  const bool timelines = options.has("timelines");
  if (timelines) {
    if (!page && how.observer != nullptr) watchers.all.push_back(how.observer);
    watchers.all.push_back(&passes);
    watchers.all.push_back(&memory);
    how.observer = &watchers;
  }
  // Residuals are needed only at the end, so they are read during the replay.
  auto residuals = std::async([] { return &kept_residuals(); });
  const answer::Answer answer = answer::evaluate(plan, how, all_ranks);
  if (watch) watch->finish(answer);
  const answer::Basis basis =
      answer::basis_of(site.profile.device, site.machine.gpu.name, file.framework);
  const answer::Intervals intervals = answer::intervals(answer, *residuals.get(), basis, "paper");
  if (page) page->finish(file, plan, answer, answer::intervals_text(intervals));
  const bool fixing = options.has("fixes") && !answer.run.fits();
  study::Fixes fixes;
  if (fixing) fixes = study::find_fixes(plan, false);
  output::Document document = output::answer_document(answer, answer::intervals_text(intervals));
  if (answer.run.fits())
    document.blocks.emplace_back(output::Data{"interval_90", output::intervals_json(intervals)});
  std::vector<std::string> assumed = file.assumed;
  for (const input::Assumption& one : file.assumptions) assumed.push_back(one.text);
  if (!assumed.empty()) {
    std::ranges::stable_sort(assumed, {}, [](const std::string& text) { return text.size(); });
    document.blocks.emplace_back(output::Data{"assumed", output::Json(assumed)});
    document.blocks.emplace_back(
        output::Note{"", fmt::format("assumed: {}", fmt::join(assumed, "; "))});
  }
  if (timelines)
    document.blocks.emplace_back(
        output::Data{"timelines", output::timelines(answer, passes, memory)});
  if (fixing) {
    for (output::Block& block : study::fixes_blocks(fixes, "single_changes"))
      document.blocks.push_back(std::move(block));
  } else if (!answer.run.fits()) {
    document.blocks.emplace_back(
        output::Note{"", "`--fixes` replays single changes of the plan and says which would fit"});
  }
  say(globals, "run", std::move(document));
  return answer.run.fits() ? exit_yes : exit_no;
}

}  // namespace sim::command
