#include "sim/engine/rank/rank_memory.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "sim/engine/rank/queues.h"

namespace sim::engine {

using program::Category;
using program::Instruction;

bool TimedDriver::take(std::int64_t bytes) {
  if (!account_.unlimited && account_.used + bytes > capacity_) return false;
  account_.used += bytes;
  return true;
}

std::optional<std::int64_t> TimedDriver::cuda_malloc(Bytes size) {
  ++account_.calls;
  pass(costs_.malloc + Duration{costs_.malloc_per_gib.ps / 1024 * (size.n >> 20)});
  if (!take(size.n)) return std::nullopt;
  return *reserve_addresses(size);
}

void TimedDriver::cuda_free(std::int64_t, Bytes size) {
  ++account_.calls;  // cudaFree waits for the whole device
  pass_when_idle(costs_.free);
  account_.used -= size.n;
}

std::optional<std::int64_t> TimedDriver::reserve_addresses(Bytes size) {
  constexpr std::int64_t step = std::int64_t{2} << 20;
  const std::int64_t address = account_.next_address;
  account_.next_address += (size.n + step - 1) / step * step;
  return address;
}

bool TimedDriver::map(std::int64_t, Bytes size) {
  ++account_.calls;
  pass(costs_.malloc);
  return take(size.n);
}

void TimedDriver::unmap(int, std::int64_t, Bytes size) {
  // Unmapping waits for its stream. The other streams of a training rank depend on that stream.
  ++account_.calls;
  pass_when_idle(costs_.free);
  account_.used -= size.n;
}

ProgramLocation resolve(const program::Program& program, const Position& position) {
  ProgramLocation place;
  place.step = position.step;
  if (position.passes == nullptr) return place;
  const program::Pass& pass = (*position.passes)[position.pass];
  const program::Template& pattern = program.templates[pass.pattern];
  const program::Call& call = pattern.calls[position.call];
  const program::Block& block = program.blocks[call.block];
  place.microbatch = pass.microbatch;
  place.pass = pattern.kind;
  place.chunk = pattern.chunk;
  place.layer = call.layer;
  place.block = block.name;
  place.label = program.labels[block.code[position.instruction].label];
  return place;
}

RankMemory::RankMemory(const program::Program& program, TimedDriver& driver,
                       const allocator::Options& options)
    : program_(program), driver_(driver), allocator_(driver, options) {
  const std::size_t slots = frame_slot(program.frames);
  slots_.assign(slots, {});
  allocator_.set_detailed_statistics(false);
}

void RankMemory::watch(Observer& observer, int rank_class) {
  observer_ = &observer;
  rank_class_ = rank_class;
  allocator_.set_trace(&trace_);
  allocator_.set_detailed_statistics(true);
}

void RankMemory::tell(Category category, std::int64_t delta, std::int64_t address,
                      const Position& position) {
  const ProgramLocation place = resolve(program_, position);
  observer_->memory({rank_class_,
                     driver_.cpu(),
                     category,
                     delta,
                     address,
                     delta > 0 ? std::string_view(place.label) : std::string_view(),
                     place,
                     {allocated()},
                     {reserved()},
                     trace_});
  trace_.clear();
}

void RankMemory::tell_state(bool out_of_memory) {
  observer_->memory_state({rank_class_, driver_.cpu(), out_of_memory, allocator_, trace_});
  trace_.clear();
}

void RankMemory::allocate(std::uint32_t slot, const Instruction& i, const Position& position) {
  assert(!full(slot) && row(i.stream).owns_memory);
  allocator::BlockId block = allocator_.allocate(i.value, static_cast<int>(i.stream));
  if (block == allocator::no_block) {
    out_of_memory(i, position);
    if (observer_ != nullptr) tell_state(true);
    driver_.lift_limit();
    lift_limits();
    block = allocator_.allocate(i.value, static_cast<int>(i.stream));
    assert(block != allocator::no_block);
  }
  slots_[slot] = {block, i.category, 0};
  split_[static_cast<std::size_t>(i.category)] += allocator_.size(block);
  if (allocated() > peak_.allocated) note_peak(position);
  if (observer_ == nullptr) return;
  tell(i.category, allocator_.size(block), allocator_.address(block), position);
}

// Lifts the limits of the user's options, so that the run shows how much memory it needs.
void RankMemory::lift_limits() {
  allocator::Options options = allocator_.options();
  options.per_process_memory_fraction = 1;
  options.expandable_reserve_fraction = 0;
  options.expandable_reserve_bytes = 0;
  allocator_.set_options(options);
  allocator_.set_memory_fraction(1);
}

void RankMemory::note_peak(const Position& position) {
  peak_ = {allocated(), reserved(), allocator_.largest_free_block().n, split_, position};
}

namespace {
// Counts the free bytes by place: available to the request, elsewhere, or waiting for a stream.
void note_free(const allocator::Allocator& allocator, const allocator::OutOfMemory& last,
               OutOfMemory& event) {
  const bool small = last.rounded <= allocator::small_size;
  for (const allocator::SegmentView& segment : allocator.segments()) {
    const bool own = segment.stream == last.stream && segment.small == small;
    for (const allocator::BlockView& block : segment.blocks) {
      if (block.state == allocator::BlockState::active_pending_free)
        event.pending += Bytes{block.size};
      if (block.state != allocator::BlockState::inactive) continue;
      (own ? event.cached : event.cached_elsewhere) += Bytes{block.size};
      if (own) event.largest_free_block = std::max(event.largest_free_block, Bytes{block.size});
    }
  }
}
}  // namespace

void RankMemory::out_of_memory(const Instruction& i, const Position& position) {
  assert(!out_of_memory_);
  const allocator::OutOfMemory& last = allocator_.last_out_of_memory();
  OutOfMemory event;
  event.stage = program_.stage;
  event.cp_rank = program_.cp_rank;
  event.when = driver_.cpu();
  event.place = resolve(program_, position);
  event.requested = {i.value};
  event.segment = {last.segment};
  event.device_free = {last.device_free};
  event.allocated = {allocated()};
  event.reserved = {reserved()};
  note_free(allocator_, last, event);
  event.split = split_;
  event.retries = static_cast<int>(allocator_.statistics().num_alloc_retries);
  event.request_fits_contiguous = event.cached.n + last.device_free >= last.rounded;
  out_of_memory_ = std::move(event);
}

bool RankMemory::may_wait(std::int64_t bytes, program::Stream stream) {
  const std::int64_t left = std::min(driver_.free_memory().n, allocator_.left_below_limit());
  const bool enough = left >= allocator_.most_from_driver(bytes);
  if (enough && !allocator_.collects_garbage()) return false;
  allocator_.poll();
  return !allocator_.serves(bytes, static_cast<int>(stream));
}

void RankMemory::free(std::uint32_t slot, bool maybe, const Position* position) {
  const allocator::BlockId block = slots_[slot].block;
  if (block == allocator::no_block) {
    assert(maybe);
    return;
  }
  const std::int64_t size = allocator_.size(block);
  const std::int64_t address = allocator_.address(block);
  split_[static_cast<std::size_t>(category(slot))] -= size;
  allocator_.free(block);
  slots_[slot].block = allocator::no_block;
  if (observer_ == nullptr) return;
  assert(position != nullptr);
  tell(category(slot), -size, address, *position);
}

void RankMemory::move(std::uint32_t from, std::uint32_t to) {
  assert(full(from));
  assert(!full(to));
  slots_[to] = slots_[from];
  slots_[from].block = allocator::no_block;
}

void RankMemory::record_stream(std::uint32_t slot, program::Stream stream) {
  assert(full(slot));
  slots_[slot].recorded |= program::bit_of(stream);
  allocator_.record_stream(slots_[slot].block, static_cast<int>(stream));
}

bool RankMemory::room_for(std::span<const RoomNeeded> rooms, std::int64_t tensors) const {
  const allocator::PoolStatistics& all = allocator_.statistics().all;
  // A block up to 1 MiB larger than the request is not split: each tensor may take that much more.
  std::int64_t most = tensors * allocator::small_size;
  for (const RoomNeeded& room : rooms) {
    if (room.large > 0 && allocator_.largest_free_block(room.stream).n < room.large) return false;
    if (room.small > 0 && allocator_.largest_free_block(room.stream, true).n < room.small)
      return false;
    most += room.large + room.small;
  }
  return all.allocated_bytes.current + most <= all.allocated_bytes.peak &&
         all.active_bytes.current + most <= all.active_bytes.peak;
}

void RankMemory::save_state(std::vector<std::int64_t>& out, std::span<const std::uint32_t> frames,
                            Time origin) const {
  const std::vector<std::int32_t> numbers = allocator_.save_state(out);
  allocator_.visit_events(
      [&](const allocator::Event& event) { out.push_back(driver_.relative(event, origin)); });
  const auto add = [&](std::uint32_t begin, std::uint32_t count) {
    for (std::uint32_t s = begin; s < begin + count; ++s)
      out.push_back(full(s) ? numbers[static_cast<std::size_t>(slots_[s].block)] : -1);
  };
  add(0, program_.fixed_slots);
  out.push_back(static_cast<std::int64_t>(frames.size()));
  for (const std::uint32_t frame : frames) add(frame_slot(frame), program_.frame_slots);
}

void RankMemory::shift_events(Duration by, std::int64_t later) {
  allocator_.visit_events([&](allocator::Event& event) {
    if (event.ticket < later) event.ticket += by.ps;
  });
}

std::int64_t RankMemory::set_events(std::int64_t ticket, std::int64_t now) {
  std::int64_t count = 0;
  allocator_.visit_events([&](allocator::Event& event) {
    if (event.ticket != ticket) return;
    event.ticket = now;
    ++count;
  });
  return count;
}

std::int64_t RankMemory::events_from(std::int64_t later) const {
  std::int64_t count = 0;
  allocator_.visit_events([&](const allocator::Event& event) { count += event.ticket >= later; });
  return count;
}

void RankMemory::renumber_frames(std::span<const std::uint32_t> from,
                                 std::span<const std::uint32_t> to) {
  assert(from.size() == to.size());
  const auto frame = [&](std::uint32_t number) {
    return slots_.begin() + static_cast<std::ptrdiff_t>(frame_slot(number));
  };
  const auto count = static_cast<std::ptrdiff_t>(program_.frame_slots);
  std::vector<TensorSlot> held;
  for (const std::uint32_t number : from) {
    held.insert(held.end(), frame(number), frame(number) + count);
    std::fill_n(frame(number), count, TensorSlot{});
  }
  auto next = held.begin();
  for (const std::uint32_t number : to) {
    std::copy_n(next, count, frame(number));
    next += count;
  }
}

void RankMemory::rebuild(const Layout& layout) {
  std::vector<allocator::BlockId> blocks;
  allocator_.rebuild(layout.segments, blocks);
  for (TensorSlot& slot : slots_) slot.block = allocator::no_block;
  split_ = {};
  for (const Layout::Tensor& tensor : layout.tensors) {
    const allocator::BlockId block = blocks[tensor.piece];
    slots_[tensor.slot] = {block, tensor.category, tensor.recorded};
    split_[static_cast<std::size_t>(tensor.category)] += allocator_.size(block);
    for (int s = 0; tensor.recorded >> s; ++s)
      if (tensor.recorded >> s & 1) allocator_.record_stream(block, s);
  }
  for (const Layout::Waiting& waiting : layout.waiting)
    allocator_.free_behind(blocks[waiting.piece], waiting.events);
}

RankMemory::Retained RankMemory::keep() const {
  return {allocator_, slots_, split_, driver_.account(), peak_, out_of_memory_};
}

void RankMemory::restore(const Retained& kept) {
  allocator_ = kept.allocator;
  slots_ = kept.slots;
  split_ = kept.split;
  driver_.restore(kept.account);
  peak_ = kept.peak;
  out_of_memory_ = kept.out_of_memory;
}

namespace {
// Bytes of optimizer state that the first step creates and keeps.
std::int64_t optimizer_state(const program::Program& program) {
  std::int64_t bytes = 0;
  for (const program::Pass& pass : program.first_step)
    for (const program::Call& call : program.templates[pass.pattern].calls)
      for (const Instruction& i : program.blocks[call.block].code)
        if (i.op == program::Op::alloc && i.category == Category::optimizer)
          bytes += allocator::whole_blocks(i.value);
  return bytes;
}
}  // namespace

void RankMemory::end_step(int step) {
  if (step == 1) static_bytes_ = allocated();
  step_retries_ = retries() - retries_before_;
  retries_before_ = retries();
}

void RankMemory::report(ClassReport& report) {
  if (observer_ != nullptr) tell_state(false);
  const allocator::PoolStatistics& all = allocator_.statistics().all;
  report.capacity = driver_.capacity();
  report.static_bytes = {static_bytes_};
  report.peak_allocated = {all.allocated_bytes.peak};
  report.peak_reserved = {all.reserved_bytes.peak};
  report.peak_active = {all.active_bytes.peak};
  report.peak_place = resolve(program_, peak_.position);
  report.peak_split = peak_.split;
  report.reserved_at_peak = {peak_.reserved};
  report.largest_free_at_peak = {peak_.largest_free};
  report.alloc_retries = static_cast<int>(allocator_.statistics().num_alloc_retries);
  report.step_retries = static_cast<int>(step_retries_);
  report.out_of_memory = out_of_memory_;
  report.needed = report.peak_allocated;
  if (!out_of_memory_) return;
  // The replay may have stopped before the program made the optimizer state.
  const auto held = [&](const Split& split, Category category) {
    return split[static_cast<std::size_t>(category)];
  };
  const std::int64_t optimizer = optimizer_state(program_);
  if (held(split_, Category::optimizer) == 0) report.needed += Bytes{optimizer};
  report.static_bytes = {optimizer};
  for (const Category category :
       {Category::weights, Category::gradients, Category::master_weights, Category::other})
    report.static_bytes += Bytes{held(split_, category)};
  report.out_of_memory->fragmentation_alone =
      out_of_memory_->request_fits_contiguous && report.needed <= report.capacity;
}

}  // namespace sim::engine
