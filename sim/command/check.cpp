// check.cpp — `rehearse check`: reports every problem of input files of any kind, and of a plan in
// words.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "sim/allocator/recorded/replay.h"
#include "sim/allocator/recorded/snapshot.h"
#include "sim/answer/interval.h"
#include "sim/base/text.h"
#include "sim/calibrate/readers/reader.h"
#include "sim/calibrate/tables/measured_table.h"
#include "sim/calibrate/tables/timings.h"
#include "sim/command/common/command.h"
#include "sim/input/cluster/cluster.h"
#include "sim/input/frameworks/framework.h"
#include "sim/input/launch/launch.h"
#include "sim/input/launch/launch_files.h"
#include "sim/input/models/family.h"
#include "sim/input/models/huggingface.h"
#include "sim/input/models/names.h"
#include "sim/input/plan/campaign.h"
#include "sim/input/plan/grid.h"
#include "sim/input/plan/plan.h"
#include "sim/input/plan/search.h"
#include "sim/input/plan/whatif.h"
#include "sim/input/profile/profile.h"
#include "sim/input/profile/residuals.h"
#include "sim/input/tables/codec.h"
#include "sim/input/tables/runs_csv.h"
#include "sim/input/tables/table_csv.h"
#include "sim/input/tables/tokenizer.h"
#include "sim/input/text/kinds.h"
#include "sim/input/text/locate.h"
#include "sim/input/text/textproto.h"
#include "sim/output/document.h"

