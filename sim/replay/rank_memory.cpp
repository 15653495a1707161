#include "sim/replay/rank_memory.h"

#include <algorithm>
#include <cassert>

namespace sim::replay {

using workload::Category;
using workload::Instruction;

Time Clock::idle() const {
  return *std::max_element(tail.begin(), tail.end());
}

bool SimulatedDriver::take(std::int64_t bytes) {
  if (!unlimited_ && used_ + bytes > capacity_) return false;
  used_ += bytes;
  return true;
}

std::optional<std::int64_t> SimulatedDriver::cuda_malloc(Bytes size) {
  clock_.cpu =
      clock_.cpu + costs_.malloc + Duration{costs_.malloc_per_gib.ps / 1024 * (size.n >> 20)};
  if (!take(size.n)) return std::nullopt;
  return *reserve_addresses(size);
}

void SimulatedDriver::cuda_free(std::int64_t, Bytes size) {
  // cudaFree waits for the whole device.
  clock_.cpu = std::max(clock_.cpu, clock_.idle()) + costs_.free;
  used_ -= size.n;
}

std::optional<std::int64_t> SimulatedDriver::reserve_addresses(Bytes size) {
  constexpr std::int64_t step = std::int64_t{2} << 20;
  const std::int64_t address = next_address_;
  next_address_ += (size.n + step - 1) / step * step;
  return address;
}

bool SimulatedDriver::map(std::int64_t, Bytes size) {
  clock_.cpu = clock_.cpu + costs_.malloc;
  return take(size.n);
}

void SimulatedDriver::unmap(int stream, std::int64_t, Bytes size) {
  clock_.cpu = std::max(clock_.cpu, clock_.tail[static_cast<std::size_t>(stream)]) + costs_.free;
  used_ -= size.n;
}

memory::Event SimulatedDriver::record_event(int stream) {
  events_.push_back({clock_.tail[static_cast<std::size_t>(stream)], false});
  return {stream, first_ticket_ + static_cast<std::int64_t>(events_.size()) - 1};
}

bool SimulatedDriver::event_reached(const memory::Event& event) {
  Outstanding& outstanding = events_[static_cast<std::size_t>(event.ticket - first_ticket_)];
  if (outstanding.when > clock_.cpu) return false;
  outstanding.reached = true;
  std::size_t gone = 0;
  while (gone < events_.size() && events_[gone].reached) ++gone;
  events_.erase(events_.begin(), events_.begin() + static_cast<std::ptrdiff_t>(gone));
  first_ticket_ += static_cast<std::int64_t>(gone);
  return true;
}

void SimulatedDriver::wait(const memory::Event& event) {
  const Outstanding& outstanding = events_[static_cast<std::size_t>(event.ticket - first_ticket_)];
  clock_.cpu = std::max(clock_.cpu, outstanding.when);
  (void)event_reached(event);
}

void SimulatedDriver::save_state(std::vector<std::int64_t>& out, Time origin) const {
  // Reached events in the middle still number the others; times gone by are all alike.
  out.push_back(static_cast<std::int64_t>(events_.size()));
  for (const Outstanding& e : events_)
    out.push_back(e.reached ? -1 : std::max(e.when, clock_.cpu).ps - origin.ps);
}

void SimulatedDriver::shift(Duration by) {
  for (Outstanding& e : events_) e.when = e.when + by;
}

Place resolve(const workload::Program& program, const Position& position) {
  Place place;
  place.step = position.step;
  if (position.passes == nullptr) return place;
  const workload::Pass& pass = (*position.passes)[position.pass];
  const workload::Template& pattern = program.templates[pass.pattern];
  const workload::Call& call = pattern.calls[position.call];
  const workload::Block& block = program.blocks[call.block];
  place.microbatch = pass.microbatch;
  place.pass = pattern.kind;
  place.chunk = pattern.chunk;
  place.layer = call.layer;
  place.block = block.name;
  place.label = program.labels[block.code[position.instruction].label];
  return place;
}

RankMemory::RankMemory(const workload::Program& program, Clock& clock, Bytes capacity,
                       DriverCosts costs, const memory::Options& options)
    : program_(program),
      clock_(clock),
      capacity_(capacity),
      driver_(clock, capacity, costs),
      allocator_(driver_, options) {
  const std::size_t slots = frame_slot(program.frames);
  blocks_.assign(slots, memory::no_block);
  categories_.assign(slots, 0);
  recorded_.assign(slots, 0);
}

void RankMemory::allocate(std::uint32_t slot, const Instruction& i, const Position& position) {
  assert(blocks_[slot] == memory::no_block);
  memory::BlockId block = allocator_.allocate(i.value, static_cast<int>(i.stream));
  if (block == memory::no_block) {
    out_of_memory(i, position);
    driver_.lift_limit();
    block = allocator_.allocate(i.value, static_cast<int>(i.stream));
    assert(block != memory::no_block);
  }
  blocks_[slot] = block;
  categories_[slot] = static_cast<std::uint8_t>(i.category);
  recorded_[slot] = 0;
  split_[static_cast<std::size_t>(i.category)] += allocator_.size(block);
  if (allocated() > peak_) note_peak(position);
}

void RankMemory::note_peak(const Position& position) {
  peak_ = allocated();
  peak_split_ = split_;
  peak_position_ = position;
  reserved_at_peak_ = reserved();
}

void RankMemory::out_of_memory(const Instruction& i, const Position& position) {
  assert(!out_of_memory_);
  const memory::OutOfMemory& last = allocator_.last_out_of_memory();
  OutOfMemory event;
  event.stage = program_.stage;
  event.cp_rank = program_.cp_rank;
  event.when = clock_.cpu;
  event.place = resolve(program_, position);
  event.requested = {i.value};
  event.segment = {last.segment};
  event.device_free = {last.device_free};
  event.allocated = {allocated()};
  event.reserved = {reserved()};
  event.largest_free_block = allocator_.largest_free_block();
  event.split = split_;
  event.retries = static_cast<int>(allocator_.statistics().num_alloc_retries);
  event.fragmentation_alone = reserved() - allocated() + last.device_free >= last.segment;
  out_of_memory_ = std::move(event);
}

void RankMemory::free(std::uint32_t slot, bool maybe) {
  const memory::BlockId block = blocks_[slot];
  if (block == memory::no_block) {
    assert(maybe);
    return;
  }
  split_[categories_[slot]] -= allocator_.size(block);
  allocator_.free(block);
  blocks_[slot] = memory::no_block;
}

void RankMemory::move(std::uint32_t from, std::uint32_t to) {
  assert(blocks_[from] != memory::no_block);
  assert(blocks_[to] == memory::no_block);
  std::swap(blocks_[from], blocks_[to]);
  categories_[to] = categories_[from];
  recorded_[to] = recorded_[from];
}

void RankMemory::record_stream(std::uint32_t slot, workload::Stream stream) {
  assert(blocks_[slot] != memory::no_block);
  recorded_[slot] |= 1u << static_cast<unsigned>(stream);
  allocator_.record_stream(blocks_[slot], static_cast<int>(stream));
}

void RankMemory::save_state(std::vector<std::int64_t>& out, std::span<const std::uint32_t> frames,
                            Time origin) const {
  allocator_.save_state(out);
  driver_.save_state(out, origin);
  const auto add = [&](std::uint32_t begin, std::uint32_t count) {
    for (std::uint32_t s = begin; s < begin + count; ++s)
      out.push_back(blocks_[s] == memory::no_block ? -1 : allocator_.address(blocks_[s]));
  };
  add(0, program_.fixed_slots);
  out.push_back(static_cast<std::int64_t>(frames.size()));
  for (const std::uint32_t frame : frames) add(frame_slot(frame), program_.frame_slots);
}

void RankMemory::renumber_frames(std::span<const std::uint32_t> from,
                                 std::span<const std::uint32_t> to) {
  assert(from.size() == to.size());
  const std::size_t n = program_.frame_slots;
  std::vector<memory::BlockId> blocks;
  std::vector<std::uint8_t> categories;
  std::vector<std::uint32_t> recorded;
  const auto at = [](auto& v, std::uint32_t slot) {
    return v.begin() + static_cast<std::ptrdiff_t>(slot);
  };
  const auto count = static_cast<std::ptrdiff_t>(n);
  for (const std::uint32_t frame : from) {
    const auto begin = at(blocks_, frame_slot(frame));
    blocks.insert(blocks.end(), begin, begin + count);
    std::fill(begin, begin + count, memory::no_block);
    const auto kinds = at(categories_, frame_slot(frame));
    categories.insert(categories.end(), kinds, kinds + count);
    const auto streams = at(recorded_, frame_slot(frame));
    recorded.insert(recorded.end(), streams, streams + count);
  }
  for (std::size_t i = 0; i < to.size(); ++i) {
    const auto offset = static_cast<std::ptrdiff_t>(i * n);
    std::copy_n(blocks.begin() + offset, count, at(blocks_, frame_slot(to[i])));
    std::copy_n(categories.begin() + offset, count, at(categories_, frame_slot(to[i])));
    std::copy_n(recorded.begin() + offset, count, at(recorded_, frame_slot(to[i])));
  }
}

void RankMemory::mark_static() {
  static_bytes_ = allocated();
}

void RankMemory::report(ClassReport& report) const {
  const memory::PoolStatistics& all = allocator_.statistics().all;
  report.capacity = capacity_;
  report.static_bytes = {static_bytes_};
  report.peak_allocated = {all.allocated_bytes.peak};
  report.peak_reserved = {all.reserved_bytes.peak};
  report.peak_active = {all.active_bytes.peak};
  report.peak_place = resolve(program_, peak_position_);
  report.peak_split = peak_split_;
  report.reserved_at_peak = {reserved_at_peak_};
  report.alloc_retries = static_cast<int>(allocator_.statistics().num_alloc_retries);
  report.out_of_memory = out_of_memory_;
}

}  // namespace sim::replay
