#include "sim/command/common/detail.h"

#include <fmt/format.h>

#include <iterator>

namespace sim::command {

using engine::MemoryDetail;

void declare_detail(Options& options) {
  options.value("memory", "HOW",
                "exact (default): allocation by allocation to the end; bounded: until it is sure "
                "that it fits, peaks are then a range; estimate: time alone, with the closed form; "
                "none: time alone");
}

engine::MemoryDetail detail_named(const std::string& name) {
  if (name.empty()) return MemoryDetail::exact;
  const auto detail = engine::memory_detail(name);
  if (!detail)
    throw Stop{exit_usage, fmt::format("memory is one of {}, not '{}'",
                                       fmt::join(engine::memory_details, ", "), name)};
  return *detail;
}

MemoryDetail detail_of(const Options& options, const std::string& other) {
  const std::vector<std::string> names(std::begin(engine::memory_details),
                                       std::end(engine::memory_details));
  const std::string chosen = options.choice("memory", names.front(), names);
  const MemoryDetail detail = *engine::memory_detail(chosen);
  if (!other.empty() && detail != MemoryDetail::exact)
    throw Stop{exit_usage,
               fmt::format("--memory {}: {} needs every tensor in its place; leave out one of them",
                           chosen, other)};
  return detail;
}

}  // namespace sim::command
