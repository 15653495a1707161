#include "sim/command/plan/plan_answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "sim/answer/resolve_balanced.h"
#include "sim/base/text.h"
#include "sim/command/common/csv_option.h"
#include "sim/command/common/interrupt.h"
#include "sim/command/common/session.h"
#include "sim/command/common/watch.h"
#include "sim/command/report.h"
#include "sim/input/cluster/import_text.h"
#include "sim/input/fields/cluster_fields.h"
#include "sim/output/json.h"
#include "sim/output/output.h"
#include "sim/study/plan/document.h"
#include "sim/study/plan/report_values.h"

namespace sim::command {

namespace {

// Seconds that a search without a plan goes on after its time limit, and that it has at least.
constexpr double after_limit = 2, first_plan = 60;

// Adds to launch files that give another plan what that plan takes. Files may give the same plan.
void say_what_they_give(std::vector<planner::LaunchText>& files, answer::Site& site,
                        const planner::Wanted& wanted) {
  std::map<std::string, std::string> takes;  // by the plan
  for (planner::LaunchText& one : files) {
    if (!one.gives) continue;
    const auto [known, is_new] = takes.try_emplace(output::to_json(*one.gives).dump());
    if (is_new)
      if (const Result<answer::CheckedPlan> plan = answer::check(*one.gives, site)) {
        const planner::Replayed found = planner::replayed(*plan, "", wanted);
        known->second =
            found.accounts.empty()
                ? fmt::format(": what it starts runs out of memory: {}", found.reason)
                : fmt::format(": what it starts takes {:.3f} s, {:.1f} of {:.1f} GiB",
                              planner::seconds_of(found), planner::gib_of(found.reserved),
                              planner::gib_of(found.capacity));
      }
    one.left += known->second;
  }
}

// Chooses the plan to launch: the best plan, or a faster refined form of one of the best few.
void launch(planner::SearchReport& said, planner::Launcher launcher) {
  const planner::Replayed& best = said.outcome.best.front();
  const planner::PlanShape& core = said.space.cores()[best.core];
  said.launched = said.space.words(core, best.variant);
  const planner::Refined* form = planner::launched_form(said);
  if (form != nullptr) said.launched = form->settings;
  const std::vector<std::string_view> launched = input::words_of(said.launched);
  const std::vector<std::string> words(launched.begin(), launched.end());
  program::Plan plan = said.space.plan(core, best.variant);
  input::Machine machine = said.space.bases()[core.base].file.machine;
  if (form != nullptr) {
    const input::PlanFile file = need(input::load_plan("", words));
    machine = file.machine;
    plan = answer::resolve_balanced(checked(file, kept_sites())).plan();
  }
  std::vector<std::string> beside = input::cluster_settings_of(words);
  for (const std::string& one : words)
    if (said.model.empty() && one.starts_with("architecture.")) beside.push_back(one);
  const bool script = said.own != nullptr && said.own->script;
  said.launches = planner::launches(plan, said.model, said.cluster, machine, beside, launcher,
                                    script ? &*said.own->script : nullptr);
  say_what_they_give(said.launches, *need(kept_sites().of(machine)), said.wanted);
}

}  // namespace

double RunningSearch::passed() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
}

bool RunningSearch::goes_on() const {
  return !interrupted() && (limit_ == 0 || passed() < limit_);
}

bool RunningSearch::show(const planner::Progress& now) {
  std::string text = now.best_s > 0 ? fmt::format("best {:.3f} s", now.best_s) : "no plan yet";
  if (now.least_s > 0) text += fmt::format("; nothing can be below {:.3f} s", now.least_s);
  text += "; " + counted(now.replayed, "replay");
  progress_.show(static_cast<std::size_t>(std::min(now.decided, plans_)), text,
                 [&] { return output::line(planner::found(space_, *now.found)); });
  // A first plan takes few replays: the time limit waits for it, but not for long.
  const double most = std::max(limit_ + after_limit, first_plan);
  return now.seeking ? !interrupted() && (limit_ == 0 || passed() < most) : goes_on();
}

