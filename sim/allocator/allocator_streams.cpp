// allocator_streams.cpp — freed blocks that other streams still use, and private pools.
//
// A freed block that was recorded on other streams waits for an event on each of them. While a
// private pool is open (a CUDA graph capture), no event may be queried. Blocks freed in that time
// are deferred until it ends.
#include <algorithm>
#include <cassert>

#include "sim/allocator/allocator.h"

namespace sim::allocator {

void Allocator::record_stream(BlockId id, int stream) {
  Block& block = at(id);
  assert(block.allocated);
  if (stream == sub_pool(block.sub_pool).stream) return;
  Past& uses_of = past(id);
  if (!block.used) {
    block.used = true;
    if (unused_stream_uses_.empty()) {
      uses_of.uses = static_cast<std::int32_t>(stream_uses_.size());
      stream_uses_.emplace_back();
    } else {
      uses_of.uses = unused_stream_uses_.back();
      unused_stream_uses_.pop_back();
    }
  }
  std::vector<StreamUse>& uses = stream_uses_[static_cast<std::size_t>(past(id).uses)];
  auto place = std::lower_bound(uses.begin(), uses.end(), stream,
                                [](const StreamUse& use, int s) { return use.stream < s; });
  if (place == uses.end() || place->stream != stream) place = uses.insert(place, {stream, false});
  if (!open_regions_.empty()) place->in_capture = true;
}

void Allocator::EventQueue::push(const Event& event, BlockId id) {
  if (head >= 64 && head * 2 >= waiting.size()) {  // drop the entries that are reached
    waiting.erase(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(head));
    head = 0;
  }
  waiting.emplace_back(event, id);
}

void Allocator::EventQueue::pop() {
  if (++head < waiting.size()) return;
  head = 0;
  waiting.clear();
}

Allocator::EventQueue& Allocator::queue_of(int stream) {
  auto place = std::find_if(queues_.begin(), queues_.end(),
                            [&](const EventQueue& queue) { return queue.stream >= stream; });
  if (place == queues_.end() || place->stream != stream) {
    place = queues_.insert(place, EventQueue{});
    place->stream = stream;
  }
  return *place;
}

// Records one event on each stream that used the block.
void Allocator::record_events(BlockId id) {
  Block& block = at(id);
  std::vector<StreamUse>& uses = stream_uses_[static_cast<std::size_t>(past(id).uses)];
  for (const StreamUse& use : uses) {
    const Event event = driver_->record_event(use.stream);
    soonest_ = std::min(soonest_, event.ticket);
    queue_of(use.stream).push(event, id);
    ++block.events;
  }
  uses.clear();
  unused_stream_uses_.push_back(past(id).uses);
  block.used = false;
}

void Allocator::free_behind(BlockId id, std::span<const Event> events) {
  Block& block = at(id);
  assert(block.allocated && !block.used && open_regions_.empty());
  block.allocated = false;
  statistics_.all.allocated_bytes.down(block.size);
  for (const Event& event : events) {
    soonest_ = std::min(soonest_, event.ticket);
    queue_of(event.stream).push(event, id);
    ++block.events;
  }
  pending_ = true;
  if (events.empty()) complete(id);
}

// After a capture: its own uses are over, the uses recorded before it get their events now.
void Allocator::record_deferred() {
  for (const BlockId id : deferred_) {
    auto& uses = stream_uses_[static_cast<std::size_t>(past(id).uses)];
    std::erase_if(uses, [](const StreamUse& use) { return use.in_capture; });
    record_events(id);
    if (at(id).events == 0) complete(id);
  }
  deferred_.clear();
}

void Allocator::process_events() {
  if (!deferred_.empty()) record_deferred();
  pending_ = false;
  soonest_ = INT64_MAX;
  for (EventQueue& queue : queues_) {
    while (!queue.empty() && driver_->event_reached(queue.waiting[queue.head].first)) {
      const BlockId id = queue.waiting[queue.head].second;
      queue.pop();
      finish_event(id);
    }
    if (queue.empty()) continue;
    pending_ = true;
    soonest_ = std::min(soonest_, queue.waiting[queue.head].first.ticket);
  }
}

void Allocator::synchronize_and_free() {
  ++statistics_.num_sync_all_streams;
  record_deferred();
  for (EventQueue& queue : queues_) {
    while (!queue.empty()) {
      const auto [event, id] = queue.waiting[queue.head];
      queue.pop();
      driver_->wait(event);
      finish_event(id);
    }
  }
  pending_ = false;
}

void Allocator::finish_event(BlockId id) {
  if (--at(id).events == 0) complete(id);
}

Allocator::PrivatePool& Allocator::private_pool(int number, const PoolOptions& options) {
  assert(number > 0);
  auto [it, fresh] = private_pools_.try_emplace(number);
  PrivatePool& own = it->second;
  if (!fresh) return own;
  for (const bool small : {true, false}) {
    (small ? own.small : own.large) = static_cast<std::int32_t>(pools_.size());
    Pool& pool = pools_.emplace_back();
    pool.number = number;
    pool.small = small;
    pool.no_split = options.no_split && rules_ == Rules::newer;
    pool.user_allocator = options.user_allocator;
  }
  own.use_on_oom = options.use_on_oom;
  return own;
}

void Allocator::begin_pool(int number, PoolOptions options) {
  ++private_pool(number, options).users;
  open_regions_.push_back(number);
}

void Allocator::end_pool(int number) {
  const auto region = std::find(open_regions_.begin(), open_regions_.end(), number);
  assert(region != open_regions_.end());
  open_regions_.erase(region);
}

void Allocator::release_pool(int number) {
  const auto it = private_pools_.find(number);
  assert(it != private_pools_.end());
  assert(it->second.users > 0);
  --it->second.users;
}

int Allocator::users_of(int number) const {
  const auto it = private_pools_.find(number);
  return it == private_pools_.end() ? 0 : it->second.users;
}

}  // namespace sim::allocator
