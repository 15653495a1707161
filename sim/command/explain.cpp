// explain.cpp — `rehearse explain`: explains the memory of a plan, and finds changes that make it
// fit.
#include "sim/answer/evaluate.h"
#include "sim/answer/pass_times.h"
#include "sim/answer/resolve_balanced.h"
#include "sim/command/common/watch.h"
#include "sim/output/documents/explain_document.h"
#include "sim/output/memory/peak_tensors.h"
#include "sim/study/tune/fixes.h"

namespace sim::command {

int run_explain(const Arguments& arguments, Globals globals) {
  Options options("explain");
  declare_plan(options);
  declare_watch(options);
  options.flag("no-fixes", "when it does not fit: do not look for changes that would")
      .words(0, 1000)
      .parse(arguments, globals);
  const input::PlanFile file = load_plan(options, globals);
  answer::Sites sites;
  const answer::CheckedPlan plan = answer::resolve_balanced(checked(file, sites));
  Watch watch(options, *answer::timed_job(plan));
  output::PeakTensors tensors;
  watch.add(tensors);
  engine::Options how;
  how.observer = watch.observer();
  const answer::Answer answer = answer::evaluate(plan, how);
  watch.finish(answer);
  const bool fixing = !answer.run.fits() && !options.has("no-fixes");
  study::Fixes fixes;
  if (fixing) fixes = study::find_fixes(plan, true);
  output::Document document = output::explain_document(answer, tensors);
  if (fixing) {
    document.blocks.emplace_back(
        output::Values{"", {output::value("unlimited_step_time_ps", "", fixes.unlimited_step.ps)}});
    for (output::Block& block : study::fixes_blocks(fixes, "fixes"))
      document.blocks.push_back(std::move(block));
  }
  say(globals, "explain", document);
  return answer.run.fits() ? exit_yes : exit_no;
}

}  // namespace sim::command
