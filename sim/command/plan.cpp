// plan.cpp — `rehearse plan`: finds the best plans for a job.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "sim/answer/resolve_balanced.h"
#include "sim/base/cores.h"
#include "sim/base/outputs.h"
#include "sim/base/quantity.h"
#include "sim/base/text.h"
#include "sim/command/common/command.h"
#include "sim/command/common/cost_options.h"
#include "sim/command/common/gpu_list.h"
#include "sim/command/common/interrupt.h"
#include "sim/command/common/launch_folder.h"
#include "sim/command/common/plan_file.h"
#include "sim/command/common/progress.h"
#include "sim/command/common/session.h"
#include "sim/command/common/shard.h"
#include "sim/command/common/starting_plan.h"
#include "sim/command/common/watch.h"
#include "sim/command/report.h"
#include "sim/input/cluster/import_text.h"
#include "sim/input/fields/cluster_fields.h"
#include "sim/input/profile/residuals.h"
#include "sim/output/json.h"
#include "sim/output/output.h"
#include "sim/study/plan/document.h"
#include "sim/study/plan/search.h"
#include "sim/study/sweep/answers.h"
#include "sim/study/sweep/records.h"

namespace sim::command {

namespace {

using planner::Objective;
using Clock = std::chrono::steady_clock;

constexpr int plans_listed = 10;  // by default

[[noreturn]] void refuse(const std::string& message) {
  throw Stop{exit_usage, message};
}

planner::Question question_of(const Options& options) {
  planner::Question question;
  std::vector<std::string> names;
  for (const std::string& word : options.words()) {
    if (word.find('=') == std::string::npos) {
      names.push_back(word);
    } else {
      question.settings.push_back(word);
    }
  }
  if (names.size() == 1 && options.has("cluster")) names.push_back(options.text("cluster"));
  if (names.size() != 2)
    refuse(
        "name a model and a cluster: rehearse plan llama-3.1-70b dgx-h100 --gpus 512 --batch 512 "
        "--sequence 8192; or a plan, --megatron-args FILE, or a search file (rehearse init "
        "search)");
  if (const std::size_t comma = names[1].find(','); comma != std::string::npos)
    refuse(fmt::format(
        "'{}': one search has one cluster; write `rehearse plan {} {} ...` once for each, with its "
        "--gpus and --price",
        names[1], names[0], names[1].substr(0, comma)));
  for (const char* needed : {"gpus", "batch", "sequence"})
    if (!options.has(needed)) refuse(fmt::format("--{} is missing", needed));
  question.gpus = gpu_list(options.text("gpus"));
  question.model = names[0];
  question.cluster = names[1];
  const std::int64_t batch = options.number("batch", 0, 1, 1 << 24);
  const std::int64_t sequence = options.number("sequence", 0, 1, 1 << 26);
  question.settings.push_back(fmt::format("global_batch={}", batch));
  question.settings.push_back(fmt::format("sequence={}", sequence));
  return question;
}

planner::Wanted wanted_of(const Options& options, const input::RunResiduals& residuals) {
  planner::Wanted wanted;
  const std::string name = options.choice("objective", "time", {"time", "cost", "gpus", "energy"});
  wanted.objective = name == "cost"     ? Objective::cost
                     : name == "gpus"   ? Objective::gpus
                     : name == "energy" ? Objective::energy
                                        : Objective::time;
  wanted.best = static_cast<int>(options.number("best", 1, 1, 1000));
  wanted.list = options.has("best") ? wanted.best : plans_listed;
  wanted.tokens_s = positive(options, "rate", 1e15);
  if (wanted.objective == Objective::gpus && wanted.tokens_s == 0)
    refuse("--objective gpus: say the rate that they must reach, --rate TOKENS_PER_SECOND");
  if (options.has("headroom")) {
    const Parsed<Bytes> size = parse_bytes(options.text("headroom"));
    if (const auto* problem = std::get_if<std::string>(&size)) refuse("--headroom: " + *problem);
    wanted.headroom = std::get<Bytes>(size);
  }
  wanted.residuals = &residuals;
  return wanted;
}

planner::Space made(const planner::Question& question,
                    const std::map<std::string, std::string>& places) {
  Result<planner::Space> space = planner::Space::make(question);
  if (!space) throw Stop{complain(placed(space.errors(), places)), ""};
  return *space;
}

// Stops with the reason why no plan of the space is possible.
[[noreturn]] void stop_impossible(const planner::Space& space) {
  std::string message = "no plan is possible";
  const planner::Contradiction why = space.contradiction();
  const std::vector<std::string>& blamed = why.settings;
  if (blamed.size() == 1) message += fmt::format(" with {}", blamed[0]);
  if (blamed.size() > 1)
    message += fmt::format(" with {} and {} together; leave one of them out",
                           fmt::join(blamed.begin(), blamed.end() - 1, ", "), blamed.back());
  for (const std::string& reason : why.reasons) message += "\n  " + reason;
  throw Stop{exit_data, message};
}

// Chooses the plan to launch: the best plan, or a faster refined form of one of the best few.
void launch(planner::SearchReport& said, planner::Launcher launcher) {
  const planner::Replayed& best = said.outcome.best.front();
  const planner::PlanShape& core = said.space.cores()[best.core];
  said.launched = said.space.words(core, best.variant);
  std::int64_t least = best.step_ps;
  // For other objectives only refined forms of the best plan count.
  const bool any = said.wanted.objective == Objective::time;
  for (const planner::Refined& one : said.refined)
    if ((any || one.rank == 0) && one.replayed.step_ps < least) {
      least = one.replayed.step_ps;
      said.launched = one.settings;
    }
  const std::vector<std::string_view> launched = input::words_of(said.launched);
  const std::vector<std::string> words(launched.begin(), launched.end());
  program::Plan plan = said.space.plan(core, best.variant);
  input::Machine machine = said.space.bases()[core.base].file.machine;
  if (least < best.step_ps) {
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
}

double price_of(const Options& options, const planner::Space& space,
                const planner::Wanted& wanted) {
  const double said = positive(options, "price", 1e6);
  const double price = said > 0 ? said : space.bases().front().file.machine.price_per_gpu_hour;
  if (wanted.objective == Objective::cost && price == 0)
    refuse("--objective cost: the cluster has no price; write --price PER_GPU_AND_HOUR");
  return price;
}

void declare(Options& options) {
  options
      .value("megatron-args", "FILE",
             "start from the job of a launch script or configuration, and compare with its plan")
      .value("cluster", "NAME", "the cluster of a plan or of --megatron-args")
      .value("gpus", "N", "GPUs of the job; N1,N2: each of these; 64..512: 64, 128, 256, 512")
      .value("batch", "B", "sequences of a step")
      .value("sequence", "S", "tokens of a sequence")
      .value("objective", "NAME",
             "time (default): the shortest step; cost: tokens for the money; gpus: the fewest that "
             "reach --rate; energy: tokens for the power that the cluster gives (gpu.power_w)")
      .value("rate", "TOKENS", "tokens per second that the job must reach")
      .value("price", "NUMBER", "what a GPU costs per hour")
      .value("headroom", "SIZE",
             "memory that must stay free: 4GiB, 0; by default 2 %, or what 95 % probability needs")
      .value("best", "N", "plans to prove; by default 1, and 9 other good plans are listed")
      .flag(
          "constraints",
          "search again with twice the memory, the GPUs of a node, or the batch: which gains most")
      .value("launcher", "NAME", "how Megatron-LM starts: torchrun (default), or slurm")
      .value("time-limit", "SECONDS", "then print the best so far")
      .value("output,o", "FOLDER",
             "where plan.json, results.csv and the launch files go; with --shard the shares "
             "(results-plan)")
      .flag("overwrite", "whatever the folder holds is written over; with --shard: start over")
      .words(0, 1000);
  declare_shard(options);
  declare_report(options);
}

// The command's options, after a file was replaced by its words.
struct PlanArguments {
  std::unique_ptr<Options> options = std::make_unique<Options>("plan");
  std::map<std::string, std::string> places;
  LaunchFiles earlier;  // of the plan that the output folder has
};

PlanArguments asked(const Arguments& arguments, Globals& globals) {
  PlanArguments first;
  declare(*first.options);
  first.options->parse(arguments, globals);
  if (first.options->has("output")) {
    const std::string folder = first.options->text("output");
    first.earlier = listed_launches(folder);
    for (const char* file : {"/plan.json", "/results.csv"}) declare_output(folder + file, "output");
  }
  PlanWords words = spelled_out(*first.options, arguments);
  if (words.arguments == arguments) return first;
  PlanArguments whole;
  declare(*whole.options);
  whole.options->parse(words.arguments, globals);
  whole.places = std::move(words.places);
  whole.earlier = std::move(first.earlier);
  return whole;
}

// The question, parsed.
struct Task {
  std::optional<planner::OwnPlan> own;
  planner::Question question;
  planner::Wanted wanted;
  planner::Space space;
  double price = 0, limit = 0;
  planner::Launcher launcher = planner::Launcher::torchrun;
  bool asks_constraints = false;
  LaunchFiles earlier;
};

Task task_of(const PlanArguments& all, const Globals& globals) {
  const Options& options = *all.options;
  std::optional<planner::OwnPlan> own = starting_plan(options, globals);
  const planner::Question question = own ? question_from(*own, options) : question_of(options);
  const planner::Wanted wanted = wanted_of(options, kept_residuals());
  const double limit = positive(options, "time-limit", 1e9);
  std::map<std::string, std::string> places = all.places;
  for (const std::string& one : question.job) places[one] = own->path;
  planner::Space space = made(question, places);
  if (space.cores().empty()) stop_impossible(space);
  const double price = price_of(options, space, wanted);
  if (wanted.objective == Objective::energy && space.bases().front().file.machine.gpu.power_w == 0)
    refuse("--objective energy: the cluster gives no power; write gpu.power_w=700");
  for (const planner::Base& base : space.bases()) need(kept_sites().of(base.file.machine));
  const bool slurm = options.choice("launcher", "torchrun", {"torchrun", "slurm"}) == "slurm";
  return {std::move(own),
          question,
          wanted,
          std::move(space),
          price,
          limit,
          slurm ? planner::Launcher::slurm : planner::Launcher::torchrun,
          options.has("constraints"),
          all.earlier};
}

// A running search, with its progress line, Ctrl-C and time limit.
class Asking {
 public:
  Asking(const Task& task, const Globals& globals)
      : space_(task.space),
        plans_(task.space.plans()),
        limit_(task.limit),
        progress_("plan", static_cast<std::size_t>(plans_), globals.quiet) {}

  bool goes_on() const {
    const double passed = std::chrono::duration<double>(Clock::now() - began_).count();
    return !interrupted() && (limit_ == 0 || passed < limit_);
  }
  bool show(const planner::Progress& now) {
    std::string text = now.best_s > 0 ? fmt::format("best {:.3f} s", now.best_s) : "no plan yet";
    if (now.least_s > 0) text += fmt::format("; nothing can be below {:.3f} s", now.least_s);
    text += "; " + counted(now.replayed, "replay");
    progress_.show(static_cast<std::size_t>(std::min(now.decided, plans_)), text,
                   [&] { return output::line(planner::found(space_, *now.found)); });
    // A first plan takes few replays: the time limit waits for it.
    return now.seeking ? !interrupted() : goes_on();
  }
  void clear() { progress_.clear(); }

 private:
  const planner::Space& space_;
  std::int64_t plans_;
  double limit_;
  Clock::time_point began_ = Clock::now();
  Progress progress_;
};

// Prints plans on which the simulator failed; of many only the first ones.
void say_failures(const std::vector<std::string>& failures) {
  constexpr std::size_t most = 3;
  if (failures.empty()) return;
  note(
      fmt::format("a bug of ours: our program failed {}, and left out what it failed on; please "
                  "report it",
                  counted(std::ssize(failures), "time")));
  for (std::size_t i = 0; i < std::min(most, failures.size()); ++i) note("  " + failures[i]);
}

// Runs the search and prints the answer. Also writes it to a folder or a page, if requested.
int answer(Task& task, const std::string& folder, const std::string& page, bool overwrite,
           const Globals& globals) {
  answer::Sites& sites = kept_sites();
  Asking asking(task, globals);
  const auto shown = [&](const planner::Progress& now) { return asking.show(now); };
  const auto goes_on = [&] { return asking.goes_on(); };
  const planner::Space& space = task.space;
  std::vector<std::string> failures;
  planner::Wanted wanted = task.wanted;
  wanted.failures = &failures;
  if (task.own)
    task.own->replayed =
        planner::replayed(checked(task.own->file, sites), task.own->file.framework, wanted);
  const planner::Outcome outcome = planner::find_best(space, sites, wanted, shown);
  planner::SearchReport said{
      space, outcome, wanted, task.question.model, task.question.cluster, task.price, {}, {}, {},
      {},    {},      {}};
  if (task.own) said.own = &*task.own;
  said.power_w = space.bases().front().file.machine.gpu.power_w;
  if (!outcome.best.empty()) {
    const planner::Replayed& best = outcome.best.front();
    if (outcome.complete) {
      said.refined = planner::refined(space, sites, wanted, outcome.best, goes_on);
      said.neighbours = planner::neighbours(space, sites, wanted, best, goes_on);
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
  if (!page.empty()) write_page(page, document);
  if (!folder.empty()) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    std::string problem = error ? folder + ": " + error.message() : "";
    if (problem.empty()) problem = output::write_file(folder + "/plan.json", json());
    const output::Rows* found = document.table("plans");
    const std::string table = found == nullptr ? "" : output::csv(*found);
    if (problem.empty()) problem = output::write_file(folder + "/results.csv", table);
    if (!problem.empty()) throw Stop{exit_io, problem};
    std::string names = "plan.json, results.csv";
    for (const std::string& name : write_launches(folder, said.launches, task.earlier, overwrite))
      names += ", " + name;
    if (!globals.quiet) note(fmt::format("results in {}: {}", folder, names));
  }
  print(globals.json ? json() : output::text(document));
  say_failures(failures);
  if (!outcome.complete && interrupted()) return exit_interrupted;
  if (!failures.empty()) return exit_bug;
  return outcome.best.empty() ? exit_no : exit_yes;
}

// The command line of the same question.
Arguments words_to_repeat(const Options& options) {
  Arguments words = options.words();
  for (const char* name : {"megatron-args", "cluster", "gpus", "batch", "sequence", "objective",
                           "rate", "price", "headroom", "best", "launcher"})
    if (options.has(name)) words.push_back(fmt::format("--{}={}", name, options.text(name)));
  return words;
}

// Identity of each share of a question: a hash of everything that its answers depend on.
std::vector<std::string> share_ids(const Task& task, const Arguments& words, int of) {
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
void keep_share(const Task& task, const study::Manifest& manifest, const std::string& folder,
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
  Asking asking(task, globals);
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

int answer_share(const Task& task, const Options& options, const Share& share,
                 const Globals& globals) {
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

}  // namespace

void keep_sweep(const std::string& folder) {
  const study::FolderContents there = study::contents_of(folder);
  if (there == study::FolderContents::sweep || there == study::FolderContents::foreign_table)
    throw Stop{exit_data, folder +
                              " holds what a sweep found, and --output would write over it; "
                              "name another folder, or --overwrite"};
}

void print_plan(const study::Merged& merged, const std::string& into, const Globals& globals) {
  PlanArguments all;
  declare(*all.options);
  Globals same = globals;
  all.options->parse(merged.arguments, same);
  all.earlier = listed_launches(into);
  Task task = task_of(all, globals);
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
  answer(task, into, "", false, globals);
}

int run_plan(const Arguments& arguments, Globals globals) {
  const PlanArguments all = asked(arguments, globals);
  const Options& options = *all.options;
  const Share share = share_of(options, false);
  if (share.shard)
    for (const char* whole : {"report", "time-limit"})
      if (options.has(whole))
        refuse(fmt::format("--{} is of a whole search; a shard takes part in one: leave it out",
                           whole));
  Task task = task_of(all, globals);
  task.wanted.workers = share.workers;
  catch_interrupts();
  if (share.shard) return answer_share(task, options, share, globals);
  if (options.has("output") && !options.has("overwrite")) keep_sweep(options.text("output"));
  return answer(task, options.text("output", ""), options.text("report", ""),
                options.has("overwrite"), globals);
}

}  // namespace sim::command