namespace sim::command {

namespace {

constexpr std::int64_t trace_bytes_max = std::int64_t{2} << 30;

template <class T>
Diagnostics problems_of(const Result<T>& result) {
  return result ? Diagnostics{} : result.errors();
}

Diagnostics check_trace(const std::string& path) {
  const Result<std::string> text = input::read_file(path, trace_bytes_max);
  return text ? problems_of(allocator::parse_trace(*text, path, allocator::Rules::newer))
              : text.errors();
}

Diagnostics check_snapshot(const std::string& path) {
  const Result<std::string> bytes = input::read_file(path, trace_bytes_max);
  return bytes ? problems_of(allocator::read_snapshot(*bytes, path)) : bytes.errors();
}

// Checks a source of measurements that a reader of `calibrate` recognises.
Diagnostics check_measurements(const std::string& path) {
  return problems_of(calibrate::read_source(path));
}

// Reports the problems of all rows; `validate` skips such rows.
Diagnostics check_runs(const std::string& path) {
  const Result<input::RunsTable> table = input::load_runs(path);
  return table ? input::row_problems(*table) : table.errors();
}

Diagnostics check_table(const std::string& path) {
  const Result<input::Table> table = input::load_table(path);
  return table ? calibrate::cell_problems(*table) : table.errors();
}

// Also checks the table and the trace that the campaign names, and the plan of each phase and pool.
Diagnostics check_campaign(const std::string& path) {
  const Result<input::CampaignFile> file = input::load_campaign(path);
  if (!file) return file.errors();
  Diagnostics problems;
  const auto take = [&](Diagnostics more) {
    problems.insert(problems.end(), more.begin(), more.end());
  };
  if (!file->failures.empty()) {
    const Result<input::FailureFile> table = input::load_failures(file->failures, file->path);
    take(problems_of(table));
    if (table && !file->trace.empty())
      take(problems_of(input::load_failure_trace(file->trace, table->kinds, 1'000'000)));
  }
  if (file->plan.empty()) return problems;
  const Result<std::string> plan = input::locate(input::Kind::workload, file->plan, file->path);
  if (!plan) return plan.errors();
  std::vector<std::vector<std::string>> beside = {{}};
  for (const input::PhaseFields& phase : file->phases) beside.push_back(phase.settings);
  for (const input::PoolFields& pool : file->pools) beside.push_back(pool.settings);
  for (const std::vector<std::string>& more : beside) {
    std::vector<std::string> settings = file->settings;
    settings.insert(settings.end(), more.begin(), more.end());
    take(problems_of(input::load_plan(*plan, settings)));
  }
  return problems;
}

struct Kind {
  const char* name;
  Diagnostics (*problems)(const std::string& path);
};
constexpr std::array<Kind, 23> kinds = {{
    {"plan", [](const std::string& path) { return problems_of(input::load_plan(path)); }},
    {"grid", [](const std::string& path) { return problems_of(input::load_grid(path)); }},
    {"cluster", [](const std::string& path) { return problems_of(input::load_cluster(path)); }},
    {"profile", [](const std::string& path) { return problems_of(input::load_profile(path)); }},
    {"model", [](const std::string& path) { return problems_of(input::load_huggingface(path)); }},
    {"launch-script",
     [](const std::string& path) { return problems_of(input::load_megatron(path)); }},
    {"runs", check_runs},
    {"table", check_table},
    {"measurements", check_measurements},
    {"campaign", check_campaign},
    {"search", [](const std::string& path) { return problems_of(input::load_search(path)); }},
    {"failures", [](const std::string& path) { return problems_of(input::load_failures(path)); }},
    {"framework", input::framework_problems},
    {"family", input::family_problems},
    {"launcher", input::launcher_problems},
    {"codec", [](const std::string& path) { return problems_of(input::load_codec(path)); }},
    {"tokenizers", input::tokenizer_problems},
    {"model-names", input::model_name_problems},
    {"residuals", [](const std::string& path) { return problems_of(input::load_residuals(path)); }},
    {"variants", [](const std::string& path) { return problems_of(input::load_whatif(path)); }},
    {"cells", [](const std::string& path) { return problems_of(input::load_table(path)); }},
    {"trace", check_trace},
    {"snapshot", check_snapshot},
}};

// Recognises the kind of a table by its columns.
std::string kind_of_table(const std::string& path) {
  const Result<input::Table> table = input::load_table(path);
  if (!table) return "runs";
  if (calibrate::measured_table(*table) != nullptr ||
      calibrate::timing_table(*table) != calibrate::TimingTable::none) {
    return "table";
  }
  if (calibrate::read_source(path)) return "measurements";
  // A table of unknown kind: only equal numbers of cells can be checked. A table of runs has
  // columns for GPUs.
  const auto known = std::ranges::count_if(table->columns, input::is_run_column);
  const bool on_gpus = std::ranges::any_of(table->columns, [](const std::string& column) {
    return column == "gpu" || column == "n_gpus" || column == "tp" || column == "pp";
  });
  return !on_gpus || 2 * static_cast<std::size_t>(known) < table->columns.size() ? "cells" : "runs";
}

// True if a JSON text has keys of DeepSpeed and names no model.
bool is_deepspeed(const std::string& text) {
  const auto has = [&](const char* key) { return text.find(key) != std::string::npos; };
  return !has("\"model_type\"") &&
         (has("\"zero_optimization\"") || has("\"train_micro_batch_size_per_gpu\"") ||
          has("\"train_batch_size\""));
}

// The kind by contents; by the suffix only for formats that do not tell themselves.
std::string kind_of(const std::string& path) {
  const std::string suffix = std::filesystem::path(path).extension().string();
  if (suffix == ".csv") return kind_of_table(path);
  if (suffix == ".gz") return "measurements";
  if (suffix == ".trace") return "trace";
  if (suffix == ".pickle") return "snapshot";
  const Result<std::string> text = input::read_file(path);
  if (!text) return suffix == ".log" ? "measurements" : "plan";
  const bool is_json = text->find_first_not_of(" \t\r\n") < text->size() &&
                       (*text)[text->find_first_not_of(" \t\r\n")] == '{';
  if (is_json && is_deepspeed(*text)) return "launch-script";
  if (suffix == ".json" && text->find("\"model_type\"") != std::string::npos) return "model";
  if (text->starts_with("#!")) return "launch-script";
  if (suffix != ".textproto" && calibrate::is_measured(*text, path)) return "measurements";
  if (is_json || suffix == ".json") return "model";
  if (input::named_as_launch(path)) return "launch-script";
  if (suffix == ".log") return "measurements";
  if (suffix != ".textproto" && input::is_launch_text(*text)) return "launch-script";
  return input::kind_of_text(*text);
}

// "; kernels of h100-80 on MI325X: borrowed, ..." for a cluster without a profile of its own GPU.
std::string borrowed(const std::string& path) {
  const Result<input::Machine> machine = input::load_cluster(path);
  if (!machine) return "";
  const Result<input::ProfileFile> profile = input::find_profiles(*machine);
  const std::string text = profile ? answer::borrowed_text(profile->device, machine->gpu.name) : "";
  return text.empty() ? "" : "; " + text;
}

// A file to check, or a plan in words: name (or none) and settings.
struct Subject {
  std::string path;                   // "": everything is in the settings
  std::vector<std::string> settings;  // "tp=8"
  std::string kind;
  std::string shown;
};

constexpr std::array named_kinds = {input::Kind::workload, input::Kind::topology,
                                    input::Kind::model, input::Kind::profile};

// The path of a name in the folders of data; a word that is no name is a path.
std::string path_of(const std::string& word) {
  std::error_code unreadable;
  if (std::filesystem::exists(word, unreadable)) return word;
  for (const input::Kind kind : named_kinds)
    if (const Result<std::string> path = input::locate(kind, word)) return *path;
  return word;
}

// Splits the words into files and the settings of one plan. Settings make one plan of all words.
std::vector<Subject> subjects_of(const std::vector<std::string>& words, const std::string& wanted) {
  std::vector<std::string> names, settings;
  for (const std::string& word : words) {
    std::error_code unreadable;
    const bool is_file =
        word.find('=') == std::string::npos || std::filesystem::exists(word, unreadable);
    (is_file ? names : settings).push_back(word);
  }
  const auto kind_at = [&](const std::string& path) {
    return wanted.empty() ? kind_of(path) : wanted;
  };
  std::vector<Subject> subjects;
  for (const std::string& name : names) {
    const std::string path = path_of(name);
    subjects.push_back({path, settings, kind_at(path), name});
  }
  if (settings.empty()) return subjects;
  if (names.size() > 1)
    throw Stop{exit_usage, fmt::format("{} changes one plan, and these are {} files: check one "
                                       "with settings at a time",
                                       settings.front(), names.size())};
  if (names.empty()) subjects.push_back({"", settings, wanted.empty() ? "plan" : wanted, ""});
  Subject& plan = subjects.front();
  if (plan.kind != "plan" && plan.kind != "launch-script")
    throw Stop{exit_usage, fmt::format("{} changes a plan or a launch script, not a {}",
                                       settings.front(), plan.kind)};
  plan.shown =
      fmt::format("{}{}{}", plan.shown, plan.shown.empty() ? "" : " ", fmt::join(settings, " "));
  return subjects;
}

// Says that a word is neither a file nor a name. Empty for files, names and paths.
std::string unknown_name(const std::string& path) {
  std::error_code unreadable;
  if (path.find_first_of("/.") != std::string::npos || std::filesystem::exists(path, unreadable))
    return "";
  std::vector<std::string> names;
  for (const input::Kind kind : named_kinds)
    for (std::string& name : input::names(kind)) names.push_back(std::move(name));
  return fmt::format("there is no such file, and no plan, cluster, model or profile of this name{}",
                     did_you_mean(path, names));
}

Diagnostics problems_of_subject(const Subject& subject) {
  if (!subject.path.empty())
    if (std::string unknown = unknown_name(subject.path); !unknown.empty())
      return {{subject.path, std::move(unknown), Fault::missing}};
  if (subject.path.empty() || !subject.settings.empty())
    return problems_of(subject.kind == "launch-script"
                           ? input::load_megatron(subject.path, subject.settings)
                           : input::load_plan(subject.path, subject.settings));
  const auto kind = std::ranges::find(kinds, subject.kind, &Kind::name);
  return kind->problems(subject.path);
}

}  // namespace

int run_check(const Arguments& arguments, Globals globals) {
  Options options("check");
  options.value("kind", "KIND", "what the files are, where their names and contents do not say it")
      .words(1, 100000)
      .parse(arguments, globals);
  std::vector<std::string> names;
  for (const Kind& kind : kinds) names.emplace_back(kind.name);
  const std::string wanted = options.has("kind") ? options.choice("kind", "", names) : "";
  Diagnostics all;
  std::string good;
  output::Rows files{output::whole, "", {{"file", ""}, {"kind", ""}, {"problems", ""}}, {}, true};
  for (const Subject& subject : subjects_of(options.words(), wanted)) {
    const Diagnostics problems = problems_of_subject(subject);
    files.cells.push_back({subject.shown, subject.kind, problems_json(problems)});
    if (problems.empty())
      good += fmt::format("{}: {}, no problems{}\n", subject.shown, subject.kind,
                          subject.kind == "cluster" ? borrowed(subject.path) : "");
    all.insert(all.end(), problems.begin(), problems.end());
  }
  output::Document document;
  if (!good.empty()) document.blocks.emplace_back(output::Note{"", good});
  document.blocks.emplace_back(std::move(files));
  say(globals, "check", document);
  return all.empty() ? exit_yes : complain(all);
}

}  // namespace sim::command
