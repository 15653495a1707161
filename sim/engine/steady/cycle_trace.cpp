#include "sim/engine/steady/cycle_trace.h"

#include <algorithm>
#include <unordered_map>

namespace sim::engine {

std::uint32_t actual_slot(const program::Program& program, std::uint32_t slot,
                          std::span<const std::uint32_t> live) {
  const std::uint32_t first = program.fixed_slots + program.local_slots;
  if (slot < first) return slot;
  const std::uint32_t n = (slot - first) / program.frame_slots;
  return first + live[n] * program.frame_slots + (slot - first) % program.frame_slots;
}

namespace {

using program::Op;

constexpr std::int32_t empty = -2, before = -1;

// Follows tensors by slot, as the program moves them.
class Tracer {
 public:
  Tracer(const RankState& r, std::span<const MemoryCode* const> blocks)
      : r_(r), blocks_(blocks), live_(r.live) {
    const program::Program& p = r.program;
    slots_.resize(p.fixed_slots + p.local_slots + std::size_t{p.frames} * p.frame_slots);
    for (std::uint32_t s = 0; s < slots_.size(); ++s)
      slots_[s] = {r.memory.full(s) ? before : empty, static_cast<std::int32_t>(s),
                   r.memory.recorded(s)};
    first_held_ = held();
  }

  // False: the cycle freed a tensor whose allocation was not traced.
  bool run(std::uint32_t begin, std::uint32_t end, CycleTrace& trace) {
    known_ = true;
    frees_ = 0;
    const std::int64_t* clock_log = r_.log.times.data();
    walk_memory(r_.program, *r_.at.passes, begin, end, blocks_,
                [&](std::uint32_t, std::uint32_t, const MemoryInstruction& step, std::uint32_t slot,
                    std::uint32_t to) {
                  const program::Instruction& i = step.instruction;
                  if (i.op == Op::alloc) {
                    place(i, slot, *clock_log++, trace);
                  } else if (i.op == Op::free) {
                    const std::int64_t when = *clock_log++;
                    free(slot, when, clock_log, trace);
                  } else if (i.op == Op::move) {
                    slots_[to] = slots_[slot];
                    slots_[slot].tensor = empty;
                  } else {
                    slots_[slot].recorded |= program::bit_of(i.stream);
                  }
                });
    known_ &= clock_log == r_.log.times.data() + r_.log.times.size();
    for (std::uint32_t p = begin; p < end; ++p) {
      const program::Pass& pass = (*r_.at.passes)[p];
      if (pass.acquires) live_.push_back(pass.frame);
      if (pass.releases) std::erase(live_, pass.frame);
    }
    ++cycle_;
    return known_;
  }

  std::vector<CycleTrace::Held> held() const {
    std::vector<CycleTrace::Held> all;
    const program::Program& p = r_.program;
    const std::uint32_t first = p.fixed_slots + p.local_slots;
    const auto look = [&](std::uint32_t actual, std::uint32_t slot) {
      const Handle& h = slots_[actual];
      if (h.tensor == empty) return;
      all.push_back({slot, h.tensor, h.tensor == before ? 0 : cycle_ - h.cycle, h.recorded});
    };
    for (std::uint32_t s = 0; s < first; ++s) look(s, s);
    for (std::uint32_t n = 0; n < live_.size(); ++n)
      for (std::uint32_t k = 0; k < p.frame_slots; ++k)
        look(first + live_[n] * p.frame_slots + k, first + n * p.frame_slots + k);
    return all;
  }

 private:
  struct Handle {
    std::int32_t tensor = empty;
    std::int32_t cycle = 0;  // of its allocation; for a tensor from before: its slot then
    program::Streams recorded = 0;
  };

  void place(const program::Instruction& i, std::uint32_t slot, std::int64_t when,
             CycleTrace& trace) {
    const auto tensor = static_cast<std::int32_t>(trace.tensors.size());
    trace.tensors.push_back({i.value, i.stream, i.category, -1, {}});
    trace.events.push_back({true, tensor, when});
    slots_[slot] = {tensor, cycle_, 0};
  }

