#include "sim/calibrate/tables/memory_rows.h"

#include <fmt/format.h>

#include "sim/calibrate/rows/row_text.h"

namespace sim::calibrate {

namespace {

// Seconds of a step of the row's global batch at its tokens or samples per second; nothing if one
// of them is not stated.
std::optional<double> seconds_of_rate(const Row& row) {
  const auto positive = [&](const char* column) {
    const auto value = number(cell(row, column));
    return value && *value > 0 ? value : std::nullopt;
  };
  const auto batch = positive("gbs"), sequence = positive("seq"), gpus = positive("n_gpus");
  if (!batch) return std::nullopt;
  if (const auto rate = positive("samples_s")) return *batch / *rate;
  if (!sequence) return std::nullopt;
  if (const auto rate = positive("tokens_s")) return *batch * *sequence / *rate;
  if (const auto rate = positive("tokens_s_gpu"); rate && gpus)
    return *batch * *sequence / (*rate * *gpus);
  return std::nullopt;
}

}  // namespace

Row run_row(const Row& row) {
  Row run = row;
  if (row.find("max_alloc_gib") != row.end()) {
    run["mem_alloc_peak_gib"] = cell(row, "max_alloc_gib");
    run["mem_reserved_peak_gib"] = cell(row, "max_reserved_gib");
  }
  if (cell(row, "iter_time_s").empty() && cell(row, "tflops_gpu").empty())
    if (const auto seconds = seconds_of_rate(row))
      run["iter_time_s"] = fmt::format("{:.6g}", *seconds);
  return run;
}

}  // namespace sim::calibrate
