// explain.cpp — `rehearse explain`: why a plan's memory is what it is, and what would make
// it fit.
#include "sim/command/watch.h"

#include <nlohmann/json.hpp>

#include "sim/report/explain_text.h"
#include "sim/report/json.h"
#include "sim/report/peak_tensors.h"
#include "sim/search/evaluate.h"
#include "sim/search/fixes.h"

namespace sim::command {

int run_explain(const Arguments& arguments, Globals globals) {
  Options options("explain");
  declare_plan(options);
  declare_watch(options);
  options.flag("no-fixes", "when it does not fit: do not look for changes that would")
      .words(0, 1000)
      .parse(arguments, globals);
  const config::PlanFile file = load_plan(options, globals);
  search::Sites sites;
  search::Site& site = *need(sites.of(file.machine));
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
  if (globals.json) {
    report::Json json = report::explain_json(answer, tensors);
    if (fixing) {
      json["unlimited_step_time_ps"] = fixes.unlimited_step.ps;
      json["fixes"] = search::fixes_json(fixes);
    }
    print(report::document("explain", std::move(json)).dump(2) + "\n");
  } else {
    print(report::explain_text(answer, tensors) + (fixing ? search::fixes_text(fixes) : ""));
  }
  return answer.run.fits() ? exit_yes : exit_no;
}

}  // namespace sim::command
