// csv_option.h — --csv and --columns: the points of a sweep as rows of a table.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/command/common/command.h"
#include "sim/output/document.h"

namespace sim::command {

// Declares --csv and --columns.
void declare_csv(Options& options);

struct CsvTable {
  std::string path;  // "-": stdout, where nothing else is written
  std::vector<output::Column> columns;

  bool on_stdout() const { return path == "-"; }
  // One row per record. Stops if it cannot be written.
  void write(const std::vector<output::Json>& records) const;
};

// The file of --csv; "" if it is not given. Stops if --csv - and --json both write to stdout.
std::string csv_file(const Options& options, const Globals& globals);
// A table as CSV into a file; "-": on stdout.
void write_csv(const std::string& path, const output::Rows& rows);

// The table that the options ask for. Stops with a usage error for an unknown column, and for
// --columns without --csv.
std::optional<CsvTable> csv_of(const Options& options, const Globals& globals);

}  // namespace sim::command
