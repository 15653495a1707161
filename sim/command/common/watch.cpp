#include "sim/command/common/watch.h"

#include <fmt/format.h>

#include <optional>

#include "sim/calibrate/readers/reader.h"
#include "sim/output/memory/memory_plot.h"
#include "sim/output/output.h"
#include "sim/output/perfetto/chrome_trace.h"
#include "sim/output/perfetto/perfetto.h"

namespace sim::command {

void declare_plan(Options& options) {
  options.value("cluster", "NAME", "run on this cluster instead of the plan's")
      .value("megatron-args", "FILE", "a launch script of Megatron-LM instead of a plan");
}

namespace {

// Stops if a file that is no plan holds measurements, and names the command that reads them.
void refuse_measured(const std::string& path) {
  const calibrate::Reader* reader = calibrate::reader_of(path);
  if (reader == nullptr) return;
  throw Stop{complain({{path, fmt::format("{}, not a plan; `{}` reads it", reader->name,
                                          calibrate::command_for(*reader, path))}}),
             ""};
}

}  // namespace

void refuse_beside_launch(const std::string& name) {
  if (name.empty()) return;
  if (input::locate(input::Kind::topology, name))
    throw Stop{exit_usage, fmt::format("'{0}' is a cluster: write cluster={0}", name)};
  throw Stop{exit_usage, "either a plan or --megatron-args, not both"};
}

input::PlanFile load_plan(const Options& options, const Globals& globals, std::size_t first) {
  auto [path, settings] = options.named(first);
  if (options.has("cluster")) settings.push_back("cluster=" + options.text("cluster"));
  std::optional<input::PlanFile> file;
  if (options.has("megatron-args")) {
    refuse_beside_launch(path);
    file = need(input::load_megatron(options.text("megatron-args"), settings));
  } else {
    if (path.empty() && settings.empty()) throw Stop{exit_usage, "name a plan, or --megatron-args"};
    if (!path.empty()) path = workload_path(path);
    Result<input::PlanFile> loaded = input::load_plan(path, settings);
    if (!loaded && !path.empty()) refuse_measured(path);
    file = need(std::move(loaded));
  }
  if (!globals.quiet) {
    for (const std::string& text : file->notes) note("note: " + text);
  }
  return *std::move(file);
}

answer::CheckedPlan checked(const input::PlanFile& file, answer::Sites& sites) {
  answer::Site& site = *need(sites.of(file.machine));
  const Result<answer::CheckedPlan> plan = answer::check(file.plan, site);
  if (plan) return *plan;
  const std::string where = file.plan->architecture.name + " on " + site.machine.cluster.name;
  Diagnostics broken = plan.errors();
  for (Diagnostic& rule : broken) rule.where = where;
  throw Stop{complain(broken), ""};
}

void declare_watch(Options& options) {
  options
      .output("trace", "FILE",
              "also write a trace of all replayed steps (ui.perfetto.dev opens it): Perfetto's "
              "protobuf, or Chrome's JSON where FILE ends in .json or .json.gz")
      .output("memory-plot", "FILE", "also draw memory over time by category (SVG)")
      .output("memory-snapshot", "FILE",
              "also write a PyTorch memory snapshot (pytorch.org/memory_viz opens it); each rank "
              "class is a device");
}

bool Watch::wanted(const Options& options) {
  return options.has("trace") || options.has("memory-plot") || options.has("memory-snapshot");
}

namespace {

// Names of rank classes such as "stage 0, cp rank 1 (32 ranks)", for the tracks of a trace.
std::vector<std::string> class_names(const program::Job& job) {
  std::vector<std::string> names;
  for (const program::Program& program : job.classes) {
    const std::string cp =
        job.mesh.degrees().cp > 1 ? fmt::format(", cp rank {}", program.cp_rank) : "";
    names.push_back(fmt::format("stage {}{} ({} ranks)", program.stage, cp, program.ranks));
  }
  return names;
}

void need_no(const std::string& problem) {
  if (!problem.empty()) throw Stop{exit_io, problem};
}

}  // namespace

Watch::Watch(const Options& options, const program::Job& job) {
  if (const std::string path = options.text("trace"); !path.empty()) {
    if (path.ends_with(".json") || path.ends_with(".json.gz"))
      trace_ = std::make_unique<output::ChromeTrace>(class_names(job));
    else
      trace_ = std::make_unique<output::PerfettoTrace>(class_names(job));
    need_no(trace_->open(path));
    add(*trace_);
  }
  if (options.has("memory-plot")) {
    timeline_ = std::make_unique<output::MemoryTimeline>();
    need_no(plot_.open(options.text("memory-plot")));
    add(*timeline_);
  }
  if (options.has("memory-snapshot")) {
    history_ = std::make_unique<output::MemorySnapshot>(job.classes.size());
    need_no(snapshot_.open(options.text("memory-snapshot")));
    add(*history_);
  }
}

void Watch::finish(const answer::Answer& answer) {
  if (trace_) need_no(trace_->close());
  if (timeline_) {
    need_no(plot_.write(output::memory_plot(answer, *timeline_)));
    need_no(plot_.commit());
  }
  if (history_) {
    need_no(snapshot_.write(history_->pickle()));
    need_no(snapshot_.commit());
  }
}

}  // namespace sim::command
