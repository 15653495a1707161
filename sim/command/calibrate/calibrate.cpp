// calibrate.cpp — `rehearse calibrate`: fits a profile to all that was measured of a cluster.
//
// Two fits follow each other. Kernels and collectives (tables, logs of nccl-tests, traces of a
// plan's steps) move the numbers of the profile that they depend on. Whole runs (tables, logs of a
// plan's steps) then move its physical factors, which kernels narrow.
#include "sim/calibrate/fit/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <optional>
#include <regex>
#include <thread>

#include "sim/calibrate/compare.h"
#include "sim/calibrate/rows/row_plan.h"
#include "sim/calibrate/runs/run_fit_document.h"
#include "sim/calibrate/trace/doubts.h"
#include "sim/command/calibrate/calibrate_runs.h"
#include "sim/command/calibrate/calibrate_trace.h"
#include "sim/command/common/command.h"
#include "sim/command/common/csv_option.h"
#include "sim/command/common/watch.h"
#include "sim/input/launch/megatron.h"
#include "sim/input/plan/plan.h"
#include "sim/input/text/locate.h"
#include "sim/input/text/textproto.h"
#include "sim/output/document.h"

namespace sim::command {

namespace {

// What the words of the command name.
struct Sources {
  std::vector<std::string> traces;             // with --plan
  std::vector<calibrate::SourceFile> logs;     // with --plan: steps of it
  std::vector<calibrate::SourceFile> kernels;  // everything else with kernels or collectives
  std::vector<input::RunsRow> rows;
  bool has_kernels() const { return !traces.empty() || !kernels.empty(); }
  bool has_runs() const { return !rows.empty() || !logs.empty(); }
};

// Whether traces and logs have the plan of their steps.
bool is_planned(const Options& options) {
  return options.has("plan") || options.has("megatron-args");
}

Sources read_sources(const Options& options) {
  const bool planned = is_planned(options);
  Sources all;
  std::vector<std::string> tables;
  Diagnostics problems;
  for (const std::string& path : options.words()) {
    if (is_run_table(path)) {
      tables.push_back(path);
      continue;
    }
    const calibrate::Reader* reader = planned ? calibrate::reader_of(path) : nullptr;
    if (reader != nullptr && reader->is_trace) {
      all.traces.push_back(path);
      continue;
    }
    const Result<calibrate::Source> read = calibrate::read_source(path);
    if (!read) {
      problems.insert(problems.end(), read.errors().begin(), read.errors().end());
      continue;
    }
    const bool steps = planned && !read->measurements.steps.empty();
    (steps ? all.logs : all.kernels)
        .push_back({path, std::string(read->reader->name), read->measurements});
  }
  if (!problems.empty()) throw Stop{complain(problems), ""};
  all.rows = load_run_tables(tables);
  return all;
}

// The first known cluster whose GPU has the profile of --profile; nothing if there is none.
std::optional<input::Machine> machine_of_profile(const Options& options) {
  const std::string wanted = std::filesystem::path(options.text("profile")).stem().string();
  for (const std::string& name : calibrate::known_clusters()) {
    input::Machine machine = need(input::find_cluster(name));
    if (machine.gpu.profile == wanted) return machine;
  }
  return std::nullopt;
}

// The calibrated machine: of --cluster, of the plan, of --profile, of the runs, or of the GPU that
// a source names.
input::Machine machine_of(const Options& options, const Sources& sources,
                          const std::optional<input::PlanFile>& plan) {
  if (plan) return plan->machine;
  if (options.has("cluster")) return need(input::find_cluster(options.text("cluster")));
  if (options.has("profile"))
    if (const auto machine = machine_of_profile(options)) return *machine;
  if (!sources.rows.empty()) return machine_of_runs(sources.rows);
  if (options.has("profile"))
    throw Stop{exit_usage,
               fmt::format("no cluster is known to have the GPU of profile '{}': name one with "
                           "--cluster",
                           options.text("profile"))};
  for (const calibrate::SourceFile& source : sources.kernels) {
    const std::string name = calibrate::cluster_for(source.measurements.device);
    if (!name.empty()) return need(input::find_cluster(name));
  }
  throw Stop{exit_usage,
             fmt::format("the sources do not say which GPU they are of: name a profile to start "
                         "from with --profile; there are {}",
                         fmt::join(input::names(input::Kind::profile), ", "))};
}

// Whether the text is a valid date such as "2024-02-29".
bool is_date(const std::string& text) {
  if (text.size() != 10) return false;
  const auto number = [&](std::size_t from, std::size_t length) {
    unsigned value = 0;
    const char* end = text.data() + from + length;
    return std::from_chars(text.data() + from, end, value).ptr == end ? value : 0;
  };
  const std::chrono::year_month_day day{std::chrono::year(static_cast<int>(number(0, 4))),
                                        std::chrono::month(number(5, 2)),
                                        std::chrono::day(number(8, 2))};
  return text[4] == '-' && text[7] == '-' && day.ok();
}

std::string command_line(const Options& options, const std::string& base) {
  std::string line = fmt::format("rehearse calibrate {}", fmt::join(options.words(), " "));
  for (const char* name : {"plan", "megatron-args"})
    if (options.has(name)) line += fmt::format(" --{} {}", name, options.text(name));
  for (const std::string& setting : options.list("set")) line += " --set " + setting;
  for (const char* name : {"cluster", "rank"})
    if (options.has(name)) line += fmt::format(" --{} {}", name, options.text(name));
  line += " --profile " + base;
  if (options.has("date")) line += " --date " + options.text("date");
  return line;
}

// One call of the command: what is measured, what was found, what is in doubt.
struct Call {
  const Options& options;
  const Globals& globals;
  Sources sources;
  std::optional<input::PlanFile> plan;
  input::Machine machine;
  std::string base;  // name of the profile to start from
  output::Document document;
  std::vector<std::string> doubts;
  std::optional<calibrate::Calibration> kernels;
  std::optional<calibrate::RunFit> runs;

