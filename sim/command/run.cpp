// run.cpp — `rehearse run`: replays one training step of a plan and prints the result.
#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <memory>

#include "sim/answer/cluster_notes.h"
#include "sim/answer/evaluate.h"
#include "sim/answer/interval.h"
#include "sim/answer/pass_times.h"
#include "sim/answer/resolve_balanced.h"
#include "sim/base/cores.h"
#include "sim/command/common/cost_options.h"
#include "sim/command/common/detail.h"
#include "sim/command/common/session.h"
#include "sim/command/common/watch.h"
#include "sim/command/report.h"
#include "sim/command/seeds.h"
#include "sim/input/profile/residuals.h"
#include "sim/output/documents/class_rows.h"
#include "sim/output/documents/kernel_rows.h"
#include "sim/output/documents/run_text.h"
#include "sim/output/documents/timelines.h"
#include "sim/study/tune/fixes.h"
#include "sim/study/tune/improve.h"
#include "sim/study/tune/whatif.h"

namespace sim::command {

namespace {

void declare_run(Options& options) {
  declare_plan(options);
  declare_watch(options);
  declare_report(options);
  declare_detail(options);
  declare_price(options);
  declare_tokens(options);
  options.flag("fixes", "replay single changes of the plan that make it fit, or faster")
      .value("method", "NAME",
             "fast (default), or reference: every operation, no shortcut; it alone goes on after "
             "memory has run out")
      .value("network", "NAME",
             "isolated (default): groups of a kind share links; coupled: all traffic of the step")
      .value("steps", "N",
             "training steps to replay, at least (2): a warm-up, then whole ones; further ones, up "
             "to 8, until driver calls no longer lengthen a step. The last is reported")
      .value("seeds", "N",
             "replay N draws of chance (router=random or skewed, jitter, paths of leaf_spine): how "
             "many ran out of memory, and how peaks and times spread")
      .value("jobs", "N", "with --seeds: processes at once, all cores by default")
      .flag("timelines", "with --json: passes and memory over time as columns of numbers")
      .flag("kernels",
            "also print the kernels and collectives of the step, of the first rank of each stage")
      .flag("all-ranks",
            "replay every rank instead of one of each class, and print their times and peaks; up "
            "to 4096")
      .words(0, 1000);
}

// The options of the replay. Stops if two options contradict each other, or if the plan is too
// large for one of them.
engine::Options replay_options(const Options& options, const program::Plan& plan) {
  std::string other;  // name of an option that needs tensors
  for (const char* name :
       {"trace", "memory-plot", "memory-snapshot", "report", "timelines", "seeds"})
    if (options.has(name)) other = std::string("--") + name;
  engine::Options how;
  how.couple = options.choice("network", "isolated", {"isolated", "coupled"}) == "coupled";
  if (how.couple && plan.world() > study::most_coupled_gpus)
    throw Stop{
        exit_usage,
        fmt::format("--network coupled: the plan has {} GPUs; the limit is {}. Leave it out, "
                    "or use fewer replicas",
                    plan.world(), study::most_coupled_gpus)};
  const bool reference = options.choice("method", "fast", {"fast", "reference"}) == "reference";
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
  if (options.has("all-ranks") && plan.world() > 4096)
    throw Stop{exit_usage,
               fmt::format("--all-ranks: the plan has {} ranks; the limit is 4096", plan.world())};
  return how;
}

// Stops if --seeds meets an option of a single run.
int number_of_seeds(const Options& options) {
  for (const char* of_one : {"trace", "memory-plot", "memory-snapshot", "report", "timelines",
                             "kernels", "fixes", "all-ranks", "price", "tokens"})
    if (options.has(of_one))
      throw Stop{exit_usage, fmt::format("--{} is of one run, --seeds are many", of_one)};
  return static_cast<int>(options.number("seeds", 100, 1, 100'000));
}

// The files, the page and the timelines that a run writes beside its text.
class Recordings {
 public:
  // Opens the files before the replay, so errors appear early. Watched plans are balanced first,
  // because the files show the layers as they were replayed.
  Recordings(const Options& options, answer::CheckedPlan& plan)
      : timelines_(options.has("timelines")) {
    if (Watch::wanted(options) || options.has("kernels")) {
      plan = answer::resolve_balanced(plan);
      const answer::TimedJob job = answer::timed_job(plan, options.has("all-ranks"));
      watch_ = std::make_unique<Watch>(options, *job);
      if (watch_->observer() != nullptr) all_.all.push_back(watch_->observer());
      if (options.has("kernels"))
        kernels_ =
            std::make_unique<output::KernelTables>(job, plan.site().profile.device.overlap.arrival);
      if (kernels_) all_.all.push_back(&kernels_->observer());
    }
    if (options.has("report")) {
      page_ = std::make_unique<RunPage>(options.text("report"));
      for (engine::Observer* one : page_->observers()) all_.all.push_back(one);
    }
    if (timelines_) all_.all.insert(all_.all.end(), {&passes_, &memory_});
  }

  // nullptr if nothing is recorded.
  engine::Observer* observer() { return all_.all.empty() ? nullptr : &all_; }

  void finish(const input::PlanFile& file, const answer::CheckedPlan& plan,
              const answer::Answer& answer, const std::string& intervals) {
    if (watch_) watch_->finish(answer);
    if (page_) page_->finish(file, plan, answer, intervals);
  }

  void add_timelines(const answer::Answer& answer, output::Document& document) const {
    if (timelines_)
      document.blocks.emplace_back(
          output::Data{"timelines", output::timelines(answer, passes_, memory_)});
  }

  void add_kernels(const answer::Answer& answer, output::Document& document) const {
    if (!kernels_) return;
    if (!answer.run.fits()) {
      document.blocks.emplace_back(output::Note{
          "", "--kernels: no step is complete, since memory runs out; --memory none times it"});
      return;
    }
    for (output::Block& block : kernels_->blocks(answer))
      document.blocks.push_back(std::move(block));
  }

 private:
  bool timelines_;
  std::unique_ptr<Watch> watch_;
  std::unique_ptr<RunPage> page_;
  std::unique_ptr<output::KernelTables> kernels_;
  output::PassTimeline passes_;
  output::MemoryTimeline memory_;
  engine::Observers all_;
};

void add_assumptions(const input::PlanFile& file, const answer::Site& site,
                     output::Document& document) {
  std::vector<std::string> assumed = file.assumed;
  if (std::string text = answer::borrowed_text(site.profile.device, site.machine.gpu.name);
      !text.empty())
    assumed.push_back(std::move(text));
  for (const input::Assumption& one : file.assumptions) assumed.push_back(one.text);
  if (assumed.empty()) return;
  std::ranges::stable_sort(assumed, {}, [](const std::string& text) { return text.size(); });
  document.blocks.emplace_back(output::Data{"assumed", output::Json(assumed)});
  document.blocks.emplace_back(
      output::Note{"", fmt::format("assumed: {}", fmt::join(assumed, "; "))});
}

void add_cluster_notes(const answer::CheckedPlan& plan, output::Document& document) {
  std::vector<std::string> notes = answer::cluster_notes(plan.site(), plan->world());
  const std::string paths = answer::paths_note(plan.site().machine.cluster, plan->world());
  if (!paths.empty()) notes.push_back(paths);
  if (notes.empty()) return;
  document.blocks.emplace_back(output::Data{"cluster_notes", output::Json(notes)});
  document.blocks.emplace_back(output::Note{"", fmt::format("{}", fmt::join(notes, "\n"))});
}

// The cost, energy and days of the run, where they are known.
void add_cost(const Options& options, const input::Machine& machine, const answer::Answer& answer,
              const answer::Intervals& intervals, output::Document& document) {
  // The energy of a whole training is of interest without a limit of power as well.
  const double power_w = options.has("tokens") ? machine.gpu.board_power_w() : machine.gpu.power_w;
  const answer::CostBasis basis = cost_basis(options, machine.price_per_gpu_hour, power_w);
  const double rate = answer::tokens_per_second_gpu(answer);
  const int gpus = static_cast<int>(answer.plan.world());
  answer::RateRange range;
  if (intervals.step_seconds)
    range = answer::rate_range(rate, answer::step_seconds(answer), intervals.step_seconds->low,
                               intervals.step_seconds->high);
  const std::string text = answer::cost_text(basis, rate, gpus, range);
  if (text.empty()) return;
  const answer::RunCost cost = answer::run_cost(basis, rate, gpus);
  const auto known = [](double value) { return value > 0 ? output::Json(value) : output::Json(); };
  document.blocks.insert(document.blocks.begin() + 1, output::Note{"", text});
  document.blocks.emplace_back(
      output::Data{"run_cost",
                   {{"per_million_tokens", known(cost.per_million_tokens)},
                    {"kwh_per_million_tokens", known(cost.kwh_per_million_tokens)},
                    {"tokens", known(basis.tokens)},
                    {"days", known(cost.days)},
                    {"cost", known(cost.cost)},
                    {"energy_mwh", known(cost.mwh)}}});
}

// Changes that make a plan fit, or win back what it loses.
void add_fixes(const answer::CheckedPlan& plan, const answer::Answer& answer, bool wanted,
               output::Document& document) {
  if (answer.run.fits()) {
    if (!wanted) {
      const std::vector<study::Loss> losses = study::losses(answer);
      if (!losses.empty())
        document.blocks.emplace_back(output::Note{
            "", fmt::format("{}; `--fixes` replays changes against it", losses.front().text)});
      return;
    }
    for (output::Block& block :
         study::improvement_blocks(study::improvements(plan, answer), answer))
      document.blocks.push_back(std::move(block));
    return;
  }
  if (!wanted) {
    document.blocks.emplace_back(
        output::Note{"", "`--fixes` replays single changes of the plan and says which would fit"});
    return;
  }
  for (output::Block& block : study::fixes_blocks(study::find_fixes(plan, false), "single_changes"))
    document.blocks.push_back(std::move(block));
}

}  // namespace

int run_run(const Arguments& arguments, Globals globals) {
  Options options("run");
  declare_run(options);
  options.parse(arguments, globals);
  if (options.has("timelines") && !globals.json)
    throw Stop{exit_usage, "--timelines: columns of numbers are for --json"};
  const input::PlanFile file = load_plan(options, globals);
  answer::CheckedPlan plan = checked(file, kept_sites());
  const answer::Site& site = plan.site();
  engine::Options how = replay_options(options, plan.plan());
  const int jobs = jobs_of(options, cores());
  if (options.has("seeds"))
    return run_seeds(file, plan, how, number_of_seeds(options), jobs, globals.json);
  how.threads = cores();
  Recordings recordings(options, plan);
  how.observer = recordings.observer();
  // Residuals are needed only at the end, so they are read during the replay.
  auto residuals = std::async([] { return &kept_residuals(); });
  answer::Answer answer = answer::evaluate(plan, how, options.has("all-ranks"));
  answer::add_retry_cost(answer, plan, how);
  const answer::Basis basis =
      answer::basis_of(site.profile.device, site.machine.gpu.name, file.framework);
  const answer::Intervals intervals =
      answer::intervals(answer, *residuals.get(), basis, "megatron");
  const std::string interval_text = answer::intervals_text(intervals);
  recordings.finish(file, plan, answer, interval_text);
  const bool fits = answer.run.fits();
  output::Document document = output::answer_document(answer, interval_text);
  if (fits)
    document.blocks.emplace_back(output::Data{"interval_90", output::intervals_json(intervals)});
  if (fits) add_cost(options, site.machine, answer, intervals, document);
  add_cluster_notes(plan, document);
  add_assumptions(file, site, document);
  if (options.has("all-ranks")) document.blocks.emplace_back(output::rank_rows(answer));
  recordings.add_timelines(answer, document);
  recordings.add_kernels(answer, document);
  add_fixes(plan, answer, options.has("fixes"), document);
  say(globals, "run", std::move(document));
  return fits ? exit_yes : exit_no;
}

}  // namespace sim::command
