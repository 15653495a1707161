// chakra.cpp — reads Chakra execution traces: their collectives, and kinds of nodes.
//
// The attribute comm_type counts ALL_REDUCE 0, REDUCE 1, ALL_GATHER 2, GATHER 3, SCATTER 4,
// BROADCAST 5, ALL_TO_ALL 6, REDUCE_SCATTER 7, REDUCE_SCATTER_BLOCK 8, BARRIER 9. The attribute
// comm_size is in bytes. Converters also mark the operators around a collective as collectives;
// those have no comm_type. From a trace of PyTorch they write GPU events with is_cpu_op false and
// the stream as tid. Events keep their order but lose their start times
// (chakra/src/converter/pytorch_converter.py, pytorch_node.py).
#include "sim/input/tables/chakra.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "sim/calibrate/readers/reader.h"
#include "sim/calibrate/readers/trace_events.h"

namespace sim::calibrate {

namespace {

using collective::Kind;
using input::ChakraNode;
using input::ChakraType;

std::optional<Kind> kind_of(std::int64_t type) {
  switch (type) {
    case 0:
      return Kind::all_reduce;
    case 2:
      return Kind::all_gather;
    case 5:
      return Kind::broadcast;
    case 6:
      return Kind::all_to_all;
    case 7:
    case 8:
      return Kind::reduce_scatter;
    default:
      return std::nullopt;
  }
}

std::int64_t value(const ChakraNode& node, const char* name) {
  const auto found = node.numbers.find(name);
  return found == node.numbers.end() ? 0 : found->second;
}

void add_collective(const ChakraNode& node, const std::string& path, Measurements& out,
                    std::map<std::string, std::pair<std::int64_t, double>>& totals) {
  const auto type = node.numbers.find("comm_type");
  if (type == node.numbers.end()) {
    ++out.passed["operators around a collective, without comm_type"];
    return;
  }
  const auto kind = kind_of(type->second);
  const std::int64_t bytes = value(node, "comm_size");
  if (!kind || bytes <= 0 || bytes > std::int64_t{1} << 44) {
    ++out.passed["collectives of another kind or without their size"];
    return;
  }
  auto& [count, sum] = totals[std::string(collective::name(*kind))];
  ++count;
  sum += static_cast<double>(bytes);
  std::int64_t ranks = value(node, "comm_group_size");
  if (ranks == 0) ranks = value(node, "group_size");
  if (node.duration_us == 0 || node.duration_us > 3'600'000'000u || ranks < 2 || ranks > 1 << 20) {
    ++out.passed["collectives without their duration or their number of ranks"];
    return;
  }
  CollectiveSample sample;
  sample.kind = *kind;
  sample.source = path;
  sample.ranks = static_cast<int>(ranks);
  sample.nodes = 0;
  sample.bytes = {bytes};
  sample.seconds = static_cast<double>(node.duration_us) * 1e-6;
  out.collectives.push_back(std::move(sample));
}

Result<input::ChakraTrace> nodes_of(std::string_view bytes, const std::string& path) {
  return input::is_chakra_json(bytes) ? input::read_chakra_json(bytes, path)
                                      : input::read_chakra(bytes, path);
}

// Whether the node ran on the GPU, according to its attributes.
bool of_gpu(const ChakraNode& node) {
  return node.type != ChakraType::metadata && node.type != ChakraType::invalid &&
         value(node, "is_cpu_op") == 0 && node.duration_us > 0;
}

}  // namespace

bool is_chakra_trace(std::string_view bytes, const std::string&) {
  return input::is_chakra(bytes) || input::is_chakra_json(bytes);
}

Result<Measurements> read_chakra_trace(std::string_view bytes, const std::string& path) {
  const Result<input::ChakraTrace> trace = nodes_of(bytes, path);
  if (!trace) return trace.errors();
  Measurements out;
  std::array<std::size_t, 8> counts{};
  std::map<std::string, std::pair<std::int64_t, double>> totals;
  double compute = 0;
  for (const ChakraNode& node : trace->nodes) {
    ++counts[static_cast<std::size_t>(node.type)];
    if (node.type == ChakraType::compute) compute += static_cast<double>(node.duration_us) * 1e-6;
    if (node.type == ChakraType::collective) add_collective(node, path, out, totals);
  }
  out.facts.push_back(fmt::format(
      "Chakra {}: {} nodes, {} compute ({:.6f} s), {} collectives, {} sends, {} receives",
      trace->version.empty() ? "(no version)" : trace->version, trace->nodes.size(), counts[4],
      compute, counts[7], counts[5], counts[6]));
  for (const auto& [name, total] : totals)
    out.facts.push_back(
        fmt::format("{} x {}, {:.0f} bytes together", total.first, name, total.second));
  return out;
}

Result<TraceFile> read_chakra_events(std::string_view bytes, const std::string& path) {
  const Result<input::ChakraTrace> trace = nodes_of(bytes, path);
  if (!trace) return trace.errors();
  std::vector<ChakraNode> nodes = trace->nodes;
  std::erase_if(nodes, [](const ChakraNode& node) { return !of_gpu(node); });
  TraceFile file;
  file.end_to_end = std::ranges::all_of(nodes, [](const ChakraNode& n) { return n.start_us == 0; });
  if (file.end_to_end) std::ranges::stable_sort(nodes, {}, &ChakraNode::id);
  double end = 0;
  for (const ChakraNode& node : nodes) {
    TraceEvent& e = file.events.emplace_back();
    const bool copies = node.type == ChakraType::memory_load ||
                        node.type == ChakraType::memory_store || node.name.starts_with("Memcpy") ||
                        node.name.starts_with("Memset");
    e.kind = copies ? EventKind::copy : EventKind::kernel;
    e.name = file.texts->keep(node.name);
    e.start_us = file.end_to_end ? end : static_cast<double>(node.start_us);
    e.duration_us = static_cast<double>(node.duration_us);
    e.stream = static_cast<int>(std::clamp<std::int64_t>(value(node, "tid"), 0, 1 << 30));
    end = e.start_us + e.duration_us;
    if (const std::int64_t ranks = value(node, "comm_group_size"); ranks > 0)
      file.add_argument(Argument::group_size, fmt::format("{}", ranks));
  }
  return file;
}

}  // namespace sim::calibrate
