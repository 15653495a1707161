// explain.cpp — `rehearse explain`: why a plan's memory is what it is, and what would make
// it fit.
#include "sim/command/watch.h"
#include "sim/report/explain_document.h"
#include "sim/report/peak_tensors.h"
#include "sim/search/evaluate.h"
#include "sim/search/fixes.h"
#include "sim/search/slices.h"

namespace sim::command {

int run_explain(const Arguments& arguments, Globals globals) {
  Options options("explain");
  declare_plan(options);
  declare_watch(options);
  options.flag("no-fixes", "when it does not fit: do not look for changes that would")
      .words(0, 1000)
      .parse(arguments, globals);
  config::PlanFile file = load_plan(options, globals);
  search::Sites sites;
  search::Site& site = site_of(file, sites);
  file.plan = search::settled(file.plan, site);
  Watch watch(options, search::job_of(file.plan, site));
  report::PeakTensors tensors;
  watch.add(tensors);
  replay::Options how;
  how.observer = watch.observer();
  const report::Answer answer = search::evaluate(file.plan, site, how);
  watch.finish(answer);
  const bool fixing = !answer.run.fits() && !options.has("no-fixes");
  search::Fixes fixes;
  if (fixing) fixes = search::find_fixes(file.plan, site, true);
  report::Document document = report::explain_document(answer, tensors);
  if (fixing) {
    document.blocks.emplace_back(
        report::Values{"", {report::value("unlimited_step_time_ps", "", fixes.unlimited_step.ps)}});
    for (report::Block& block : search::fixes_blocks(fixes, "fixes"))
      document.blocks.push_back(std::move(block));
  }
  say(globals, "explain", document);
  return answer.run.fits() ? exit_yes : exit_no;
}

}  // namespace sim::command