PlanOutput plan_output(const Options& options, const Globals& globals) {
  return {options.text("output"), options.text("report"), csv_file(options, globals),
          options.has("overwrite")};
}

void say_failures(const std::vector<std::string>& failures) {
  constexpr std::size_t most = 3;
  if (failures.empty()) return;
  note(
      fmt::format("a bug of ours: our program failed {}, and left out what it failed on; please "
                  "report it",
                  counted(std::ssize(failures), "time")));
  for (std::size_t i = 0; i < std::min(most, failures.size()); ++i) note("  " + failures[i]);
}

int answer_plan(PlanTask& task, const PlanOutput& into, const Globals& globals) {
  if (task.space.cores().empty()) throw Stop{exit_data, why_impossible(task.space)};
  answer::Sites& sites = kept_sites();
  RunningSearch asking(task, globals);
  const auto shown = [&](const planner::Progress& now) { return asking.show(now); };
  const auto goes_on = [&] { return asking.goes_on(); };
  const planner::Space& space = task.space;
  std::vector<std::string> failures;
  planner::Wanted wanted = task.wanted;
  wanted.failures = &failures;
  wanted.hurry = [&] { return asking.hurry(); };
  if (task.own)
    task.own->replayed =
        planner::replayed(checked(task.own->file, sites), task.own->file.framework, wanted);
  const planner::Outcome outcome = planner::find_best(space, sites, wanted, shown);
  planner::SearchReport said{
      space, outcome, wanted, task.question.model, task.question.cluster, task.cost, {}, {}, {},
      {},    {},      {}};
  if (task.own) said.own = &*task.own;
  if (!outcome.best.empty()) {
    if (outcome.complete) {
      said.refined = planner::refined(space, sites, wanted, outcome.best, goes_on);
      said.neighbours = planner::neighbours(space, sites, wanted,
                                            outcome.best[planner::launched_rank(said)], goes_on);
    }
    if (outcome.complete && task.asks_constraints)
      said.lifted = planner::lifted_constraints(task.question, space, sites, task.wanted, shown);
    launch(said, task.launcher);
  } else if (outcome.complete) {
    said.relaxed = planner::relaxed(task.question, sites, wanted, shown);
  }
  asking.clear();
  const output::Document document = planner::document(said);
  const auto json = [&] { return output::document("plan", planner::to_json(said)).dump(2) + "\n"; };
  if (!into.page.empty()) write_page(into.page, document);
  if (!into.folder.empty()) {
    std::error_code error;
    std::filesystem::create_directories(into.folder, error);
    std::string problem = error ? into.folder + ": " + error.message() : "";
    if (problem.empty()) problem = output::write_file(into.folder + "/plan.json", json());
    const output::Rows* found = document.table("plans");
    const std::string table = found == nullptr ? "" : output::csv(*found);
    if (problem.empty()) problem = output::write_file(into.folder + "/results.csv", table);
    if (!problem.empty()) throw Stop{exit_io, problem};
    std::string names = "plan.json, results.csv";
    for (const std::string& name :
         write_launches(into.folder, said.launches, task.earlier, into.overwrite))
      names += ", " + name;
    if (!globals.quiet) note(fmt::format("results in {}: {}", into.folder, names));
  }
  const output::Rows* plans = document.table("plans");
  if (!into.csv.empty())
    write_csv(into.csv, plans == nullptr ? output::Rows{"plans", "", {}, {}} : *plans);
  if (into.csv != "-") print(globals.json ? json() : output::text(document));
  say_failures(failures);
  if (!outcome.complete && interrupted()) return exit_interrupted;
  if (!failures.empty()) return exit_bug;
  return outcome.best.empty() ? exit_no : exit_yes;
}

}  // namespace sim::command
