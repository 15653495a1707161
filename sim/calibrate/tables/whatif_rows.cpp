// whatif_rows.cpp — predicts rows of what-ifs with a known answer: a plan, a change of it, and how
// many times as long a step took with the change. `validate` calls it by way of measured_table.h.
//
// A row has settings in the words of the command line, separated by "; ": `base` of both plans,
// `change` of the second one. Both are replayed without memory, and the ratio of their steps is
// compared with column `step_ratio`.
#include <fmt/format.h>

#include <cmath>

#include "sim/answer/evaluate.h"
#include "sim/calibrate/tables/measured_table.h"
#include "sim/input/plan/plan.h"

namespace sim::calibrate {

namespace {

std::vector<std::string> settings_in(const std::string& text) {
  std::vector<std::string> settings;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find("; ", at), text.size());
    settings.push_back(text.substr(at, end - at));
    at = end + 2;
  }
  return settings;
}

// Seconds of a step, or the reason why there are none.
std::string step_of(const std::vector<std::string>& settings, answer::Sites& sites,
                    double& seconds) {
  const Result<input::PlanFile> file = input::load_plan("", settings);
  if (!file) return file.errors().front().message;
  const Result<answer::Site*> site = sites.of(file->machine);
  if (!site) return site.errors().front().message;
  const Result<answer::CheckedPlan> plan = answer::check(file->plan, **site);
  if (!plan) return plan.errors().front().message;
  engine::Options how;
  how.memory = engine::MemoryDetail::none;
  seconds = answer::step_seconds(answer::evaluate(*plan, how));
  return "";
}

// The change of the step, such as 0.3 for a step that takes 1.3 times as long.
std::optional<double> change(const std::optional<double>& ratio) {
  if (!ratio) return std::nullopt;
  return *ratio - 1;
}

// Below this change a source calls two runs equal.
constexpr double equal = 0.02;

bool direction_right(double predicted, double measured) {
  if (std::abs(measured) < equal) return std::abs(predicted) < equal;
  return predicted * measured > 0;
}

bool size_right(double predicted, double measured) {
  if (std::abs(measured) < equal) return std::abs(predicted) < equal;
  return predicted * measured > 0 && std::abs(predicted / measured - 1) <= 0.3;
}

}  // namespace

RowAnswer predict_whatif(const input::TableRow& row, answer::Sites& sites) {
  RowAnswer answer;
  answer.group = text_in(row, "kind");
  answer.measured = {positive_in(row, "step_ratio")};
  answer.predicted.resize(1);
  std::vector<std::string> settings = settings_in(text_in(row, "base"));
  double before = 0, after = 0;
  answer.reason = step_of(settings, sites, before);
  if (!answer.reason.empty()) return answer;
  for (std::string& setting : settings_in(text_in(row, "change")))
    settings.push_back(std::move(setting));
  answer.reason = step_of(settings, sites, after);
  if (answer.reason.empty()) answer.predicted[0] = after / before;
  return answer;
}

std::string whatif_summary(const input::Table& table, const std::vector<RowAnswer>& answers) {
  int all = 0, direction = 0, size = 0;
  std::string text;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (answers[i].predicted.empty() || answers[i].measured.empty()) continue;
    const auto predicted = change(answers[i].predicted[0]),
               measured = change(answers[i].measured[0]);
    if (!predicted || !measured) continue;
    const bool right = direction_right(*predicted, *measured);
    const bool close = size_right(*predicted, *measured);
    ++all;
    direction += right ? 1 : 0;
    size += close ? 1 : 0;
    text += fmt::format("{:<66} {:>+7.1f} % {:>+7.1f} %  {}\n", text_in(table.rows[i], "what"),
                        100 * *measured, 100 * *predicted,
                        close   ? "size right"
                        : right ? "direction right"
                                : "wrong");
  }
  return fmt::format("{:<66} {:>9} {:>9}\n", "change of the step", "measured", "predicted") + text +
         fmt::format("direction right in {} of {}, size within 30 % in {}\n", direction, all, size);
}

}  // namespace sim::calibrate
