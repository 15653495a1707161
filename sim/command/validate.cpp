// validate.cpp — `rehearse validate`: predicts tables of measured runs on all cores.
#include "sim/calibrate/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "sim/base/json_text.h"
#include "sim/base/text.h"
#include "sim/calibrate/fit/fit.h"
#include "sim/calibrate/runs/factors.h"
#include "sim/calibrate/tables/measured_table.h"
#include "sim/calibrate/tables/memory_rows.h"
#include "sim/calibrate/tables/timings.h"
#include "sim/command/common/command.h"
#include "sim/command/common/interrupt.h"
#include "sim/command/common/progress.h"
#include "sim/command/common/row_identities.h"
#include "sim/command/common/shard.h"
#include "sim/command/leave_out.h"
#include "sim/command/report.h"
#include "sim/command/within.h"
#include "sim/input/tables/runs_csv.h"
#include "sim/input/tables/table_csv.h"
#include "sim/input/text/locate.h"
#include "sim/output/document.h"
#include "sim/output/output.h"
#include "sim/study/sweep/answers.h"
#include "sim/study/sweep/pool.h"

namespace sim::command {

namespace {

struct Predicted {
  std::vector<calibrate::Prediction> rows;
  bool complete = false;
  std::size_t crashed = 0;
};

calibrate::Prediction crashed(const input::RunsRow& row, const std::string& why) {
  calibrate::Prediction prediction;
  prediction.row_id = row.text("row_id");
  prediction.status = "unsupported";
  prediction.reason = "our bug: " + why;
  return prediction;
}

// The cluster and the profile of the command line, in place of those of the rows.
struct Wanted {
  std::optional<input::Machine> machine;
  std::optional<input::ProfileFile> profile;  // with communication

