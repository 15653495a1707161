// collective_errors.cpp — errors of collectives by size class. A table with many rows of one source
// would hide the others: in a class, every source counts the same.
#include <fmt/format.h>

#include <array>
#include <map>
#include <set>
#include <tuple>

#include "sim/calibrate/tables/error_statistics.h"
#include "sim/calibrate/tables/timings.h"

namespace sim::calibrate {

namespace {

using output::Json;

constexpr std::array<const char*, 3> size_classes = {"above 16 MiB", "1 to 16 MiB", "below 1 MiB"};
constexpr std::array<const char*, 3> node_classes = {"1 node", "2 nodes", "more nodes"};

std::size_t size_class(std::int64_t bytes) {
  return bytes > std::int64_t{16} << 20 ? 0 : bytes >= std::int64_t{1} << 20 ? 1 : 2;
}

std::size_t node_class(int nodes) {
  return nodes == 1 ? 0 : nodes == 2 ? 1 : 2;
}

std::string gpu_of(const Timing& t) {
  return t.group.substr(0, t.group.find(','));
}

using Errors = std::vector<std::pair<double, std::size_t>>;

void add(Errors& errors, const Timing& t) {
  errors.emplace_back(100 * (t.predicted_us / t.measured_us - 1), static_cast<std::size_t>(t.line));
}

output::Column percent(const char* key, const char* heading) {
  return {key, heading, "", 1, false, " %"};
}

// By size class and number of nodes, with all sources alike.
output::Rows by_size(const std::vector<Timing>& timings) {
  std::map<std::pair<std::size_t, std::size_t>, std::map<std::string, Errors>> classes;
  for (const Timing& t : timings) {
    if (!t.reason.empty() || t.host_timed) continue;
    add(classes[{node_class(t.nodes), size_class(t.bytes)}][t.source], t);
  }
  output::Rows rows{"by_size",
                    "errors by size, sources weighted equally",
                    {{"nodes", "nodes", "", 0, true},
                     {"size", "size", "", 0, true},
                     {"sources", "sources"},
                     {"times", "times"},
                     percent("median_pct", "median"),
                     percent("p90_pct", "p90"),
                     {"bias_pct", "bias", "", 1, false, " %", 1, output::Show::change}},
                    {}};
  for (const auto& [key, sources] : classes) {
    double median = 0, p90 = 0, bias = 0;
    std::size_t times = 0;
    for (const auto& [source, errors] : sources) {
      const ErrorStatistics s = statistics_of(errors);
      median += s.median, p90 += s.p90, bias += s.bias, times += s.rows;
    }
    const double n = static_cast<double>(sources.size());
    rows.cells.push_back({node_classes[key.first], size_classes[key.second], sources.size(), times,
                          median / n, p90 / n, bias / n});
  }
  rows.searched = rows.cells.empty();
  return rows;
}

// By source, GPU, number of nodes and size class; host-timed rows or the others.
output::Rows by_source(const std::vector<Timing>& timings, bool host_timed) {
  std::map<std::tuple<std::string, std::string, int, std::size_t>, Errors> groups;
  for (const Timing& t : timings) {
    if (!t.reason.empty() || t.host_timed != host_timed) continue;
    add(groups[{t.source, gpu_of(t), t.nodes, size_class(t.bytes)}], t);
  }
  std::vector<output::Column> columns = {{"source", "source", "", 0, true},
                                         {"gpu", "GPU", "", 0, true},
                                         {"nodes", "nodes"},
                                         {"size", "size", "", 0, true}};
  for (output::Column column : statistics_columns("times", "worst_line")) {
    if (!column.suffix.empty()) column.digits = 1;
    columns.push_back(std::move(column));
  }
  output::Rows rows{host_timed ? "host_timed" : "by_source",
                    host_timed ? "errors of times that a CPU thread measured, with its launch"
                               : "errors by source",
                    columns,
                    {}};
  for (const auto& [key, errors] : groups) {
    const auto& [source, gpu, nodes, size] = key;
    std::vector<Json> cells = {source, gpu, nodes, size_classes[size]};
    for (Json& cell : statistics_cells(statistics_of(errors))) cells.push_back(std::move(cell));
    rows.cells.push_back(std::move(cells));
  }
  rows.searched = rows.cells.empty();
  return rows;
}

}  // namespace

std::vector<output::Rows> collective_errors(const std::vector<Timing>& timings) {
  return {by_size(timings), by_source(timings, false), by_source(timings, true)};
}

}  // namespace sim::calibrate
