#include "sim/calibrate/tables/memory_rows.h"

#include <fmt/format.h>

#include <array>

#include "sim/calibrate/rows/row_text.h"

namespace sim::calibrate {

namespace {

// The programs that the sources measured, by `source_group`.
struct SourceGroup {
  const char* group;
  const char* framework;
  const char* attention;
  const char* version;  // as in training_runs.csv for the same source; "": unknown
};
constexpr std::array<SourceGroup, 3> sources = {{
    {"simumax-b200", "Megatron-LM", "flash/TE", "Megatron-LM 23e00ed0 (core 0.14), TE 2.11"},
    {"mcore-offload-doc", "Megatron-Core", "flash/TE", ""},
    {"megatron-log", "Megatron-LM", "flash/TE", ""},
}};

}  // namespace

Row run_row(const Row& row) {
  if (row.find("max_alloc_gib") == row.end()) return row;
  Row run = row;
  run["mem_alloc_peak_gib"] = cell(row, "max_alloc_gib");
  run["mem_reserved_peak_gib"] = cell(row, "max_reserved_gib");
  const std::string& model = cell(row, "model");
  const auto has = [&](std::string_view part) { return contains(model, part); };
  if (has("llama") || has("qwen") || has("deepseek")) run["glu"] = "1";
  if (has("deepseek") || has("-a3b")) run["experts"] = "not stated";
  if (has("LoRA")) run["kind"] = "lora";
  for (const SourceGroup& source : sources) {
    if (cell(row, "source_group") != source.group) continue;
    run["framework"] = source.framework;
    run["attention"] = source.attention;
    run["version"] = source.version;
  }
  const auto dp = leading_number(cell(row, "dp")), batch = leading_number(cell(row, "mbs"));
  const auto count = leading_number(cell(row, "n_microbatch"));
  constexpr std::int64_t most = 1 << 20;
  if (dp && batch && count && *dp < most && *batch < most && *count < most)
    run["gbs"] = fmt::format("{}", *dp * *batch * *count);
  return run;
}

}  // namespace sim::calibrate
