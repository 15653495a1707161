#include "sim/command/plan/plan_task.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/outputs.h"
#include "sim/base/quantity.h"
#include "sim/command/common/cost_options.h"
#include "sim/command/common/gpu_list.h"
#include "sim/command/common/plan_file.h"
#include "sim/command/common/session.h"
#include "sim/command/common/shard.h"
#include "sim/command/common/starting_plan.h"
#include "sim/command/common/watch.h"
#include "sim/command/report.h"
#include "sim/input/text/locate.h"

namespace sim::command {

namespace {

using planner::Objective;

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
  if (const std::size_t comma = names[0].find(','); comma != std::string::npos)
    refuse(fmt::format(
        "'{}': plan takes one model, and several clusters (NAME1,NAME2); for several models: for "
        "model in {} {} ...; do rehearse plan $model {} ...; done",
        names[0].substr(0, 200), names[0].substr(0, comma), names[0].substr(comma + 1, 80),
        names[1]));
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
  wanted.tokens_s = count(options, "rate", 1e15);
  if (wanted.objective == Objective::gpus && wanted.tokens_s == 0)
    refuse("--objective gpus: say the rate that they must reach, --rate TOKENS_PER_SECOND");
  if (options.has("headroom")) {
    const std::string text = options.text("headroom");
    const Parsed<Bytes> size = parse_bytes(text == "0" ? "0B" : text);
    if (const auto* problem = std::get_if<std::string>(&size)) refuse("--headroom: " + *problem);
    wanted.headroom = std::get<Bytes>(size);
  }
  wanted.residuals = &residuals;
  return wanted;
}

// --time-limit in seconds: 600, 600s, 10m; 0: none.
double time_limit(const Options& options) {
  constexpr double most = 1e9;
  const Parsed<double> span = parse_span(options.text("time-limit"));
  const double* seconds = std::get_if<double>(&span);
  return seconds != nullptr && *seconds > 0 && *seconds <= most
             ? *seconds
             : positive(options, "time-limit", most);
}

planner::Space made(const planner::Question& question,
                    const std::map<std::string, std::string>& places) {
  Result<planner::Space> space = planner::Space::make(question);
  if (!space) throw Stop{complain(placed(space.errors(), places)), ""};
  return *space;
}

answer::CostBasis basis_of(const Options& options, const planner::Question& question,
                           const planner::Space& space, const planner::Wanted& wanted) {
  const input::Machine& machine = space.bases().front().file.machine;
  const Prices prices = prices_of(options);
  const double price = prices.of(question.cluster);
  // Boards draw their rated power where the energy is asked for and no limit is set.
  const bool energy = wanted.objective == Objective::energy || options.has("tokens");
  const answer::CostBasis basis{price > 0 ? price : machine.price_per_gpu_hour,
                                energy ? machine.gpu.board_power_w() : machine.gpu.power_w,
                                tokens_of(options)};
  if (wanted.objective == Objective::cost && basis.price_per_gpu_hour == 0)
    refuse(
        fmt::format("--objective cost: the cluster {0} has no price; write --price "
                    "PER_GPU_AND_HOUR, or --price "
                    "{0}=PER_GPU_AND_HOUR",
                    question.cluster));
  return basis;
}

}  // namespace

void declare_plan_search(Options& options) {
  options
      .value("megatron-args", "FILE",
             "start from the job of a launch script or configuration, and compare with its plan")
      .value("cluster", "NAME",
             "the cluster of a plan or of --megatron-args; NAME1,NAME2: the best plan of each; "
             "NAME1:GPUS,NAME2:GPUS: with its own --gpus")
      .value("gpus", "N", "GPUs of the job; N1,N2: each of these; 64..512: 64, 128, 256, 512")
      .value("batch", "B", "sequences of a step")
      .value("sequence", "S", "tokens of a sequence")
      .value("objective", "NAME",
             "time (default): the shortest step; cost: tokens for the money; gpus: the fewest that "
             "reach --rate; energy: tokens for the power of the boards (gpu.power_w, or rated)")
      .value("rate", "TOKENS", "tokens per second that the job must reach, such as 2.5M")
      .value("headroom", "SIZE",
             "memory that must stay free: 4GiB, 0; by default 2 %, or what 95 % probability needs")
      .value("best", "N", "plans to prove; by default 1, and 9 other good plans are listed")
      .flag(
          "constraints",
          "search again with twice the memory, the GPUs of a node, or the batch: which gains most")
      .value("launcher", "NAME", "how Megatron-LM starts: torchrun (default), or slurm")
      .value("time-limit", "SECONDS",
             "then print the best so far, also 10m, 2h; a first plan may take up to a minute")
      .value("output,o", "FOLDER",
             "where plan.json, results.csv and the launch files go; with --shard the shares "
             "(results-plan)")
      .value("csv", "FILE", "also the table of plans into FILE; -: on stdout instead of the text")
      .flag("overwrite", "whatever the folder holds is written over; with --shard: start over")
      .words(0, 1000);
  declare_prices(options);
  declare_tokens(options);
  declare_shard(options);
  declare_report(options);
}

