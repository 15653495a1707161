#include "sim/replay/memory_code.h"

#include <algorithm>
#include <unordered_map>

#include "sim/memory/options.h"

namespace sim::replay {
namespace {

using workload::Op;

std::uint64_t slot_key(workload::Space space, std::uint32_t index) {
  return std::uint64_t{static_cast<std::uint8_t>(space)} << 32 | index;
}

// By allocation, the place of the free of its tensor, if nothing else happens to it in this block;
// otherwise 0.
std::vector<std::size_t> frees(const std::vector<MemoryInstruction>& code) {
  std::vector<std::size_t> freed(code.size(), 0);
  std::unordered_map<std::uint64_t, std::size_t> next;  // what touches a slot, from the end on
  for (std::size_t i = code.size(); i-- > 0;) {
    const workload::Instruction& here = code[i].instruction;
    const std::uint64_t slot = slot_key(here.space, here.index);
    const auto [touched, fresh] = next.try_emplace(slot, i);
    if (here.op == Op::alloc && !fresh && code[touched->second].instruction.op == Op::free)
      freed[i] = touched->second;
    touched->second = i;
    if (here.op != Op::move) continue;
    const workload::Slot to = workload::destination(here);
    next[slot_key(to.space, to.index)] = i;
  }
  return freed;
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

  const std::vector<std::size_t> freed = frees(code);
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
