#include "sim/command/common/csv_option.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "sim/base/outputs.h"
#include "sim/base/split.h"
#include "sim/base/text.h"
#include "sim/output/record.h"

namespace sim::command {

namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw Stop{exit_usage, message};
}

// Columns whose settings have longer names.
std::string column_of(const std::string& name) {
  if (name == "micro_batch") return "mbs";
  if (name == "global_batch") return "gbs";
  if (name == "sequence") return "seq";
  return name;
}

// The columns of "tp,pp,step_time_s" in this order.
std::vector<output::Column> columns_named(const std::string& list) {
  std::vector<output::Column> all = output::record_columns();
  all.push_back(output::cost_column());
  std::vector<output::Column> columns;
  for (const std::string& name : split(list)) {
    const auto found = std::ranges::find(all, column_of(name), &output::Column::key);
    if (found == all.end()) {
      std::vector<std::string> names;
      for (const output::Column& column : all) names.push_back(column.key);
      const std::string near = did_you_mean(name, names);
      refuse(
          fmt::format("--columns: there is no column '{}'{}", name.substr(0, 80),
                      near.empty() ? fmt::format("; columns: {}", fmt::join(names, ", ")) : near));
    }
    columns.push_back(*found);
  }
  return columns;
}

}  // namespace

void declare_csv(Options& options) {
  options.value("csv", "FILE", "also one row per point into FILE; -: on stdout instead of the text")
      .value("columns", "A,B", "columns of --csv, by default those of results.csv");
}

void CsvTable::write(const std::vector<output::Json>& records) const {
  std::string text = output::csv_header(columns);
  for (const output::Json& record : records) text += output::csv_row(record, columns);
  if (on_stdout()) return print(text);
  save(path, text);
}

std::string csv_file(const Options& options, const Globals& globals) {
  std::string path = options.text("csv");
  if (path == "-" && globals.json) refuse("--csv - and --json would both write to stdout");
  if (!path.empty() && path != "-") declare_output(path, "csv");
  return path;
}

void write_csv(const std::string& path, const output::Rows& rows) {
  const std::string text = output::csv(rows);
  path == "-" ? print(text) : save(path, text);
}

std::optional<CsvTable> csv_of(const Options& options, const Globals& globals) {
  if (!options.has("csv")) {
    if (options.has("columns")) refuse("--columns are those of --csv; write for example --csv -");
    return std::nullopt;
  }
  CsvTable table{csv_file(options, globals), output::record_columns()};
  if (options.has("columns")) table.columns = columns_named(options.text("columns"));
  return table;
}

}  // namespace sim::command