  answer::Sites sites() const {
    answer::Sites all;
    if (profile) all.use(*profile);
    return all;
  }
  // The interval of a time by the runs that the profile was fitted to; nothing if there are none.
  std::optional<answer::ResidualRange> own_runs() const {
    if (!profile) return std::nullopt;
    return answer::spread_of_own_runs({"", "", profile->device.provenance.run_residuals});
  }
};

Wanted wanted_of(const Options& options) {
  Wanted wanted;
  for (const char* other : {"shard", "leave-out", "print"})
    for (const char* name : {"profile", "cluster"})
      if (options.has(name) && options.has(other))
        throw Stop{exit_usage, fmt::format("--{}: not with --{}", name, other)};
  if (options.has("cluster")) wanted.machine = need(input::find_cluster(options.text("cluster")));
  if (!options.has("profile")) return wanted;
  const std::string path = need(input::locate(input::Kind::profile, options.text("profile")));
  const input::ProfileFile own = need(input::load_profile(path));
  std::string links;  // of the cluster, or of the profile that this one was fitted from
  if (!own.has_communication) {
    if (!wanted.machine)
      throw Stop{exit_usage, fmt::format("{} has no section communication: name the cluster with "
                                         "--cluster",
                                         path)};
    links = need(input::locate(input::Kind::profile, wanted.machine->communication));
  }
  wanted.profile = calibrate::profile_file(need(calibrate::whole_profile(path, links)), path);
  return wanted;
}

// Rows of other GPUs than that of the profile leave, unless --cluster says what they ran on.
void keep_gpu(const Wanted& wanted, std::vector<input::RunsRow>& rows, const Globals& globals) {
  if (!wanted.profile || wanted.machine) return;
  const std::string& gpu = wanted.profile->device.provenance.device;
  const std::size_t left = std::erase_if(rows, [&](const input::RunsRow& row) {
    const calibrate::ClusterChoice choice = calibrate::cluster_of(row.cells);
    return choice.machine != nullptr &&
           calibrate::kinship(choice.machine->gpu.name, gpu) != calibrate::Kinship::same;
  });
  if (left > 0 && !globals.quiet)
    note(fmt::format("note: {} of other GPUs than {} left out; --cluster says what they ran on",
                     counted(static_cast<std::int64_t>(left), "row"), gpu));
}

Predicted predict_all(const std::vector<input::RunsRow>& rows, const Wanted& wanted,
                      const Share& share, Globals globals) {
  Predicted out;
  out.rows.resize(rows.size());
  answer::Sites sites = wanted.sites();
  const input::Machine* machine = wanted.machine ? &*wanted.machine : nullptr;
  if (machine != nullptr) {
    need(sites.of(*machine));
  } else {
    for (const std::string& name : calibrate::known_clusters()) need(sites.find(name));
  }
  Progress progress("validate", rows.size(), globals.quiet);
  std::size_t done = 0;
  std::vector<std::size_t> items;
  for (std::size_t i = 0; i < rows.size(); ++i) items.push_back(i);
  study::PoolCalls calls;
  calls.answer = [&](std::size_t i) {
    return calibrate::to_text(calibrate::predict(rows[i], sites, {machine}));
  };
  calls.answered = [&](std::size_t i, const std::string& text) {
    out.rows[i] = calibrate::from_text(text);
    ++done;
    return true;
  };
  calls.failed = [&](std::size_t i, const std::string& why) {
    out.rows[i] = crashed(rows[i], why);
    ++out.crashed;
    ++done;
    return true;
  };
  calls.go_on = [&] {
    progress.show(done, "");
    return !interrupted();
  };
  out.complete = study::run_pool(items, share.workers, calls, share.ranks.get());
  return out;
}

// Predicts one share of the rows into a folder; `arguments` resume it.
int predict_shard(const std::vector<input::RunsRow>& rows, const std::string& whole,
                  const Share& share, const std::vector<std::string>& arguments, bool overwrite,
                  const Globals& globals) {
  answer::Sites sites;
  const std::vector<std::string> all =
      row_identities(rows, input::to_text(need(input::find_residuals())));
  const study::Shard& shard = *share.shard;
  const std::string folder =
      prepare(whole, study::manifest("validate", all, shard, arguments), overwrite);
  std::vector<std::string> ids;
  for (std::size_t i = 0; i < study::share(shard, all.size()); ++i)
    ids.push_back(all[study::item(shard, i)]);
  Progress progress("validate", ids.size(), globals.quiet);
  const auto record = [&](std::size_t i, const calibrate::Prediction& prediction) {
    output::Json cells = output::Json::object();
    for (const auto& [column, cell] : rows[study::item(shard, i)].cells) cells[column] = cell;
    return output::Json{{"cells", cells}, {"prediction", calibrate::to_text(prediction)}};
  };
  study::AnswerCalls calls;
  calls.answer = [&](std::size_t i) {
    return record(i, calibrate::predict(rows[study::item(shard, i)], sites));
  };
  calls.failed = [&](std::size_t i, const std::string& why) {
    return record(i, crashed(rows[study::item(shard, i)], why));
  };
  calls.go_on = [&](std::size_t done) {
    progress.show(done, "");
    return !interrupted();
  };
  using Mode = study::RecordFile::Mode;
  const study::Kept kept = study::keep_answers(folder, overwrite ? Mode::take_over : Mode::go_on,
                                               ids, share.workers, calls);
  progress.clear();
  if (kept.problem == study::RecordProblem::locked) throw Stop{exit_interrupted, kept.message};
  if (kept.problem == study::RecordProblem::foreign)
    throw Stop{exit_data, kept.message + "; start over with --overwrite"};
  if (kept.problem != study::RecordProblem::none) throw Stop{exit_io, kept.message};
  if (!kept.complete) throw Stop{exit_interrupted, "interrupted; the same command goes on"};
  if (share.of_step) {
    merge_when_last(whole, shard, globals);
  } else {
    say_written(globals, folder,
                fmt::format("{}: shard {} of {} done, {}", folder, shard.number, shard.of,
                            counted(std::ssize(ids), "row")));
  }
  return exit_yes;
}

// A condition on rows: COLUMN=TEXT means that the cell contains the text, COLUMN!=TEXT that it does
// not. Without a text: the cell is empty, or is not.
struct RowCondition {
  std::string column, text;
  bool holds = true;

