// tables.cpp — fuzzes the readers of CSV: cells, tables of measurements, tables of runs, traces of
// failures; and the file of a router's load.
#include <cstddef>
#include <cstdint>
#include <string>

#include "input_file.h"
#include "sim/input/plan/campaign.h"
#include "sim/input/tables/router_load.h"
#include "sim/input/tables/runs_csv.h"
#include "sim/input/tables/table_csv.h"
#include "sim/input/text/csv_rows.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sim::input;
  const std::string text(reinterpret_cast<const char*>(data), size);
  int line = 1;
  if (const auto rows = csv_rows(text, "input"))
    for (const CsvRow& row : *rows) {
      if (row.line < line || row.cells.empty()) __builtin_trap();
      line = row.line;
    }
  const fuzz::InputFile file(data, size);
  if (const auto table = load_table(file.path()))
    for (const TableRow& row : table->rows)
      if (row.cells.size() != table->columns.size()) __builtin_trap();
  if (const auto runs = load_runs(file.path()); !runs && runs.errors().empty()) __builtin_trap();
  FailureFields gpu, node;
  gpu.name = "gpu";
  node.name = "node";
  if (const auto trace = load_failure_trace(file.path(), {gpu, node}, 8)) {
    double before = 0;
    for (const TraceRow& row : *trace) {
      if (!(row.seconds >= before) || row.kind < 0 || row.kind > 1 || row.node >= 8)
        __builtin_trap();
      before = row.seconds;
    }
  }
  sim::model::Architecture mixture;
  mixture.layers = 4;
  mixture.experts.count = 8;
  read_router_load(file.path(), mixture);
  return 0;
}
