#include "sim/input/cluster/node_rates.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <set>

#include "sim/base/text.h"
#include "sim/input/text/csv_rows.h"
#include "sim/input/text/textproto.h"

namespace sim::input {
namespace {

// The text as a number above 0; 0 if it is none.
double rate_of(const std::string& cell) {
  char* end = nullptr;
  const double value = std::strtod(cell.c_str(), &end);
  const bool number = !cell.empty() && end == cell.c_str() + cell.size();
  return number && std::isfinite(value) && value > 0 ? value : 0;
}

}  // namespace

Result<NodeRatesFile> parse_node_rates(const std::string& text, const std::string& path) {
  const Result<std::vector<CsvRow>> rows = csv_rows(text, path);
  if (!rows) return rows.errors();
  const auto refuse = [&](int line, std::string problem) {
    return Diagnostics{{fmt::format("{}:{}", path, line), std::move(problem)}};
  };
  if (rows->empty()) return refuse(1, "no table; it begins with GB/s and the names of the nodes");
  const CsvRow& header = rows->front();
  const std::string unit = header.cells.empty() ? "" : header.cells.front();
  const double scale = unit == "GB/s" ? 1e9 : unit == "Gb/s" ? 1e9 / 8 : 0;
  if (scale == 0)
    return refuse(header.line, fmt::format("the first cell is the unit, GB/s or Gb/s; it is '{}'",
                                           unit.substr(0, 40)));
  NodeRatesFile file;
  file.text = text;
  topology::NodeRates& rates = file.rates;
  rates.names.assign(header.cells.begin() + 1, header.cells.end());
  const std::size_t nodes = rates.names.size();
  if (nodes < 2) return refuse(header.line, "a table between nodes names two of them or more");
  if (std::set<std::string>(rates.names.begin(), rates.names.end()).size() != nodes)
    return refuse(header.line, "a node is named twice");
  if (rows->size() != nodes + 1)
    return refuse(rows->back().line,
                  fmt::format("{} nodes have {}", nodes, counted(std::ssize(*rows) - 1, "row")));
  for (std::size_t from = 0; from < nodes; ++from) {
    const CsvRow& row = (*rows)[from + 1];
    if (row.cells.front() != rates.names[from])
      return refuse(row.line,
                    fmt::format("the row of '{}' comes here, as in the header; it is '{}'",
                                rates.names[from], row.cells.front().substr(0, 40)));
    if (row.cells.size() != nodes + 1)
      return refuse(row.line, fmt::format("{} cells instead of {}", row.cells.size(), nodes + 1));
    for (std::size_t to = 0; to < nodes; ++to) {
      const double rate = from == to ? 0 : scale * rate_of(row.cells[to + 1]);
      if (from != to && (rate < 1 || rate > 1e15))
        return refuse(row.line, fmt::format("from '{}' to '{}': '{}' is not a rate above 0",
                                            rates.names[from], rates.names[to],
                                            row.cells[to + 1].substr(0, 40)));
      rates.bytes_per_second.push_back(rate);
    }
  }
  return file;
}

Result<NodeRatesFile> load_node_rates(const std::string& path) {
  const Result<std::string> text = read_file(path);
  if (!text) return text.errors();
  return parse_node_rates(*text, path);
}

}  // namespace sim::input
