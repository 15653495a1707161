#include "sim/input/cluster/hosts.h"

#include <fmt/format.h>

#include <charconv>

#include "sim/input/tables/table_csv.h"
#include "sim/input/text/locate.h"

namespace sim::input {

Diagnostics read_host(std::string_view host, const std::map<std::string, double*>& wanted) {
  const std::string path = repository_root() + "/calibration/hosts.csv";
  const Result<Table> table = load_table(path);
  if (!table) return table.errors();
  for (const char* column : {"host", "quantity", "value"})
    if (!table->has(column))
      return {{path + ":1", fmt::format("the column '{}' is missing", column)}};
  std::size_t found = 0;
  for (const TableRow& row : table->rows) {
    if (row.cells.at("host") != host) continue;
    const auto at = wanted.find(row.cells.at("quantity"));
    const std::string& text = row.cells.at("value");
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool number = error == std::errc{} && end == text.data() + text.size();
    if (at == wanted.end() || !number || !(value > 0))
      return {{fmt::format("{}:{}", path, row.line), "no known quantity above zero"}};
    *at->second = value;
    ++found;
  }
  if (found != wanted.size())
    return {{path, fmt::format("host '{}' has {} of {} quantities", host, found, wanted.size())}};
  return {};
}

namespace {

Result<topology::HostLevels> read_levels() {
  topology::HostLevels levels;
  double core = 0, pageable = 0, socket = 0;
  const Diagnostics problems = read_host("any", {{"copied", &levels.copied},
                                                 {"carried", &levels.carried},
                                                 {"core", &core},
                                                 {"pageable", &pageable},
                                                 {"socket_memory", &socket}});
  if (!problems.empty()) return problems;
  levels.core = Bandwidth{static_cast<std::int64_t>(core)};
  levels.pageable = Bandwidth{static_cast<std::int64_t>(pageable)};
  levels.socket_memory = Bandwidth{static_cast<std::int64_t>(socket)};
  return levels;
}

}  // namespace

const Result<topology::HostLevels>& host_levels() {
  static const Result<topology::HostLevels> levels = read_levels();
  return levels;
}

}  // namespace sim::input