  bool moved() const { return runs || (kernels && calibrate::fitted(*kernels) > 0); }
  std::string name() const {
    return options.has("output") ? std::filesystem::path(options.text("output")).stem().string()
                                 : base;
  }
};

void take(std::vector<std::string>& to, std::vector<std::string> more) {
  to.insert(to.end(), more.begin(), more.end());
}

void add_blocks(output::Document& to, output::Document from) {
  for (output::Block& block : from.blocks) to.blocks.push_back(std::move(block));
}

void fit_kernels(Call& call) {
  calibrate::CalibrateOptions wanted;
  wanted.base = need(input::locate(input::Kind::profile, call.base));
  wanted.name = call.name();
  wanted.date = call.options.text("date");
  wanted.command = command_line(call.options, call.base);
  wanted.planned = call.plan.has_value();
  wanted.force = call.options.has("force");
  if (call.sources.traces.empty()) {
    call.kernels = need(calibrate::calibrate(call.sources.kernels, call.machine, wanted));
  } else {
    answer::Sites sites;
    const answer::CheckedPlan plan = checked(*call.plan, sites);
    const auto traces = compare_traces(call.sources.traces, call.options, plan);
    add_comparison(traces, call.document);
    for (const calibrate::ComparedTrace& one : traces) {
      const auto doubts = calibrate::doubts(one, plan.plan(), call.machine.gpu);
      if (!doubts.empty())
        call.doubts.push_back(fmt::format("{}: {}", one.path, fmt::join(doubts, "; ")));
    }
    Result<calibrate::Calibration> done =
        calibrate::calibrate_traces(traces, call.sources.kernels, plan.plan(), plan.site(), wanted);
    if (!done) {
      call.document.blocks.emplace_back(
          output::Note{"", "no profile: nothing of it could be fitted"});
      take(call.doubts, messages(done.errors()));
      return;
    }
    call.kernels = *done;
    take(call.doubts,
         calibrate::moved_too_far(need(calibrate::find_factors()),
                                  need(input::ProfileDraft::load(wanted.base)), done->fit.profile));
  }
  add_blocks(call.document, calibrate::calibration_document(*call.kernels));
  if (!call.sources.has_runs() || calibrate::fitted(*call.kernels) > 0)
    take(call.doubts, calibrate::doubts(*call.kernels));
}

std::vector<calibrate::StepsOfPlan> steps_of(const Call& call) {
  std::vector<calibrate::StepsOfPlan> all;
  for (const calibrate::SourceFile& log : call.sources.logs) {
    const program::Plan& plan = *call.plan->plan;
    const double tokens = calibrate::tokens_per_gpu(log.measurements, plan);
    const calibrate::MeasuredRun run = calibrate::measured_run(log.measurements.steps, tokens);
    if (run.seconds > 0) all.push_back({log.path, run.seconds, plan, call.plan->machine});
  }
  return all;
}

// Logs of another run than --plan are a doubt.
void doubt_other_runs(Call& call) {
  for (const calibrate::SourceFile& log : call.sources.logs) {
    const calibrate::OtherRun other = calibrate::other_run(log.measurements, *call.plan->plan);
    for (const Diagnostic& one : other.differences)
      call.doubts.push_back(fmt::format("{}: {}", one.where, one.message));
    if (other) call.doubts.push_back(fmt::format("{}: {}", log.path, other.remedy()));
  }
}

void fit_runs(Call& call) {
  doubt_other_runs(call);
  calibrate::RunsToFit runs{
      call.sources.rows,
      steps_of(call),
      base_of_runs(need(input::locate(input::Kind::profile, call.base)), call.machine),
      call.base,
      nullptr,
      static_cast<int>(std::max(1U, std::thread::hardware_concurrency()))};
  if (call.options.has("cluster")) runs.machine = &call.machine;
  std::vector<calibrate::Factor> factors = need(calibrate::find_factors());
  if (call.kernels && calibrate::fitted(*call.kernels) > 0) {
    const bool links = call.kernels->fit.profile.has_communication();
    input::ProfileDraft base = call.kernels->fit.profile;
    if (!links) base.take_communication(runs.base);
    runs.base = base;
    narrow_priors(call.kernels->fit, factors);
  }
  call.runs = need(calibrate::fit_runs(runs, factors));
  add_spreads(runs, *call.runs);
  add_blocks(call.document, calibrate::run_fit_document(*call.runs));
  if (const std::string text = out_of_memory_text(runs); !text.empty())
    call.document.blocks.emplace_back(output::Note{"", text, true, "out_of_memory"});
  take(call.doubts, calibrate::doubts(*call.runs));
}

std::string profile_text(const Call& call) {
  if (!call.runs) return call.kernels->profile;
  input::ProfileDraft profile = call.runs->profile;
  profile.name(call.name());
  device::Provenance from;
  const device::Provenance before = profile.device().provenance;
  from.device = call.machine.gpu.name;
  from.date = call.options.text("date", before.date);
  from.base = call.base;
  from.command = command_line(call.options, call.base);
  if (call.kernels) from.residuals = before.residuals;
  for (const calibrate::FittedRun& run : call.runs->runs) {
    from.run_residuals.push_back(run.held_out);
    from.fitted_rows.push_back(run.row_id);
  }
  from.reserved_residuals = call.runs->reserved;
  from.allocated_residuals = call.runs->allocated;
  std::vector<std::string> sources = call.options.words();
  sources.push_back(fmt::format("everything else: profile {}", call.base));
  profile.provenance(from, sources);
  return profile.text(
      fmt::format("Written by the command in `provenance`: profile {} with the "
                  "factors that whole runs tell.",
                  call.base));
}

// The file of the cluster that was measured, with the path of the new profile in it.
void write_cluster(const Call& call) {
  namespace fs = std::filesystem;
  const std::string path = call.options.text("cluster-file");
  const std::string text = need(input::read_file(call.machine.path));
  const fs::path folder = fs::absolute(path).parent_path();
  const fs::path profile = fs::absolute(call.options.text("output")).lexically_relative(folder);
  static const std::regex gpu("(\\n\\s*profile:\\s*)\"[^\"]*\""),
      fabric("\\ncommunication:\\s*\"[^\"]*\"[^\\n]*");
  const std::string named = profile.has_parent_path() ? profile.string() : "./" + profile.string();
  std::string changed = std::regex_replace(text, gpu, fmt::format("$1\"{}\"", named));
  if (call.runs) changed = std::regex_replace(changed, fabric, "");
  save(path, changed);
}

void write_collectives(const Call& call) {
  const output::Rows* rows = call.document.table("collectives");
  if (rows == nullptr || rows->cells.empty())
    throw Stop{exit_data,
               "--csv is the table of measured collectives, and the sources have none that the "
               "network predicts"};
  write_csv(call.options.text("csv"), *rows);
}

int finish(Call& call) {
  if (call.options.has("csv")) write_collectives(call);
  const std::string output = call.options.text("output");
  const bool refused = !call.moved() || (!call.doubts.empty() && !call.options.has("force"));
  if (!output.empty() && !refused) {
    save(output, profile_text(call));
    if (call.options.has("cluster-file")) write_cluster(call);
  }
  // Prints one document: the result, or the reason why there is none.
  if (!refused || output.empty() || !call.globals.json)
    say(call.globals, call.kernels || !call.runs ? "calibrate" : "calibrate-runs", call.document);
  if (output.empty() || !refused) {
    for (const std::string& doubt : call.doubts) note("warning: " + doubt);
    return refused ? exit_no : exit_yes;
  }
  throw Stop{exit_data, fmt::format("{} is not written: {}{}", output, fmt::join(call.doubts, "; "),
                                    call.moved() ? "; --force writes it all the same" : "")};
}

void declare_calibrate(Options& options) {
  options.value("profile", "NAME", "profile to start from (default: that of the sources' GPU)")
      .value("cluster", "NAME", "cluster whose GPU was measured (default: one with that profile)")
      .output("output,o", "FILE", "write the new profile to FILE")
      .output("cluster-file", "FILE", "with -o: also write the cluster with that profile to FILE")
      .value("plan", "PLAN", "the plan that ran: traces and logs are of its steps")
      .value("megatron-args", "FILE", "the launch script of what ran, instead of --plan")
      .values("set", "KEY=VALUE", "with --plan: a setting of it; may be given again")
      .value("rank", "N", "with --plan: the rank of the trace (default: as the trace says)")
      .output("trace", "FILE", "with --plan: also draw predicted beside measured (Perfetto)")
      .output("csv", "FILE", "write each measured collective with its predictions to FILE")
      .value("date", "YYYY-MM-DD", "date of the measurements (default: the sources', the base's)")
      .flag("force", "write the profile in spite of the doubts that are printed")
      .words(1, 1000);
}

std::optional<input::PlanFile> plan_of(const Options& options) {
  if (!is_planned(options)) return std::nullopt;
  if (options.has("plan") && options.has("megatron-args"))
    throw Stop{exit_usage, "either --plan or --megatron-args, not both"};
  std::vector<std::string> settings = options.list("set");
  if (options.has("cluster")) settings.push_back("cluster=" + options.text("cluster"));
  if (!options.has("plan"))
    return need(input::load_megatron(options.text("megatron-args"), settings));
  return need(input::load_plan(workload_path(options.text("plan")), settings));
}

}  // namespace

int run_calibrate(const Arguments& arguments, Globals globals) {
  Options options("calibrate");
  declare_calibrate(options);
  options.parse(arguments, globals);
  const std::string date = options.text("date");
  if (!date.empty() && !is_date(date))
    throw Stop{exit_usage, fmt::format("--date takes a day as YYYY-MM-DD, not '{}'", date)};
  for (const char* name : {"set", "rank", "trace"})
    if (options.has(name) && !is_planned(options))
      throw Stop{exit_usage, fmt::format("--{} needs --plan or --megatron-args", name)};
  if (options.has("cluster-file") && !options.has("output"))
    throw Stop{exit_usage, "--cluster-file needs -o: the cluster names the new profile"};
  Call call{options, globals, read_sources(options), plan_of(options), {}, {}, {}, {}, {}, {}};
  call.machine = machine_of(options, call.sources, call.plan);
  call.base = options.text("profile", call.machine.gpu.profile);
  if (!options.has("cluster") && !call.sources.rows.empty())
    keep_profile(call.machine, call.sources.rows, globals);
  if (call.sources.has_kernels()) fit_kernels(call);
  if (call.sources.has_runs()) fit_runs(call);
  return finish(call);
}

}  // namespace sim::command
