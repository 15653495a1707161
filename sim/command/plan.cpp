// plan.cpp — `rehearse plan`: which plan should I run?
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "sim/command/command.h"
#include "sim/command/interrupt.h"
#include "sim/command/plan_file.h"
#include "sim/command/progress.h"
#include "sim/command/report.h"
#include "sim/command/session.h"
#include "sim/config/import_words.h"
#include "sim/config/residuals.h"
#include "sim/core/quantity.h"
#include "sim/planner/document.h"
#include "sim/planner/search.h"
#include "sim/report/json.h"
#include "sim/search/slices.h"

namespace sim::command {

namespace {

using planner::Objective;
using Clock = std::chrono::steady_clock;

[[noreturn]] void refuse(const std::string& message) {
  throw Stop{exit_usage, message};
}

double positive(const Options& options, const char* name, double most) {
  if (!options.has(name)) return 0;
  const std::string text = options.text(name);
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || end != text.c_str() + text.size() || !(value > 0) || value > most)
    refuse(fmt::format("--{}: '{}' is not a number above 0, at most {:g}", name, text, most));
  return value;
}

std::vector<int> gpus_of(const Options& options) {
  std::vector<int> all;
  const std::string text = options.text("gpus");
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    int value = 0;
    const auto [last, error] = std::from_chars(text.data() + at, text.data() + end, value);
    if (error != std::errc{} || last != text.data() + end || value < 1 || value > 1 << 20)
      refuse(
          fmt::format("--gpus: '{}' is not a number of GPUs; write for example --gpus 512, or "
                      "--gpus 256,512",
                      text));
    all.push_back(value);
    at = end + 1;
  }
  std::ranges::sort(all);
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

planner::Question question_of(const Options& options) {
  planner::Question question;
  question.gpus = gpus_of(options);
  std::vector<std::string> names;
  for (const std::string& word : options.words()) {
    if (word.find('=') == std::string::npos) {
      names.push_back(word);
    } else {
      question.settings.push_back(word);
    }
  }
  if (names.size() != 2)
    refuse(
        "name a model and a cluster: rehearse plan llama-3.1-70b dgx-h100 --gpus 512 --batch 512 "
        "--sequence 8192; or a file that says all of it (rehearse init search)");
  question.model = names[0];
  question.cluster = names[1];
  const std::int64_t batch = options.number("batch", 0, 1, 1 << 24);
  const std::int64_t sequence = options.number("sequence", 0, 1, 1 << 26);
  question.settings.push_back(fmt::format("global_batch={}", batch));
  question.settings.push_back(fmt::format("sequence={}", sequence));
  return question;
}

planner::Wanted wanted_of(const Options& options, const config::RunResiduals& residuals) {
  planner::Wanted wanted;
  const std::string name = options.choice("objective", "time", {"time", "cost", "gpus"});
  wanted.objective = name == "cost"   ? Objective::cost
                     : name == "gpus" ? Objective::gpus
                                      : Objective::time;
  wanted.best = static_cast<int>(options.number("best", 10, 1, 1000));
  const auto cores = static_cast<std::int64_t>(std::max(1U, std::thread::hardware_concurrency()));
  wanted.workers = static_cast<int>(options.number("jobs", cores, 1, 1024));
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

// Nothing in the space is possible: why.
[[noreturn]] void stop_impossible(const planner::Space& space) {
  std::string message = "no plan is possible";
  const std::vector<std::string> both = space.contradiction();
  if (both.size() == 1) message += fmt::format(" with {}", both[0]);
  if (both.size() == 2)
    message += fmt::format(" with {} and {} together; leave one of them out", both[0], both[1]);
  for (const std::string& reason : space.reasons()) message += "\n  " + reason;
  if (space.plans() == 0)
    message += "\n  the degrees that are asked for do not multiply to the number of GPUs";
  throw Stop{exit_data, message};
}

// No plan fits: which setting less would do, and the best plan that it gives.
std::vector<std::string> relaxed(const planner::Question& question, search::Sites& sites,
                                 planner::Wanted wanted,
                                 const std::function<bool(const planner::Progress&)>& go_on) {
  std::vector<std::string> found;
  wanted.best = 1;
  for (std::size_t i = 0; i < question.settings.size(); ++i) {
    const std::string& one = question.settings[i];
    if (one.starts_with("global_batch=") || one.starts_with("sequence=")) continue;
    planner::Question less = question;
    less.settings.erase(less.settings.begin() + static_cast<std::ptrdiff_t>(i));
    const Result<planner::Space> space = planner::Space::make(less);
    if (!space) continue;
    for (const planner::Base& base : space->bases()) need(sites.of(base.file.machine));
    const planner::Outcome outcome = planner::find_best(*space, sites, wanted, go_on);
    if (outcome.best.empty()) continue;
    const planner::Replayed& best = outcome.best.front();
    found.push_back(fmt::format("without {}: {:.3f} s with {}", one,
                                static_cast<double>(best.step_ps) * 1e-12,
                                space->words(space->cores()[best.core], best.variant)));
  }
  return found;
}

// What to launch: the best, or what is faster among what the best few were refined to.
void launch(planner::Said& said) {
  const planner::Replayed& best = said.outcome.best.front();
  const planner::Core& core = said.space.cores()[best.core];
  said.launched = said.space.words(core, best.variant);
  std::int64_t least = best.step_ps;
  // Of another objective the order is not that of time.
  const bool any = said.wanted.objective == Objective::time;
  for (const planner::Refined& one : said.refined)
    if ((any || one.rank == 0) && one.replayed.step_ps < least) {
      least = one.replayed.step_ps;
      said.launched = one.settings;
    }
  workload::Plan plan = said.space.plan(core, best.variant);
  config::Machine machine = said.space.bases()[core.base].file.machine;
  if (least < best.step_ps) {
    const std::vector<std::string_view> words = config::words_of(said.launched);
    const config::PlanFile file =
        need(config::load_plan("", {words.begin(), words.end()}));
    machine = file.machine;
    plan = search::settled(file.plan, *need(kept_sites().of(machine)));
  }
  said.launches = planner::launches(plan, said.model, machine);
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
  options.value("gpus", "N", "GPUs of the job; N1,N2: each of these")
      .value("batch", "B", "sequences of a step")
      .value("sequence", "S", "tokens of a sequence")
      .value("objective", "NAME",
             "time (default): the shortest step; cost: tokens for the money; gpus: the fewest that "
             "reach --rate")
      .value("rate", "TOKENS", "tokens per second that the job must reach")
      .value("price", "NUMBER", "what a GPU costs per hour")
      .value("headroom", "SIZE", "memory that must stay free: 4GiB")
      .value("best", "N", "plans to find (10)")
      .value("time-limit", "SECONDS", "then print the best so far")
      .value("jobs,j", "N", "worker processes (default: the cores)")
      .words(1, 1000);
  declare_report(options);
}

// What is asked, once a file is spelled out.
struct Asked {
  std::unique_ptr<Options> options = std::make_unique<Options>("plan");
  std::map<std::string, std::string> places;
};

Asked asked(const Arguments& arguments, Globals& globals) {
  Asked first;
  declare(*first.options);
  first.options->parse(arguments, globals);
  PlanWords words = spelled_out(*first.options, arguments);
  if (words.arguments == arguments) return first;
  Asked whole;
  declare(*whole.options);
  whole.options->parse(words.arguments, globals);
  whole.places = std::move(words.places);
  return whole;
}

}  // namespace

int run_plan(const Arguments& arguments, Globals globals) {
  const Asked all = asked(arguments, globals);
  const Options& options = *all.options;
  for (const char* needed : {"gpus", "batch", "sequence"})
    if (!options.has(needed)) refuse(fmt::format("--{} is missing", needed));
  const planner::Question question = question_of(options);
  const config::RunResiduals& residuals = kept_residuals();
  const planner::Wanted wanted = wanted_of(options, residuals);
  const double limit = positive(options, "time-limit", 1e9);
  const planner::Space space = made(question, all.places);
  if (space.cores().empty()) stop_impossible(space);
  const double price = price_of(options, space, wanted);
  search::Sites& sites = kept_sites();
  for (const planner::Base& base : space.bases()) need(sites.of(base.file.machine));

  catch_interrupts();
  const Clock::time_point began = Clock::now();
  const auto goes_on = [&] {
    const double passed = std::chrono::duration<double>(Clock::now() - began).count();
    return !interrupted() && (limit == 0 || passed < limit);
  };
  const auto total = static_cast<std::size_t>(space.plans());
  Progress progress("plan", total, globals.quiet);
  const auto shown = [&](const planner::Progress& now) {
    progress.show(static_cast<std::size_t>(std::min(now.decided, space.plans())),
                  now.best_s > 0
                      ? fmt::format("best {:.3f} s, none below {:.3f} s, {} replayed", now.best_s,
                                    now.least_s, now.replayed)
                      : fmt::format("none below {:.3f} s, {} replayed", now.least_s, now.replayed));
    return goes_on();
  };
  const planner::Outcome outcome = planner::find_best(space, sites, wanted, shown);
  planner::Said said{space, outcome, wanted, question.model, question.cluster, price, {}, {},
                     {},    {},      {}};
  if (!outcome.best.empty()) {
    const planner::Replayed& best = outcome.best.front();
    if (outcome.complete) {
      said.refined = planner::refined(space, sites, wanted, outcome.best, goes_on);
      said.neighbours = planner::neighbours(space, sites, wanted, best, goes_on);
    }
    launch(said);
  } else if (outcome.complete) {
    said.relaxed = relaxed(question, sites, wanted, shown);
  }
  progress.clear();
  const report::Document document = planner::document(said);
  if (options.has("report")) write_page(options.text("report"), document);
  print(globals.json ? report::document("plan", planner::to_json(said)).dump(2) + "\n"
                     : report::text(document));
  if (!outcome.complete && interrupted()) return exit_interrupted;
  return outcome.best.empty() ? exit_no : exit_yes;
}

}  // namespace sim::command
