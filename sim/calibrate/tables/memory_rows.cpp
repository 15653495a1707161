#include "sim/calibrate/tables/memory_rows.h"

namespace sim::calibrate {

Row run_row(const Row& row) {
  if (row.find("max_alloc_gib") == row.end()) return row;
  Row run = row;
  run["mem_alloc_peak_gib"] = cell(row, "max_alloc_gib");
  run["mem_reserved_peak_gib"] = cell(row, "max_reserved_gib");
  return run;
}

}  // namespace sim::calibrate