namespace {

// Refuses GPUs after an equals sign: "dgx-h100=1024".
void refuse_equals(const Options& options) {
  std::vector<std::string> texts = options.words();
  if (options.has("cluster")) texts.push_back(options.text("cluster"));
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    if (equals == text.npos || !input::locate(input::Kind::topology, text.substr(0, equals)))
      continue;
    std::string colons = text.substr(0, 200);
    std::ranges::replace(colons, '=', ':');
    throw Stop{exit_usage, fmt::format("'{}': the GPUs of a cluster follow a colon; write {}",
                                       text.substr(0, 200), colons)};
  }
}

}  // namespace

PlanArguments plan_arguments(const Arguments& arguments, Globals& globals) {
  PlanArguments first;
  declare_plan_search(*first.options);
  first.options->parse(arguments, globals);
  refuse_equals(*first.options);
  if (first.options->has("output")) {
    const std::string folder = first.options->text("output");
    first.earlier = listed_launches(folder);
    for (const char* file : {"/plan.json", "/results.csv"}) declare_output(folder + file, "output");
  }
  PlanWords words = spelled_out(*first.options, arguments);
  first.arguments = arguments;
  if (words.arguments == arguments) return first;
  PlanArguments whole;
  declare_plan_search(*whole.options);
  whole.options->parse(words.arguments, globals);
  whole.arguments = words.arguments;
  whole.places = std::move(words.places);
  whole.earlier = std::move(first.earlier);
  return whole;
}

PlanTask plan_task(const PlanArguments& all, const Globals& globals) {
  const auto began = std::chrono::steady_clock::now();
  const Options& options = *all.options;
  std::optional<planner::OwnPlan> own = starting_plan(options, globals);
  const planner::Question question = own ? question_from(*own, options) : question_of(options);
  const planner::Wanted wanted = wanted_of(options, kept_residuals());
  const double limit = time_limit(options);
  std::map<std::string, std::string> places = all.places;
  for (const std::string& one : question.job) places[one] = own->path;
  planner::Space space = made(question, places);
  if (space.bases().empty()) throw Stop{exit_data, why_impossible(space)};
  const answer::CostBasis cost = basis_of(options, question, space, wanted);
  if (wanted.objective == Objective::energy && cost.power_w == 0)
    refuse(
        fmt::format("--objective energy: the power of {} is not known; write "
                    "gpu.rated_power_w=WATTS, of a board by its data sheet",
                    space.bases().front().file.machine.gpu.name));
  for (const planner::Base& base : space.bases()) need(kept_sites().of(base.file.machine));
  const bool slurm = options.choice("launcher", "torchrun", {"torchrun", "slurm"}) == "slurm";
  return {std::move(own),
          question,
          wanted,
          std::move(space),
          cost,
          limit,
          slurm ? planner::Launcher::slurm : planner::Launcher::torchrun,
          options.has("constraints"),
          all.earlier,
          std::chrono::steady_clock::now() - began};
}

std::string why_impossible(const planner::Space& space) {
  std::string message = "no plan is possible";
  const planner::Contradiction why = space.contradiction();
  const std::vector<std::string>& blamed = why.settings;
  if (blamed.size() == 1) message += fmt::format(" with {}", blamed[0]);
  if (blamed.size() > 1)
    message += fmt::format(" with {} and {} together; leave one of them out",
                           fmt::join(blamed.begin(), blamed.end() - 1, ", "), blamed.back());
  for (const std::string& reason : why.reasons) message += "\n  " + reason;
  return message;
}

}  // namespace sim::command
