// table_csv.h — reads a CSV table with any columns: measurements of kernels, collectives and hosts.
//
// calibrate, cluster/hosts.h and plan/failure_trace.cpp call it. Tables of training runs have a
// fixed schema: runs_csv.h.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/result.h"

namespace sim::input {

struct TableRow {
  int line = 0;                                           // line of its first character
  std::map<std::string, std::string, std::less<>> cells;  // text by column name, trimmed
};

struct Table {
  std::string path;
  std::vector<std::string> columns;
  std::vector<TableRow> rows;

  bool has(std::string_view column) const;
};

// The table. Error: unreadable file, or a row whose number of cells differs from the header's.
Result<Table> load_table(const std::string& path);

}  // namespace sim::input
