// explain.cpp — `rehearse explain`: explains the memory of a plan and what it loses, and finds
// changes that make it fit, or faster.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/answer/evaluate.h"
#include "sim/answer/pass_times.h"
#include "sim/answer/resolve_balanced.h"
#include "sim/command/common/watch.h"
#include "sim/output/documents/explain_document.h"
#include "sim/output/documents/run_text.h"
#include "sim/output/memory/peak_tensors.h"
#include "sim/study/plan/launch/launch_megatron.h"
#include "sim/study/plan/launch/own_script.h"
#include "sim/study/sweep/merge.h"
#include "sim/study/tune/fixes.h"
#include "sim/study/tune/improve.h"

namespace sim::command {

namespace {

// Splits "tp=2 pp=4" into its settings.
Arguments settings_of(const std::string& text) {
  Arguments settings;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    settings.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return settings;
}

// The command that runs a changed plan: the words of this one, with the changed settings.
std::string command_of(const Options& options, const std::vector<std::string>& changes) {
  Arguments words = options.words();
  for (const std::string& change : changes)
    for (const std::string& setting : settings_of(change)) {
      const std::string key = setting.substr(0, setting.find('=') + 1);
      std::erase_if(words, [&](const std::string& word) { return word.starts_with(key); });
      words.push_back(setting);
    }
  std::string text = "rehearse run";
  for (const char* name : {"cluster", "megatron-args"})
    if (options.has(name)) text += fmt::format(" --{} {}", name, study::quoted(options.text(name)));
  for (const std::string& word : words) text += " " + study::quoted(word);
  return text;
}

// What changes in the user's launch script, if the plan is read from one.
std::vector<std::string> script_changes(const Options& options, const program::Plan& plan) {
  std::vector<std::string> texts;
  if (!options.has("megatron-args")) return texts;
  std::vector<std::string> settings = options.words();
  if (options.has("cluster")) settings.push_back("cluster=" + options.text("cluster"));
  const auto own = planner::own_script(options.text("megatron-args"), settings);
  if (!own || !planner::megatron_left(plan).empty()) return texts;
  for (const planner::ScriptChange& one : planner::with_plan(*own, plan, "").changes)
    texts.push_back(planner::change_text(one));
  return texts;
}

std::vector<output::Block> fixed_blocks(const Options& options,
                                        const std::optional<study::Combination>& fixed) {
  if (!fixed)
    return {output::Note{"", "--fix: no change that was replayed helps"},
            output::Data{"fixed", nullptr}};
  const answer::Answer& answer = fixed->answer;
  const std::string command = command_of(options, fixed->changes);
  const std::vector<std::string> changes = script_changes(options, fixed->plan.plan());
  const std::string in_script =
      changes.empty() ? "" : fmt::format("change in your script: {}\n", fmt::join(changes, ", "));
  return {output::Note{"after these changes",
                       fmt::format("{}\n{}\n{}{}{}\n{}", fmt::join(fixed->changes, "\n"),
                                   output::headline(answer), output::retries_text(answer),
                                   output::verdict_text(answer), answer::limit(answer), in_script)},
          output::Note{.title = "", .text = command + "\n", .code = true},
          output::Data{"fixed",
                       {{"changes", fixed->changes},
                        {"script_changes", changes},
                        {"fits", answer.run.fits()},
                        {"tight", answer.verdict.tight},
                        {"step_time_ps", answer.run.step_time.ps},
                        {"peak_reserved_bytes", answer::fullest(answer.run).peak_reserved.n},
                        {"command", command}}}};
}

}  // namespace

int run_explain(const Arguments& arguments, Globals globals) {
  Options options("explain");
  declare_plan(options);
  declare_watch(options);
  options.flag("no-fixes", "do not look for changes that make it fit, or faster")
      .flag("fix", "apply a combination of changes, and print the plan")
      .words(0, 1000)
      .parse(arguments, globals);
  if (options.has("fix") && options.has("no-fixes"))
    throw Stop{exit_usage, "--fix applies changes, and --no-fixes looks for none; leave out one"};
  const input::PlanFile file = load_plan(options, globals);
  answer::Sites sites;
  const answer::CheckedPlan plan = answer::resolve_balanced(checked(file, sites));
  Watch watch(options, *answer::timed_job(plan));
  output::PeakTensors tensors;
  watch.add(tensors);
  engine::Options how;
  how.observer = watch.observer();
  answer::Answer answer = answer::evaluate(plan, how);
  watch.finish(answer);
  answer::add_retry_cost(answer, plan);
  output::Document document = output::explain_document(answer, tensors);
  const auto add = [&](std::vector<output::Block> blocks) {
    for (output::Block& block : blocks) document.blocks.push_back(std::move(block));
  };
  if (!options.has("no-fixes") && !answer.run.fits()) {
    const study::Fixes fixes = study::find_fixes(plan, true);
    add({output::Values{"",
                        {output::value("unlimited_step_time_ps", "", fixes.unlimited_step.ps)}}});
    add(study::fixes_blocks(fixes, "fixes"));
    if (!options.has("fix"))
      add({output::Note{"", "`--fix` looks for the best combination, and prints its command"}});
  } else if (!options.has("no-fixes")) {
    add(study::improvement_blocks(study::improvements(plan, answer), answer));
  }
  if (options.has("fix")) add(fixed_blocks(options, study::combine(plan, answer)));
  say(globals, "explain", document);
  return answer.run.fits() ? exit_yes : exit_no;
}

}  // namespace sim::command
