#include "sim/engine/rank/memory_code.h"

#include <algorithm>
#include <array>

#include "sim/allocator/options.h"

namespace sim::engine {
namespace {

using program::Op;

bool touches_memory(const program::Instruction& i) {
  return i.op <= Op::record_stream;
}

bool alike(const program::Instruction& a, const program::Instruction& b) {
  return a.op == b.op && a.stream == b.stream && a.flags == b.flags && a.category == b.category &&
         a.space == b.space && a.event == b.event && a.label == b.label && a.index == b.index &&
         a.value == b.value;
}

// Whether two blocks have the same effect on memory at the same places.
bool same_memory(const program::Block& a, const program::Block& b) {
  return std::ranges::equal(a.code, b.code, [](const auto& x, const auto& y) {
    return touches_memory(x) == touches_memory(y) && (!touches_memory(x) || alike(x, y));
  });
}

// A digest; blocks with the same effect on memory have equal digests.
std::uint64_t digest(const program::Block& block) {
  std::uint64_t sum = block.code.size();
  for (const program::Instruction& i : block.code)
    if (touches_memory(i))
      sum = (sum ^ i.index ^ static_cast<std::uint64_t>(i.value) << 16) * 0x9e3779b97f4a7c15;
  return sum ^ sum >> 32;
}

// A number for each slot that a block touches; initially 0.
class BySlot {
 public:
  std::size_t& operator()(program::Space space, std::uint32_t index) {
    std::vector<std::size_t>& of_space = spaces_[static_cast<std::size_t>(space)];
    if (index >= of_space.size()) of_space.resize(index + 1);
    return of_space[index];
  }

 private:
  std::array<std::vector<std::size_t>, 4> spaces_;
};

// By allocation: the place of the free of its tensor, if the block does nothing else with the
// tensor; otherwise 0.
std::vector<std::size_t> frees(const std::vector<MemoryInstruction>& code) {
  std::vector<std::size_t> freed(code.size(), 0);
  BySlot next;  // by slot: the next instruction that touches it, plus 1
  for (std::size_t i = code.size(); i-- > 0;) {
    const program::Instruction& here = code[i].instruction;
    std::size_t& touched = next(here.space, here.index);
    if (here.op == Op::alloc && touched > 0 && code[touched - 1].instruction.op == Op::free)
      freed[i] = touched - 1;
    touched = i + 1;
    if (here.op != Op::move) continue;
    const program::Slot to = program::destination(here);
    next(to.space, to.index) = i + 1;
  }
  return freed;
}

// Marks transients, the last first: during the life of a transient, only transients are allocated.
void mark_transients(MemoryCode& memory, const std::vector<std::size_t>& freed) {
  const std::vector<MemoryInstruction>& code = memory.code;
  std::size_t other = code.size();  // the next allocation that is not a transient
  for (std::size_t i = code.size(); i-- > 0;) {
    if (code[i].instruction.op != Op::alloc) continue;
    if (freed[i] == 0 || other < freed[i]) {
      other = i;
      continue;
    }
    memory.marks[code[i].place].transient = memory.marks[code[freed[i]].place].transient = true;
  }
}

void add(const program::Instruction& tensor, MemoryCode::Group& group) {
  const int stream = static_cast<int>(tensor.stream);
  auto room = std::find_if(group.rooms.begin(), group.rooms.end(),
                           [&](const RoomNeeded& r) { return r.stream == stream; });
  if (room == group.rooms.end()) room = group.rooms.insert(room, {stream, 0, 0});
  const std::int64_t bytes = allocator::whole_blocks(tensor.value);
  (bytes > allocator::small_size ? room->large : room->small) += bytes;
  ++group.tensors;
}

}  // namespace

MemoryCode memory_code(const program::Block& block) {
  MemoryCode result;
  std::vector<MemoryInstruction>& code = result.code;
  for (std::uint32_t i = 0; i < block.code.size(); ++i)
    if (touches_memory(block.code[i])) code.push_back({block.code[i], i});
  result.marks.resize(block.code.size());

  const std::vector<std::size_t> freed = frees(code);
  mark_transients(result, freed);

  std::size_t end = 0;  // place of the last free in the open group
  for (std::size_t i = 0; i < code.size(); ++i) {
    const program::Instruction& tensor = code[i].instruction;
    MemoryCode::Mark& mark = result.marks[code[i].place];
    if (!mark.transient || tensor.op != Op::alloc) continue;
    if (i >= end) {
      mark.group = static_cast<std::int16_t>(result.groups.size());
      result.groups.emplace_back();
    }
    end = std::max(end, freed[i]);
    add(tensor, result.groups.back());
  }
  return result;
}

const MemoryCode* MemoryCodes::of(const program::Block& block) {
  const std::uint64_t key = digest(block);
  for (auto [at, end] = known_.equal_range(key); at != end; ++at)
    if (same_memory(*at->second->block, block)) return &at->second->code;
  auto made = std::make_unique<const Known>(Known{&block, memory_code(block)});
  return &known_.emplace(key, std::move(made))->second->code;
}

}  // namespace sim::engine
