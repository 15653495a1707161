#include "sim/job/mesh/communicators.h"

#include <algorithm>
#include <cassert>

namespace sim::mesh {
namespace {

using enum Axis;
constexpr Fold attention = Fold::attention, experts = Fold::experts;

constexpr std::array<CommunicatorRow, communicator_count> rows = {{
    {Communicator::tp, "tp", attention, {tp}, Part::whole, tp},
    {Communicator::cp, "cp", attention, {cp}, Part::whole, cp},
    {Communicator::dp, "dp", attention, {dp}, Part::whole, dp},
    {Communicator::dp_cp, "dp-cp", attention, {dp, cp}, Part::whole, dp},
    {Communicator::pp, "pp", attention, {pp}, Part::whole, pp},
    {Communicator::embedding, "embedding", attention, {pp}, Part::ends, pp},
    {Communicator::shard, "shard", attention, {dp, cp}, Part::neighbours, dp},
    {Communicator::replicate, "replicate", attention, {dp, cp}, Part::alike, dp},
    {Communicator::ulysses, "ulysses", attention, {cp}, Part::neighbours, cp},
    {Communicator::ring, "ring", attention, {cp}, Part::alike, cp},
    {Communicator::ep, "ep", experts, {ep}, Part::whole, ep},
    {Communicator::etp, "etp", experts, {tp}, Part::whole, ep},
    {Communicator::etp_ep, "etp-ep", experts, {tp, ep}, Part::whole, ep},
    {Communicator::edp, "edp", experts, {dp}, Part::whole, dp},
    {Communicator::shard_near, "shard-near", attention, {dp, cp}, Part::neighbours, dp},
    {Communicator::shard_far, "shard-far", attention, {dp, cp}, Part::alike, dp},
    {Communicator::tensor_columns, "tensor-columns", attention, {tp}, Part::neighbours, tp},
    {Communicator::tensor_rows, "tensor-rows", attention, {tp}, Part::alike, tp},
    {Communicator::world, "world", attention, {tp, cp, ep, dp, pp}, Part::whole, std::nullopt},
}};

// The size of a block of neighbours in a line of `line` ranks.
std::size_t block_of(const CommunicatorRow& row, const Degrees& degrees, std::size_t line) {
  const bool levels = row.id == Communicator::shard_near || row.id == Communicator::shard_far;
  if (levels) return static_cast<std::size_t>(degrees.secondary);
  if (row.axes.has(Axis::tp)) return static_cast<std::size_t>(degrees.columns);
  if (row.axes.has(Axis::dp)) return line / static_cast<std::size_t>(degrees.replicas);
  return static_cast<std::size_t>(degrees.ulysses);
}

void cut_into_blocks(std::vector<int> line, std::size_t block, Part part, Groups& into) {
  assert(block > 0 && line.size() % block == 0);
  std::ranges::sort(line);
  const bool neighbours = part == Part::neighbours;
  const std::size_t count = neighbours ? line.size() / block : block;
  for (std::size_t g = 0; g < count; ++g) {
    std::vector<int>& group = into.ranks.emplace_back();
    for (std::size_t i = 0; i < line.size(); ++i)
      if ((neighbours ? i / block : i % block) == g) group.push_back(line[i]);
  }
}

}  // namespace

std::span<const CommunicatorRow> communicators() {
  return rows;
}

const CommunicatorRow& row(Communicator communicator) {
  const CommunicatorRow& found = rows[static_cast<std::size_t>(communicator)];
  assert(found.id == communicator);
  return found;
}

Groups groups(Communicator communicator, const Degrees& degrees, const Order& order) {
  const CommunicatorRow& which = row(communicator);
  Groups lines = groups_along(which.axes, degrees, order, which.fold);
  switch (which.part) {
    case Part::whole:
      return lines;
    case Part::ends:
      for (std::vector<int>& line : lines.ranks)
        if (line.size() > 1) line = {line.front(), line.back()};
      return lines;
    case Part::neighbours:
    case Part::alike:
      break;
  }
  Groups blocks;
  for (std::vector<int>& line : lines.ranks)
    cut_into_blocks(std::move(line), block_of(which, degrees, line.size()), which.part, blocks);
  return blocks;
}

Groups stage_pairs(int from, int to, const Groups& pipelines) {
  Groups pairs;
  pairs.ranks.reserve(pipelines.ranks.size());
  for (const std::vector<int>& line : pipelines.ranks)
    pairs.ranks.push_back(
        {line.at(static_cast<std::size_t>(from)), line.at(static_cast<std::size_t>(to))});
  return pairs;
}

}  // namespace sim::mesh
