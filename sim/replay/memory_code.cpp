#include "sim/replay/memory_code.h"

#include <algorithm>

#include "sim/memory/options.h"

namespace sim::replay {
namespace {

using workload::Op;

bool same_slot(const workload::Instruction& a, const workload::Instruction& b) {
  return a.space == b.space && a.index == b.index;
}

// Whether a move of `i` goes to the slot of `tensor`.
bool moves_to(const workload::Instruction& i, const workload::Instruction& tensor) {
  return i.op == Op::move && static_cast<workload::Space>(i.value >> 32) == tensor.space &&
         static_cast<std::uint32_t>(i.value) == tensor.index;
}

// The place of the free of the tensor allocated at `begin`, if nothing else happens to it in this
// block; otherwise 0.
std::size_t freed_at(const std::vector<MemoryInstruction>& code, std::size_t begin) {
  const workload::Instruction& tensor = code[begin].instruction;
  for (std::size_t i = begin + 1; i < code.size(); ++i) {
    const workload::Instruction& other = code[i].instruction;
    if (moves_to(other, tensor)) return 0;
    if (same_slot(other, tensor)) return other.op == Op::free ? i : 0;
  }
  return 0;
}

// Marks transients, the last first: a tensor is one when what is placed in its life are transients.
void mark_transients(std::vector<MemoryInstruction>& code, const std::vector<std::size_t>& freed) {
  std::size_t other = code.size();  // the next placement that is none
  for (std::size_t i = code.size(); i-- > 0;) {
    if (code[i].instruction.op != Op::alloc) continue;
    if (freed[i] == 0 || other < freed[i]) {
      other = i;
      continue;
    }
    code[i].transient = code[freed[i]].transient = true;
  }
}

void add(const workload::Instruction& tensor, MemoryCode::Group& group) {
  const int stream = static_cast<int>(tensor.stream);
  auto room = std::find_if(group.rooms.begin(), group.rooms.end(),
                           [&](const RoomNeeded& r) { return r.stream == stream; });
  if (room == group.rooms.end()) room = group.rooms.insert(room, {stream, 0, 0});
  const std::int64_t bytes = memory::round_size(tensor.value, {});
  (bytes > memory::small_size ? room->large : room->small) += bytes;
  ++group.tensors;
}

}  // namespace

MemoryCode memory_code(const workload::Block& block) {
  MemoryCode result;
  std::vector<MemoryInstruction>& code = result.code;
  for (std::uint32_t i = 0; i < block.code.size(); ++i)
    if (block.code[i].op <= Op::record_stream) code.push_back({block.code[i], i, -1, false});

  std::vector<std::size_t> freed(code.size(), 0);
  for (std::size_t i = 0; i < code.size(); ++i)
    if (code[i].instruction.op == Op::alloc) freed[i] = freed_at(code, i);
  mark_transients(code, freed);

  std::size_t end = 0;  // of the group that is open: where its last tensor is freed
  for (std::size_t i = 0; i < code.size(); ++i) {
    const workload::Instruction& tensor = code[i].instruction;
    if (!code[i].transient || tensor.op != Op::alloc) continue;
    if (i >= end) {
      code[i].group = static_cast<std::int16_t>(result.groups.size());
      result.groups.emplace_back();
    }
    end = std::max(end, freed[i]);
    add(tensor, result.groups.back());
  }
  result.marks.resize(block.code.size());
  for (const MemoryInstruction& step : code)
    result.marks[step.place] = {step.group, step.transient};
  return result;
}

}  // namespace sim::replay
