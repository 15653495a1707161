#include "sim/input/text/csv_rows.h"

#include <csv.h>
#include <fmt/format.h>

#include <algorithm>

namespace sim::input {
namespace {

constexpr std::size_t max_rows = 1'000'000;
constexpr std::size_t max_cells = 512;  // of a row

struct Rows {
  std::vector<CsvRow> rows;
  CsvRow row;
  int line = 1;  // line that the parser reads
  std::string problem;
};

void on_cell(void* text, std::size_t size, void* user) {
  Rows& rows = *static_cast<Rows*>(user);
  if (rows.row.cells.size() < max_cells)
    rows.row.cells.emplace_back(static_cast<const char*>(text), size);
  else
    rows.problem = fmt::format("a row has more than {} cells", max_cells);
}

void on_row(int, void* user) {
  Rows& rows = *static_cast<Rows*>(user);
  if (rows.rows.size() < max_rows)
    rows.rows.push_back(std::move(rows.row));
  else
    rows.problem = fmt::format("the table has more than {} rows", max_rows);
  rows.row = {};
  rows.row.line = rows.line;  // if a carriage return alone ended the row
}

}  // namespace

Result<std::vector<CsvRow>> csv_rows(const std::string& text, const std::string& path) {
  csv_parser parser;
  [[maybe_unused]] const int made = csv_init(&parser, CSV_STRICT | CSV_STRICT_FINI);
  assert(made == 0);
  struct Freer {
    csv_parser* parser;
    ~Freer() { csv_free(parser); }
  } freer{&parser};

  Rows rows;
  const auto failed = [&](int line, const std::string& why) -> Diagnostics {
    return {{fmt::format("{}:{}", path, line), why}};
  };
  const auto broken = [&] {
    const bool quote = csv_error(&parser) == CSV_EPARSE;
    return failed(rows.line, quote ? "not CSV: a quotation mark inside of a cell; put the cell in "
                                     "quotation marks and double those inside"
                                   : csv_strerror(csv_error(&parser)));
  };
  std::size_t at = 0;
  while (at < text.size() && text[at] == '#') {
    at = std::min(text.find('\n', at), text.size() - 1) + 1;
    ++rows.line;
  }
  std::size_t quotes = 0;  // so far; odd: a cell in quotation marks is open
  while (at < text.size()) {
    // Feed line by line: a row begins in the line after the previous row.
    const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    if (quotes % 2 == 0) rows.row.line = rows.line;
    quotes +=
        static_cast<std::size_t>(std::count(text.begin() + static_cast<std::ptrdiff_t>(at),
                                            text.begin() + static_cast<std::ptrdiff_t>(end), '"'));
    if (csv_parse(&parser, text.data() + at, end - at, on_cell, on_row, &rows) != end - at)
      return broken();
    if (!rows.problem.empty()) return failed(rows.line, rows.problem);
    at = end;
    ++rows.line;
  }
  const int last = rows.row.line;
  if (csv_fini(&parser, on_cell, on_row, &rows) != 0)
    return failed(last, "not CSV: a cell that starts with a quotation mark is not closed");
  if (!rows.problem.empty()) return failed(last, rows.problem);
  return std::move(rows.rows);
}

std::string trimmed(const std::string& cell) {
  const std::size_t start = cell.find_first_not_of(" \t\r");
  if (start == std::string::npos) return "";
  return cell.substr(start, cell.find_last_not_of(" \t\r") - start + 1);
}

}  // namespace sim::input
