// validate.cpp — `rehearse validate`: tables of measured runs, predicted on all cores.
#include "sim/calibrate/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "sim/calibrate/measured_table.h"
#include "sim/calibrate/memory_rows.h"
#include "sim/calibrate/timings.h"
#include "sim/command/command.h"
#include "sim/command/interrupt.h"
#include "sim/command/progress.h"
#include "sim/config/runs_csv.h"
#include "sim/config/table_csv.h"
#include "sim/core/text.h"
#include "sim/report/output.h"
#include "sim/search/pool.h"

namespace sim::command {

namespace {

struct Predicted {
  std::vector<calibrate::Prediction> rows;
  bool complete = false;
  std::size_t crashed = 0;
};

Predicted predict_all(const std::vector<config::RunsRow>& rows, int workers, Globals globals) {
  Predicted out;
  out.rows.resize(rows.size());
  search::Sites sites;
  for (const std::string& name : calibrate::known_clusters()) need(sites.find(name));
  Progress progress("validate", rows.size(), globals.quiet);
  std::size_t done = 0;
  std::vector<std::size_t> items;
  for (std::size_t i = 0; i < rows.size(); ++i) items.push_back(i);
  search::PoolCalls calls;
  calls.answer = [&](std::size_t i) {
    return calibrate::to_text(calibrate::predict(rows[i], sites));
  };
  calls.answered = [&](std::size_t i, const std::string& text) {
    out.rows[i] = calibrate::from_text(text);
    ++done;
    return true;
  };
  calls.failed = [&](std::size_t i, const std::string& why) {
    out.rows[i].row_id = rows[i].text("row_id");
    out.rows[i].status = "unsupported";
    out.rows[i].reason = "our bug: " + why;
    ++out.crashed;
    ++done;
    return true;
  };
  calls.go_on = [&] {
    progress.show(done, "");
    return !interrupted();
  };
  out.complete = search::run_pool(items, workers, calls);
  return out;
}

// Rows whose cell holds a text: COLUMN=TEXT; or does not: COLUMN!=TEXT.
struct Where {
  std::string column, text;
  bool holds = true;
};

std::vector<Where> conditions_of(const Options& options) {
  std::vector<Where> all;
  for (const std::string& given : options.list("where")) {
    const std::size_t equals = given.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == given.size())
      throw Stop{exit_usage,
                 fmt::format("--where: '{}' is not COLUMN=TEXT or COLUMN!=TEXT", given)};
    const bool holds = given[equals - 1] != '!';
    all.push_back({given.substr(0, equals - (holds ? 0 : 1)), given.substr(equals + 1), holds});
  }
  return all;
}

// Keeps the rows of which every condition is true.
template <class Row>
void keep(const std::vector<Where>& conditions, const std::vector<std::string>& columns,
          const std::string& path, std::vector<Row>& rows) {
  for (const Where& where : conditions) {
    if (std::ranges::count(columns, where.column) == 0)
      throw Stop{exit_usage, fmt::format("--where: {} has no column '{}'{}", path, where.column,
                                         did_you_mean(where.column, columns))};
    std::erase_if(rows, [&](const Row& row) {
      const auto cell = row.cells.find(where.column);
      const bool there =
          cell != row.cells.end() && cell->second.find(where.text) != std::string::npos;
      return there != where.holds;
    });
  }
}

std::vector<config::RunsRow> load_tables(const std::vector<std::string>& paths,
                                         const std::vector<Where>& conditions, Globals globals) {
  std::vector<config::RunsRow> rows;
  for (const std::string& path : paths) {
    config::RunsTable table = need(config::load_runs(path));
    keep(conditions, table.columns, path, table.rows);
    if (!globals.quiet && !table.unknown_columns.empty()) {
      note(fmt::format("note: columns that mean nothing here: {}",
                       fmt::join(table.unknown_columns, ", ")));
    }
    for (config::RunsRow row : table.rows) {
      row.cells = calibrate::run_row(row.cells);
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

void save(const std::string& path, const std::string& text) {
  const std::string problem = report::write_file(path, text);
  if (!problem.empty()) throw Stop{exit_io, problem};
}

// Kernels and collectives instead of runs.
int validate_timings(const config::Table& table, const std::string& csv, Globals globals) {
  search::Sites sites;
  const std::vector<calibrate::Timing> timings = calibrate::timings(table, sites);
  if (!csv.empty()) save(csv, calibrate::timings_csv(timings));
  print(globals.json ? report::document("validate", calibrate::timings_json(timings)).dump(2) + "\n"
                     : calibrate::timings_text(timings));
  return exit_yes;
}

// Rows with columns of their own.
int validate_measured(const calibrate::MeasuredTable& kind, const config::Table& table,
                      const std::string& csv, Globals globals) {
  search::Sites sites;
  const std::vector<calibrate::RowAnswer> answers = calibrate::predict(kind, table, sites);
  if (!csv.empty()) save(csv, calibrate::to_csv(kind, answers));
  print(globals.json
            ? report::document("validate", calibrate::to_json(kind, table, answers)).dump(2) + "\n"
            : calibrate::to_text(kind, table, answers));
  return exit_yes;
}

}  // namespace

int run_validate(const Arguments& arguments, Globals globals) {
  Options options("validate");
  options
      .values("where", "COLUMN=TEXT",
              "only rows whose cell in that column holds TEXT (!=: does not); may be given again: "
              "all must hold")
      .value("csv", "FILE", "write one line per row of the table to FILE")
      .value("residuals", "FILE",
             "write what intervals are made of (calibration/residuals/runs.textproto) to FILE")
      .value("jobs,j", "N", "worker processes (default: the cores)")
      .words(1, 100)
      .parse(arguments, globals);
  const auto cores = static_cast<std::int64_t>(std::max(1U, std::thread::hardware_concurrency()));
  const int workers = static_cast<int>(options.number("jobs", cores, 1, 1024));
  const std::vector<Where> conditions = conditions_of(options);
  if (const Result<config::Table> any = config::load_table(options.words()[0]);
      any && (calibrate::measured_table(*any) != nullptr ||
              calibrate::timing_table(*any) != calibrate::TimingTable::none)) {
    config::Table table = *any;
    keep(conditions, table.columns, table.path, table.rows);
    if (table.rows.empty()) throw Stop{exit_usage, "--where: no row is left"};
    if (const calibrate::MeasuredTable* kind = calibrate::measured_table(table))
      return validate_measured(*kind, table, options.text("csv"), globals);
    return validate_timings(table, options.text("csv"), globals);
  }
  const std::vector<config::RunsRow> table = load_tables(options.words(), conditions, globals);
  if (table.empty() && !conditions.empty()) throw Stop{exit_usage, "--where: no row is left"};
  std::vector<calibrate::Row> rows;
  for (const config::RunsRow& row : table) rows.push_back(row.cells);
  const config::RunResiduals residuals = need(config::find_residuals());
  catch_interrupts();
  Predicted predicted = predict_all(table, workers, globals);
  if (!predicted.complete) throw Stop{exit_interrupted, "interrupted"};
  if (options.has("residuals")) {
    std::string command = fmt::format("rehearse validate {}", fmt::join(options.words(), " "));
    for (const std::string& where : options.list("where")) command += " --where " + where;
    command += " --residuals " + options.text("residuals");
    save(options.text("residuals"),
         config::to_text(calibrate::residuals_of(rows, predicted.rows, command)));
  }
  calibrate::add_intervals(rows, predicted.rows, residuals);
  if (options.has("csv")) save(options.text("csv"), calibrate::predictions_csv(predicted.rows));
  print(
      globals.json
          ? report::document("validate", calibrate::validation_json(rows, predicted.rows)).dump(2) +
                "\n"
          : calibrate::validation_text(rows, predicted.rows));
  return predicted.crashed == 0 ? exit_yes : exit_bug;
}

}  // namespace sim::command
