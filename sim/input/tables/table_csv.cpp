#include "sim/input/tables/table_csv.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/input/text/csv_rows.h"
#include "sim/input/text/textproto.h"

namespace sim::input {
bool Table::has(std::string_view column) const {
  return std::find(columns.begin(), columns.end(), column) != columns.end();
}

Result<Table> load_table(const std::string& path) {
  const Result<std::string> text = read_file(path, max_table_bytes);
  if (!text) return text.errors();
  const Result<std::vector<CsvRow>> rows = csv_rows(*text, path);
  if (!rows) return rows.errors();
  if (rows->empty()) return Diagnostics{{path, "the table is empty; it needs a line of columns"}};
  Table table;
  table.path = path;
  Diagnostics problems;
  for (const std::string& cell : rows->front().cells) {
    std::string name = trimmed(cell);
    if (table.has(name)) {
      problems.push_back({fmt::format("{}:{}", path, rows->front().line),
                          fmt::format("the column '{}' is there twice", name)});
    }
    table.columns.push_back(name);
  }
  for (std::size_t i = 1; i < rows->size(); ++i) {
    const CsvRow& from = (*rows)[i];
    if (from.cells.size() != table.columns.size()) {
      problems.push_back(
          {fmt::format("{}:{}", path, from.line),
           fmt::format("{} cells for {} columns", from.cells.size(), table.columns.size())});
      continue;
    }
    TableRow& row = table.rows.emplace_back();
    row.line = from.line;
    for (std::size_t c = 0; c < from.cells.size(); ++c) {
      row.cells[table.columns[c]] = trimmed(from.cells[c]);
    }
  }
  if (!problems.empty()) return problems;
  return table;
}

}  // namespace sim::input
