#include "sim/command/plan/plan_shares.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "sim/base/cores.h"
#include "sim/command/common/interrupt.h"
#include "sim/command/common/session.h"
#include "sim/command/common/watch.h"
#include "sim/command/plan/plan_answer.h"
#include "sim/output/json.h"
#include "sim/output/output.h"
#include "sim/study/sweep/answers.h"
#include "sim/study/sweep/records.h"

namespace sim::command {

namespace {

// The command line of the same question.
Arguments words_to_repeat(const Options& options) {
  Arguments words = options.words();
  for (const char* name : {"megatron-args", "cluster", "gpus", "batch", "sequence", "objective",
                           "rate", "price", "tokens", "headroom", "best", "launcher"})
    if (options.has(name)) words.push_back(fmt::format("--{}={}", name, options.text(name)));
  return words;
}

// Identity of each share of a question: a hash of everything that its answers depend on.
std::vector<std::string> share_ids(const PlanTask& task, const Arguments& words, int of) {
  std::string text = output::version();
  for (const std::string& word : words) text += "\n" + word;
  for (const planner::Base& base : task.space.bases())
    text += "\n" + (*need(kept_sites().of(base.file.machine))).digest +
            output::to_json(base.file.plan).dump();
  std::vector<std::string> ids;
  for (int number = 1; number <= of; ++number)
    ids.push_back(study::identity(fmt::format("{}\n{}/{}", text, number, of)));
  return ids;
}

// Searches one share and stores its answers as one record in its folder. An existing record is
// kept.
void keep_share(const PlanTask& task, const study::Manifest& manifest, const std::string& folder,
                const std::string& id, bool overwrite, const Globals& globals) {
  study::RecordFile file;
  const auto stop_on = [&](study::RecordProblem problem) {
    if (problem == study::RecordProblem::none) return;
    const bool locked = problem == study::RecordProblem::locked;
    throw Stop{locked ? exit_interrupted : exit_io, file.message()};
  };
  using Mode = study::RecordFile::Mode;
  stop_on(file.open(folder, overwrite ? Mode::overwrite : Mode::go_on, {id}));
  if (file.find(id) != nullptr) return;
  planner::Answers answers;
  const planner::Sharing sharing{manifest.shard, {}, &answers};
  planner::Wanted wanted = task.wanted;
  wanted.sharing = &sharing;
  std::vector<std::string> failures;
  wanted.failures = &failures;
  RunningSearch asking(task, globals);
  const planner::Outcome outcome =
      planner::find_best(task.space, kept_sites(), wanted,
                         [&](const planner::Progress& now) { return asking.show(now); });
  asking.clear();
  if (!outcome.complete)
    throw Stop{exit_interrupted,
               "interrupted; once more: " + study::resume_command(manifest, folder)};
  say_failures(failures);
  if (!failures.empty()) throw Stop{exit_bug, "the share is not kept"};
  output::Json record = {{"id", id}, {"answers", output::Json::array()}};
  for (const auto& [item, text] : answers) record["answers"].push_back({item, text});
  stop_on(file.append(id, output::line(record)));
  stop_on(file.finish());
}

}  // namespace

int answer_share(const PlanTask& task, const Options& options, const Share& share,
                 const Globals& globals) {
  if (task.space.cores().empty()) throw Stop{exit_data, why_impossible(task.space)};
  const study::Shard& shard = *share.shard;
  const std::string whole = options.text("output", "results-plan");
  const Arguments words = words_to_repeat(options);
  const std::vector<std::string> ids = share_ids(task, words, shard.of);
  const study::Manifest manifest = study::manifest("plan", ids, shard, words);
  const bool overwrite = options.has("overwrite");
  const std::string folder = prepare(whole, manifest, overwrite);
  keep_share(task, manifest, folder, ids[static_cast<std::size_t>(shard.number) - 1], overwrite,
             globals);
  if (share.of_step) {
    merge_when_last(whole, shard, globals);
  } else {
    say_written(globals, folder,
                fmt::format("{}: shard {} of {} done; when all are: rehearse merge {}", folder,
                            shard.number, shard.of, study::quoted(whole)));
  }
  return exit_yes;
}

void print_plan(const study::Merged& merged, const std::string& into, const Globals& globals) {
  PlanArguments all;
  declare_plan_search(*all.options);
  Globals same = globals;
  all.options->parse(merged.arguments, same);
  all.earlier = listed_launches(into);
  PlanTask task = plan_task(all, globals);
  task.wanted.workers = cores();
  const auto of = static_cast<int>(merged.lines.size());
  const std::vector<std::string> ids = share_ids(task, words_to_repeat(*all.options), of);
  planner::Sharing sharing;
  for (std::size_t i = 0; i < merged.lines.size(); ++i) {
    if (study::record_id(merged.lines[i]) != ids[i])
      throw Stop{exit_data,
                 "the shards are of other inputs than these words have here: rehearse plan " +
                     fmt::format("{}", fmt::join(merged.arguments, " "))};
    const output::Json record = output::Json::parse(merged.lines[i], nullptr, false);
    const bool whole = record.is_object() && record.contains("answers");
    for (const output::Json& one : whole ? record["answers"] : output::Json::array())
      if (one.is_array() && one.size() == 2 && one[0].is_number_unsigned() && one[1].is_string())
        sharing.known[one[0].get<std::size_t>()] = one[1].get<std::string>();
  }
  if (!planner::sound(sharing.known))
    throw Stop{exit_data, "the records of these shards are no answers about plans"};
  task.wanted.sharing = &sharing;
  catch_interrupts();
  answer_plan(task, {into, "", "", false}, globals);
}

}  // namespace sim::command
