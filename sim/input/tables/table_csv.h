// table_csv.h — reads a table of measurements that are not runs (kernels, collectives): cells by
// the names in its header, any columns. Tables of runs have a schema: runs_csv.h.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/result.h"

namespace sim::input {

struct TableRow {
  int line = 0;                                           // of its first character in the file
  std::map<std::string, std::string, std::less<>> cells;  // column -> text without blanks around
};

struct Table {
  std::string path;
  std::vector<std::string> columns;
  std::vector<TableRow> rows;

  bool has(std::string_view column) const;
};

// A row with more or fewer cells than the header is an error.
Result<Table> load_table(const std::string& path);

}  // namespace sim::input