  bool matches(const std::string& cell) const {
    return (text.empty() ? cell.empty() : cell.find(text) != std::string::npos) == holds;
  }
};

std::vector<RowCondition> conditions_of(const Options& options) {
  std::vector<RowCondition> all;
  for (const std::string& given : options.list("where")) {
    const std::size_t equals = given.find('=');
    if (equals == std::string::npos || equals == 0 || given.starts_with("!="))
      throw Stop{exit_usage,
                 fmt::format("--where: '{}' is not COLUMN=TEXT or COLUMN!=TEXT", given)};
    const bool holds = given[equals - 1] != '!';
    all.push_back({given.substr(0, equals - (holds ? 0 : 1)), given.substr(equals + 1), holds});
  }
  return all;
}

void expect_column(const char* option, const std::string& column,
                   const std::vector<std::string>& columns, const std::string& path) {
  if (std::ranges::count(columns, column) == 0)
    throw Stop{exit_usage, fmt::format("--{}: {} has no column '{}'{}", option, path, column,
                                       did_you_mean(column, columns))};
}

// Keeps the rows that satisfy all conditions.
template <class Row>
void keep(const std::vector<RowCondition>& conditions, const std::vector<std::string>& columns,
          const std::string& path, std::vector<Row>& rows) {
  for (const RowCondition& where : conditions) {
    expect_column("where", where.column, columns, path);
    std::erase_if(rows, [&](const Row& row) {
      const auto cell = row.cells.find(where.column);
      return !where.matches(cell == row.cells.end() ? std::string() : cell->second);
    });
  }
}

std::vector<input::RunsRow> load_tables(const std::vector<std::string>& paths,
                                        const std::vector<RowCondition>& conditions,
                                        const std::vector<std::string>& by, Globals globals) {
  std::vector<input::RunsRow> rows;
  for (const std::string& path : paths) {
    input::RunsTable table = need(input::load_runs(path));
    for (const std::string& column : by) expect_column("by", column, table.columns, path);
    keep(conditions, table.columns, path, table.rows);
    if (!globals.quiet && !table.unknown_columns.empty()) {
      note(fmt::format("note: columns that mean nothing here: {}",
                       fmt::join(table.unknown_columns, ", ")));
    }
    for (input::RunsRow row : table.rows) {
      row.cells = calibrate::run_row(row.cells);
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

// Stops if the file exists and does not contain residuals.
void keep_others(const std::string& path) {
  std::error_code no_file;
  if (std::filesystem::is_regular_file(path, no_file) && !input::load_residuals(path))
    throw Stop{complain({{path,
                          "holds no residuals, and --residuals would write over it; name "
                          "another"}}),
               ""};
}

// Exit code of a validation; it fails if no row could be predicted.
int code_of(std::size_t rows, std::size_t unsupported) {
  if (unsupported < rows) return exit_yes;
  note(fmt::format("rehearse: nothing was checked: none of {} can be predicted",
                   counted(static_cast<std::int64_t>(rows), "row")));
  return exit_data;
}

std::size_t unsupported(const std::vector<calibrate::Prediction>& rows) {
  return static_cast<std::size_t>(
      std::ranges::count(rows, "unsupported", [](const auto& row) { return row.status; }));
}

// Number of rows without a prediction, for kernels and other tables.
template <class Row>
std::size_t passed_over(const std::vector<Row>& rows) {
  return static_cast<std::size_t>(
      std::ranges::count_if(rows, [](const Row& row) { return !row.reason.empty(); }));
}

Stop no_rows(const std::string& path) {
  return Stop{complain({{path, "has no rows: nothing was checked"}}), ""};
}

// Validates a table of kernels or collectives.
int validate_timings(const input::Table& table, const Wanted& wanted, const Options& options,
                     Globals globals) {
  const std::string csv = options.text("csv");
  answer::Sites sites = wanted.sites();
  const std::vector<calibrate::Timing> timings = calibrate::timings(table, sites);
  if (!csv.empty()) save(csv, calibrate::timings_csv(timings));
  say(globals, "validate-timings", calibrate::timings_document(timings));
  return within(options, code_of(timings.size(), passed_over(timings)), mean_errors(timings));
}

// Validates a table with columns of its own.
int validate_measured(const calibrate::MeasuredTable& kind, const input::Table& table,
                      const Wanted& wanted, const std::string& csv, Globals globals) {
  answer::Sites sites = wanted.sites();
  const std::vector<calibrate::RowAnswer> answers = calibrate::predict(kind, table, sites);
  if (!csv.empty()) save(csv, calibrate::to_csv(kind, answers));
  say(globals, "validate-table", calibrate::document_of(kind, table, answers));
  return code_of(answers.size(), passed_over(answers));
}

// The words of the command with its conditions, for the commands that continue or repeat it.
std::vector<std::string> words_with_conditions(const Options& options) {
  std::vector<std::string> words = options.words();
  for (const std::string& where : options.list("where"))
    words.insert(words.end(), {"--where", where});
  return words;
}

LeaveOutWanted leave_out_of(const Options& options) {
  for (const char* other : {"shard", "by", "report", "within"})
    if (options.has(other))
      throw Stop{exit_usage, fmt::format("--{}: --leave-out has tables of its own", other)};
  LeaveOutWanted wanted{options.text("leave-out"), options.text("output", "results-leave-out"),
                        options.text("csv"), options.text("residuals"), ""};
  wanted.words =
      fmt::format("rehearse validate {} --leave-out {} --residuals {}",
                  fmt::join(words_with_conditions(options), " "), wanted.column, wanted.residuals);
  return wanted;
}

// Writes the plan file of one row.
int print_row(const std::vector<input::RunsRow>& table, const std::string& id) {
  std::vector<std::string> ids;
  for (const input::RunsRow& row : table) ids.push_back(row.text("row_id"));
  const auto found = std::ranges::find(ids, id);
  if (found == ids.end())
    throw Stop{exit_usage, fmt::format("--print: no row '{}'{}", id, did_you_mean(id, ids))};
  answer::Sites sites;
  const Result<std::string> text =
      calibrate::row_file(table[static_cast<std::size_t>(found - ids.begin())].cells, sites);
  if (!text) throw Stop{complain(text.errors()), ""};
  std::fputs(text->c_str(), stdout);
  return exit_yes;
}

}  // namespace

void print_validation(const std::vector<std::string>& lines, const std::string& into,
                      const Globals& globals) {
  std::vector<calibrate::Row> rows;
  std::vector<calibrate::Prediction> predictions;
  try {
    for (const std::string& line : lines) {
      const output::Json record = output::Json::parse(line);
      calibrate::Row& row = rows.emplace_back();
      for (const auto& [column, cell] : record.at("cells").items()) row[column] = cell;
      predictions.push_back(calibrate::from_text(record.at("prediction")));
    }
  } catch (const output::Json::exception& problem) {
    throw Stop{exit_data, fmt::format("record {} of the whole is damaged: {}", rows.size(),
                                      json_text(problem.what()))};
  }
  calibrate::add_intervals(rows, predictions, need(input::find_residuals()));
  std::error_code error;
  std::filesystem::create_directories(into, error);
  save(into + "/predictions.csv", calibrate::predictions_csv(predictions));
  if (!globals.quiet) note("results: " + into + "/predictions.csv");
  say(globals, "validate", calibrate::validation_answer(rows, predictions));
}

namespace {

void declare_validate(Options& options) {
  options
      .values("where", "COLUMN=TEXT",
              "only rows whose cell in that column holds TEXT (!=: does not); may be given again: "
              "all must hold")
      .values("by", "COLUMN",
              "errors by what rows have in that column, instead of by source and by GPU; may be "
              "given again: by what they have in all together")
      .value("profile", "FILE",
             "predict with this profile instead of that of each row's GPU; intervals come from the "
             "runs that it was fitted to")
      .value("cluster", "NAME", "predict all rows for this cluster (a name or a file)")
      .value("print", "ROW",
             "only write the plan file of the row with this row_id; `rehearse run` of it gives the "
             "row's prediction")
      .value("within", "PERCENT",
             "exit code 2 if the mean absolute error of a quantity is larger (default: no limit)")
      .output("csv", "FILE", "write one line per row of the table to FILE")
      .output("residuals", "FILE",
              "write what intervals are made of to FILE, which may be what they are made of now "
              "(calibration/residuals/runs.textproto)",
              true)
      .value("leave-out", "COLUMN",
             "predict each group of rows with profiles that are fitted to all others: source, gpu, "
             "framework, model or another column; half: each half of a source from the other; "
             "runs=N: all other runs of a source from N of them; "
             "an interrupted command goes on")
      .value("output,o", "FOLDER",
             "with --shard: where the shares go (results-validate); with --leave-out: its records "
             "(results-leave-out)")
      .flag("overwrite", "with --shard: start over, whatever the share's folder holds")
      .words(1, 100);
  declare_shard(options);
  declare_report(options);
}

// Validates a table of other measurements than runs, such as timings. No value: the table has runs.
std::optional<int> validate_other_table(const Options& options,
                                        const std::vector<RowCondition>& conditions, bool by,
                                        const Wanted& wanted, const Globals& globals) {
  const Result<input::Table> any = input::load_table(options.words()[0]);
  if (!any || (calibrate::measured_table(*any) == nullptr &&
               calibrate::timing_table(*any) == calibrate::TimingTable::none))
    return std::nullopt;
  if (by) throw Stop{exit_usage, fmt::format("--by: {} is no table of runs", options.words()[0])};
  input::Table table = *any;
  if (table.rows.empty()) throw no_rows(table.path);
  keep(conditions, table.columns, table.path, table.rows);
  if (table.rows.empty()) throw Stop{exit_usage, "--where: no row is left"};
  const calibrate::MeasuredTable* kind = calibrate::measured_table(table);
  if (kind != nullptr && options.has("within"))
    throw Stop{exit_usage,
               fmt::format("--within: {} has quantities of its own; tables of runs, kernels or "
                           "collectives have one mean error",
                           table.path)};
  if (kind != nullptr) return validate_measured(*kind, table, wanted, options.text("csv"), globals);
  return validate_timings(table, wanted, options, globals);
}

}  // namespace

int run_validate(const Arguments& arguments, Globals globals) {
  Options options("validate");
  declare_validate(options);
  options.parse(arguments, globals);
  const Share share = share_of(options);
  const std::vector<RowCondition> conditions = conditions_of(options);
  const std::vector<std::string> by = options.list("by");
  if (share.shard && options.has("within"))
    throw Stop{exit_usage, "--within is of a whole table; a shard is a part of one: leave it out"};
  if (share.shard && !by.empty())
    throw Stop{exit_usage, "--by: shares are merged by source and by GPU; leave it out"};
  if (options.has("residuals")) keep_others(options.text("residuals"));
  const Wanted wanted = wanted_of(options);
  if (const auto code = validate_other_table(options, conditions, !by.empty(), wanted, globals))
    return *code;
  std::vector<input::RunsRow> table = load_tables(options.words(), conditions, by, globals);
  keep_gpu(wanted, table, globals);
  if (table.empty() && conditions.empty()) throw no_rows(options.words()[0]);
  if (table.empty()) throw Stop{exit_usage, "--where: no row is left"};
  if (options.has("print")) return print_row(table, options.text("print"));
  if (options.has("leave-out")) {
    catch_interrupts();
    return run_leave_out(table, leave_out_of(options), share, globals);
  }
  std::vector<calibrate::Row> rows;
  for (const input::RunsRow& row : table) rows.push_back(row.cells);
  const input::RunResiduals residuals = need(input::find_residuals());
  catch_interrupts();
  if (share.shard)
    return predict_shard(table, options.text("output", "results-validate"), share,
                         words_with_conditions(options), options.has("overwrite"), globals);
  Predicted predicted = predict_all(table, wanted, share, globals);
  if (share.ranks != nullptr && share.ranks->rank() > 0)
    return interrupted() ? exit_interrupted : exit_yes;
  if (!predicted.complete) throw Stop{exit_interrupted, "interrupted"};
  if (options.has("residuals")) {
    const std::string command =
        fmt::format("rehearse validate {} --residuals {}",
                    fmt::join(words_with_conditions(options), " "), options.text("residuals"));
    save(options.text("residuals"),
         input::to_text(calibrate::residuals_of(rows, predicted.rows, command)));
  }
  calibrate::add_intervals(rows, predicted.rows, residuals, wanted.own_runs());
  if (options.has("csv")) save(options.text("csv"), calibrate::predictions_csv(predicted.rows));
  if (options.has("report")) {
    write_page(options.text("report"),
               calibrate::validation_document(fmt::format("{}", fmt::join(options.words(), ", ")),
                                              rows, predicted.rows));
  }
  say(globals, "validate", calibrate::validation_answer(rows, predicted.rows, by));
  if (predicted.crashed > 0) return exit_bug;
  return within(options, code_of(rows.size(), unsupported(predicted.rows)),
                mean_errors(rows, predicted.rows));
}

}  // namespace sim::command