  void free(std::uint32_t slot, std::int64_t when, const std::int64_t*& clock_log,
            CycleTrace& trace) {
    const Handle h = slots_[slot];  // what it was recorded on stays, as in RankMemory
    slots_[slot].tensor = empty;
    std::vector<std::pair<int, std::int64_t>> waits;
    for (int s = 0; h.recorded >> s; ++s)
      if (h.recorded >> s & 1) waits.emplace_back(s, *clock_log++);
    if (h.tensor == empty) return;
    ++frees_;
    if (h.tensor == before) {
      known_ = false;
      ends_[static_cast<std::uint32_t>(h.cycle)] = {cycle_, frees_ - 1};
      return;
    }
    trace.events.push_back({false, h.tensor, when});
    freed_.push_back({h.tensor, cycle_ - h.cycle, std::move(waits)});
  }

 public:
  // A tensor that was freed in the current cycle, in order.
  struct Freed {
    std::int32_t tensor = 0;
    int lives = 0;
    std::vector<std::pair<int, std::int64_t>> waits;
    friend bool operator==(const Freed&, const Freed&) = default;
  };
  std::vector<Freed> take_freed() { return std::exchange(freed_, {}); }

  // The tensors held at the begin of the first cycle, if each later cycle frees `freed`.
  std::vector<CycleTrace::Held> first_held(std::span<const Freed> freed) const {
    std::vector<CycleTrace::Held> all = first_held_;
    for (CycleTrace::Held& h : all) {
      const auto end = ends_.find(actual_slot(r_.program, h.slot, r_.live));
      if (end == ends_.end()) continue;
      const auto [cycle, number] = end->second;
      h.tensor = freed[static_cast<std::size_t>(number)].tensor;
      h.age = freed[static_cast<std::size_t>(number)].lives - cycle;
    }
    return all;
  }

 private:
  const RankState& r_;
  std::span<const MemoryCode* const> blocks_;
  std::vector<std::uint32_t> live_;
  std::vector<Handle> slots_;
  std::vector<Freed> freed_;
  std::vector<CycleTrace::Held> first_held_;
  // By slot, the tensors from before: the cycle that freed them, and their number among its frees.
  std::unordered_map<std::uint32_t, std::pair<std::int32_t, std::int32_t>> ends_;
  std::int32_t frees_ = 0;  // of the current cycle
  std::int32_t cycle_ = 0;
  bool known_ = true;
};

// Each tensor must be freed exactly once, in its own or in a later cycle. False if one is not.
bool enter_lives(std::vector<Tracer::Freed> freed, CycleTrace& trace) {
  for (Tracer::Freed& f : freed) {
    CycleTrace::Tensor& tensor = trace.tensors[static_cast<std::size_t>(f.tensor)];
    if (tensor.lives >= 0) return false;
    tensor.lives = f.lives;
    // A tensor does not wait for its own stream.
    std::erase_if(f.waits,
                  [&](const auto& wait) { return wait.first == static_cast<int>(tensor.stream); });
    tensor.waits = std::move(f.waits);
  }
  return std::ranges::all_of(trace.tensors, [](const auto& t) { return t.lives >= 0; });
}

}  // namespace

std::optional<CycleTrace> trace_cycle(const RankState& r, std::span<const MemoryCode* const> blocks,
                                      std::span<const std::uint32_t> bounds) {
  Tracer tracer(r, blocks);
  CycleTrace last;
  std::vector<Tracer::Freed> last_freed;
  std::vector<CycleTrace::Held> last_held;
  bool last_known = false;
  for (std::size_t n = 0; n + 1 < bounds.size(); ++n) {
    CycleTrace trace;
    const bool known = tracer.run(bounds[n], bounds[n + 1], trace);
    std::vector<Tracer::Freed> freed = tracer.take_freed();
    std::vector<CycleTrace::Held> held;
    if (known) held = tracer.held();
    if (known && last_known && freed == last_freed && trace.events == last.events &&
        held == last_held) {
      const std::uint32_t fixed = r.program.fixed_slots;
      for (const CycleTrace::Held& h : held)
        if (h.tensor < 0 && h.slot >= fixed) return std::nullopt;
      trace.held = std::move(held);
      // The first cycle usually begins in the same way as later ones.
      const bool at_once = tracer.first_held(freed) == trace.held;
      trace.cycles = at_once ? 0 : static_cast<std::int64_t>(n) + 1;
      if (!enter_lives(std::move(freed), trace)) return std::nullopt;
      return trace;
    }
    last = std::move(trace);
    last_freed = std::move(freed);
    last_held = std::move(held);
    last_known = known;
  }
  return std::nullopt;
}

}  // namespace sim::engine
