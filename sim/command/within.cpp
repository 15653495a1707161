#include "sim/command/within.h"

#include <fmt/format.h>

#include <cmath>

namespace sim::command {

MeanErrors mean_errors(const std::vector<calibrate::Timing>& timings) {
  double sum = 0, count = 0;
  for (const calibrate::Timing& one : timings) {
    if (!one.reason.empty()) continue;
    sum += 100 * std::abs(one.predicted_us / one.measured_us - 1);
    ++count;
  }
  if (count == 0) return {};
  return {{"times", sum / count}};
}

MeanErrors mean_errors(const std::vector<calibrate::Row>& rows,
                       const std::vector<calibrate::Prediction>& predictions) {
  MeanErrors all;
  for (const calibrate::Quantity& quantity : calibrate::quantities())
    if (const calibrate::Errors e = calibrate::errors(rows, predictions, quantity); e.rows > 0)
      all.emplace_back(quantity.name, e.mean);
  return all;
}

int within(const Options& options, int code, const MeanErrors& errors) {
  if (!options.has("within") || code != exit_yes) return code;
  const auto most = static_cast<double>(options.number("within", 0, 0, 1000));
  for (const auto& [what, error] : errors)
    if (error > most) {
      note(fmt::format("{}: the mean error, {:.1f} %, is above --within {:g}", what, error, most));
      code = exit_no;
    }
  return code;
}

}  // namespace sim::command
