#include "sim/input/tables/runs_csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "sim/base/real_number.h"
#include "sim/base/text.h"
#include "sim/input/text/csv_rows.h"
#include "sim/input/text/rules.h"
#include "sim/input/text/textproto.h"

namespace sim::input {
namespace {

struct Column {
  std::string_view name;
  bool numeric;
};
// The columns of measured runs, then those that only memory tables have.
constexpr std::array schema{
    Column{"row_id", false},
    Column{"source_group", false},
    Column{"source", false},
    Column{"where", false},
    Column{"trust", false},
    Column{"version", false},
    Column{"tier", false},
    Column{"kind", false},
    Column{"model", false},
    Column{"params_b", true},
    Column{"layers", true},
    Column{"hidden", true},
    Column{"ffn", true},
    Column{"heads", true},
    Column{"kv_heads", true},
    Column{"vocab", true},
    Column{"seq", true},
    Column{"glu", true},
    Column{"experts", true},
    Column{"topk", true},
    Column{"gpu", false},
    Column{"gpu_mem_gb", false},  // some sources print a unit
    Column{"n_gpus", true},
    Column{"gpus_per_node", true},
    Column{"intra_net", false},
    Column{"inter_net", false},
    Column{"framework", false},
    Column{"tp", true},
    Column{"pp", true},
    Column{"vp", true},
    Column{"dp", true},
    Column{"cp", true},
    Column{"ep", true},
    Column{"sp", true},
    Column{"zero", false},
    Column{"schedule", false},
    Column{"mbs", true},
    Column{"gbs", true},
    Column{"n_microbatch", true},
    Column{"recompute", false},
    Column{"precision", false},
    Column{"attention", false},
    Column{"extra", false},
    Column{"network", false},   // "decoder" or blank; others are not represented
    Column{"settings", false},  // "key=value; key=value" as in a plan file
    Column{"settings_source", false},
    Column{"iter_time_s", true},
    Column{"time_kind", false},  // "train_batch": without the loop's own work
    Column{"tflops_gpu", true},
    Column{"tflops_kind", false},
    Column{"tokens_s", true},
    Column{"tokens_s_gpu", true},
    Column{"samples_s", true},
    Column{"mfu_pct", true},
    Column{"hfu_pct", true},
    Column{"bubble_pct", true},
    Column{"bubble_kind", false},  // "equal stages": computed for stages of one duration
    Column{"mem_alloc_peak_gib", true},
    Column{"mem_reserved_peak_gib", true},
    Column{"mem_other_gib", true},
    Column{"mem_scope", false},
    Column{"oom", false},  // "1 later"
    Column{"derived", false},
    Column{"notes", false},
    Column{"rank", false},
    Column{"pp_stage", false},
    Column{"cur_alloc_gib", true},
    Column{"max_alloc_gib", true},
    Column{"max_reserved_gib", true},
    Column{"param_opt_gib", true},
    Column{"activation_gib", true},
};
// Required columns: without them a row is no plan.
constexpr std::array<std::string_view, 3> needed = {"row_id", "tp", "pp"};

// The column that a plan's field of another name means.
std::string_view column_called(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> fields[] = {
      {"micro_batch", "mbs"}, {"global_batch", "gbs"}, {"sequence", "seq"}, {"gpus", "n_gpus"}};
  for (const auto& [field, column] : fields)
    if (name == field) return column;
  return name;
}

const Column* find_column(std::string_view name) {
  for (const Column& column : schema)
    if (column.name == name) return &column;
  return nullptr;
}

bool has(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void read_header(const CsvRow& header, RunsTable& table, Diagnostics& problems) {
  const auto problem = [&](std::string message) {
    problems.push_back({fmt::format("{}:{}", table.path, header.line), std::move(message)});
  };
  for (std::size_t i = 0; i < header.cells.size(); ++i) {
    std::string name(column_called(trimmed(header.cells[i])));
    if (has(table.columns, name)) problem(fmt::format("the column '{}' is there twice", name));
    table.columns.push_back(name);
  }
  std::vector<std::string> absent;  // known columns that are missing, for suggestions
  for (const Column& column : schema)
    if (!has(table.columns, column.name)) absent.emplace_back(column.name);
  for (const std::string& name : table.columns) {
    if (find_column(name)) continue;
    const std::string meant = nearest(name.substr(0, 80), absent);
    if (!meant.empty() && edit_distance(name, meant) <= 2 && meant.size() >= 4)
      problem(fmt::format("unknown column '{}'; did you mean '{}'?", name, meant));
    table.unknown_columns.push_back(name);
  }
  for (const std::string_view name : needed)
    if (!has(table.columns, name))
      problem(fmt::format(
          "the column '{}' is missing; the schema is in "
          "calibration/measured/README.md, and `rehearse init runs` writes a table to fill in",
          name));
}

RunsRow read_row(const CsvRow& from, const RunsTable& table) {
  RunsRow row;
  row.line = from.line;
  const std::size_t shared = std::min(from.cells.size(), table.columns.size());
  for (const std::string& column : table.columns) row.cells[column];
  for (std::size_t i = 0; i < shared; ++i) row.cells[table.columns[i]] = trimmed(from.cells[i]);
  if (from.cells.size() != table.columns.size())
    row.problems.push_back(fmt::format("line {}: {} cells for {} columns", from.line,
                                       from.cells.size(), table.columns.size()));
  for (const std::string& name : table.columns) {
    const Column* column = find_column(name);
    const std::string& text = row.cells[name];
    if (!column || !column->numeric || text.empty()) continue;
    const std::optional<double> value = finite_number(text);
    if (!value || *value < 0)
      row.problems.push_back(fmt::format("line {}: {} '{}' is not {}", from.line, name,
                                         text.substr(0, 80), value ? "zero or more" : "a number"));
  }
  return row;
}

}  // namespace

const std::string& RunsRow::text(std::string_view column) const {
  static const std::string blank;
  const auto found = cells.find(column);
  return found == cells.end() ? blank : found->second;
}

std::optional<double> RunsRow::number(std::string_view column) const {
  assert(problems.empty());
  assert(find_column(column) && find_column(column)->numeric);
  const std::string& given = text(column);
  return given.empty() ? std::nullopt : finite_number(given);
}

Result<RunsTable> load_runs(const std::string& path) {
  const Result<std::string> text = read_file(path, max_table_bytes);
  if (!text) return text.errors();
  if (!is_utf8(*text)) return Diagnostics{{path, "the file is not UTF-8 text"}};
  const Result<std::vector<CsvRow>> rows = csv_rows(*text, path);
  if (!rows) return rows.errors();
  if (rows->empty()) return Diagnostics{{path, "the table is empty; it needs a line of columns"}};

  RunsTable table;
  table.path = path;
  Diagnostics problems;
  read_header(rows->front(), table, problems);
  if (!problems.empty()) return problems;
  std::set<std::string> ids;
  for (std::size_t i = 1; i < rows->size(); ++i) {
    table.rows.push_back(read_row((*rows)[i], table));
    RunsRow& row = table.rows.back();
    if (row.text("row_id").empty())
      row.problems.push_back(fmt::format("line {}: the row has no row_id", row.line));
    else if (!ids.insert(row.text("row_id")).second)
      row.problems.push_back(
          fmt::format("line {}: row_id '{}' is there twice", row.line, row.text("row_id")));
  }
  return table;
}

Diagnostics row_problems(const RunsTable& table) {
  Diagnostics problems;
  for (const RunsRow& row : table.rows) {
    const std::string prefix = fmt::format("line {}: ", row.line);
    for (const std::string& problem : row.problems) {
      if (problems.size() == max_problems) return problems;
      problems.push_back({fmt::format("{}:{}", table.path, row.line),
                          problem.starts_with(prefix) ? problem.substr(prefix.size()) : problem});
    }
  }
  return problems;
}

bool is_run_column(std::string_view name) {
  return find_column(column_called(name)) != nullptr;
}

}  // namespace sim::input
