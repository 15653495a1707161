#include "sim/command/leave_out.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "sim/calibrate/runs/leave_out.h"
#include "sim/command/common/interrupt.h"
#include "sim/command/common/progress.h"
#include "sim/command/common/row_identities.h"
#include "sim/output/document.h"
#include "sim/output/output.h"
#include "sim/study/sweep/answers.h"

namespace sim::command {

namespace {

// Everything beside the rows and the data that derivatives depend on.
std::string text_of(const std::vector<calibrate::Factor>& factors) {
  std::string text = "leave-out";
  for (const calibrate::Factor& factor : factors) {
    text += " " + factor.name;
    for (const calibrate::ScaledField& field : factor.fields) text += " " + field.pattern;
  }
  return text;
}

// The rows of earlier tries from the folder's records, and the others on all cores.
std::vector<calibrate::SensitiveRow> measure(const std::vector<input::RunsRow>& rows,
                                             const std::vector<calibrate::Factor>& factors,
                                             const LeaveOutWanted& wanted, const Share& share,
                                             const Globals& globals) {
  const std::vector<std::string> ids = row_identities(rows, text_of(factors));
  calibrate::Sensitivities sensitivities(factors);
  Progress progress("validate", rows.size(), globals.quiet);
  study::AnswerCalls calls;
  calls.answer = [&](std::size_t i) { return calibrate::to_json(sensitivities.of(rows[i])); };
  calls.failed = [&](std::size_t i, const std::string& why) {
    calibrate::SensitiveRow row;
    row.given.row_id = rows[i].text("row_id");
    row.given.status = "unsupported";
    row.given.reason = "our bug: " + why;
    row.sensitivity.resize(factors.size());
    return calibrate::to_json(row);
  };
  calls.go_on = [&](std::size_t done) {
    progress.show(done, "");
    return !interrupted();
  };
  // Records of other profiles or rows are dropped: the folder is a cache.
  const study::Kept kept = study::keep_answers(wanted.folder, study::RecordFile::Mode::take_over,
                                               ids, share.workers, calls);
  progress.clear();
  if (kept.problem == study::RecordProblem::locked) throw Stop{exit_interrupted, kept.message};
  if (kept.problem != study::RecordProblem::none) throw Stop{exit_io, kept.message};
  if (!kept.complete) throw Stop{exit_interrupted, "interrupted; the same command goes on"};
  std::vector<calibrate::SensitiveRow> all;
  std::ifstream lines(wanted.folder + "/results.jsonl");  // in the order of the rows
  for (std::string line; std::getline(lines, line);)
    all.push_back(calibrate::sensitive_row(output::Json::parse(line)));
  if (all.size() != rows.size())
    throw Stop{exit_io, fmt::format("{}: {} of {} records could be read", wanted.folder, all.size(),
                                    rows.size())};
  return all;
}

// Number of runs of a source that the others are predicted from; 0: its other half. Nothing if the
// column names groups.
std::optional<std::size_t> within_sources(const std::string& column) {
  if (column == "half") return 0;
  if (!column.starts_with("runs=")) return std::nullopt;
  const std::string number = column.substr(5);
  if (number.empty() || number.size() > 4 ||
      number.find_first_not_of("0123456789") != std::string::npos || std::stoul(number) == 0)
    throw Stop{exit_usage, fmt::format("--leave-out runs=N: '{}' is no number of runs", number)};
  return std::stoul(number);
}

}  // namespace

int run_leave_out(const std::vector<input::RunsRow>& table, const LeaveOutWanted& wanted,
                  const Share& share, const Globals& globals) {
  const std::vector<calibrate::Factor> factors = need(calibrate::find_factors());
  const std::vector<calibrate::FittedNumbers> fitted = need(calibrate::find_fitted_numbers());
  const std::vector<calibrate::SensitiveRow> given =
      measure(table, factors, wanted, share, globals);
  std::vector<calibrate::Row> rows;
  std::vector<std::string> groups;
  for (std::size_t i = 0; i < table.size(); ++i) {
    rows.push_back(table[i].cells);
    groups.push_back(calibrate::group_of(rows.back(), given[i], wanted.column));
  }
  const std::optional<std::size_t> some = within_sources(wanted.column);
  calibrate::LeaveOut result =
      need(some ? calibrate::predict_within_sources(rows, given, factors, fitted, *some)
                : calibrate::leave_out(rows, given, groups, factors, fitted));
  std::vector<std::optional<answer::ResidualRange>> before(rows.size());
  if (some) {
    const input::RunResiduals known = need(input::find_residuals());
    for (std::size_t i = 0; i < rows.size(); ++i)
      before[i] = answer::spread(known, input::ResidualOf::time, given[i].given.situation,
                                 calibrate::cell(rows[i], "source_group"));
  }
  const input::RunResiduals residuals = calibrate::residuals_of(rows, result.unseen, wanted.words);
  if (!wanted.residuals.empty()) save(wanted.residuals, input::to_text(residuals));
  calibrate::add_intervals(rows, result.unseen, residuals);
  if (!wanted.csv.empty()) save(wanted.csv, calibrate::predictions_csv(result.unseen));
  say(globals, "validate-leave-out",
      calibrate::leave_out_document(rows, given, result, groups, fitted, wanted.column, before));
  return exit_yes;
}

}  // namespace sim::command
