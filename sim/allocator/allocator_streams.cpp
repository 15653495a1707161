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
    if (streams_.unused_uses.empty()) {
      uses_of.uses = static_cast<std::int32_t>(streams_.uses.size());
      streams_.uses.emplace_back();
    } else {
      uses_of.uses = streams_.unused_uses.back();
      streams_.unused_uses.pop_back();
    }
  }
  std::vector<StreamUse>& uses = streams_.uses[static_cast<std::size_t>(past(id).uses)];
  auto place = std::lower_bound(uses.begin(), uses.end(), stream,
                                [](const StreamUse& use, int s) { return use.stream < s; });
  if (place == uses.end() || place->stream != stream) place = uses.insert(place, {stream, false});
  if (!captures_.open.empty()) place->in_capture = true;
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
  auto place = std::find_if(streams_.queues.begin(), streams_.queues.end(),
                            [&](const EventQueue& queue) { return queue.stream >= stream; });
  if (place == streams_.queues.end() || place->stream != stream) {
    place = streams_.queues.insert(place, EventQueue{});
    place->stream = stream;
  }
  return *place;
}

// Records one event on each stream that used the block.
void Allocator::record_events(BlockId id) {
  Block& block = at(id);
  std::vector<StreamUse>& uses = streams_.uses[static_cast<std::size_t>(past(id).uses)];
  for (const StreamUse& use : uses) {
    const Event event = driver_->record_event(use.stream);
    streams_.soonest = std::min(streams_.soonest, event.ticket);
    queue_of(use.stream).push(event, id);
    ++block.events;
  }
  uses.clear();
  streams_.unused_uses.push_back(past(id).uses);
  block.used = false;
}

void Allocator::free_behind(BlockId id, std::span<const Event> events) {
  Block& block = at(id);
  assert(block.allocated && !block.used && captures_.open.empty());
  block.allocated = false;
  record_.statistics.all.allocated_bytes.down(block.size);
  for (const Event& event : events) {
    streams_.soonest = std::min(streams_.soonest, event.ticket);
    queue_of(event.stream).push(event, id);
    ++block.events;
  }
  streams_.pending = true;
  if (events.empty()) complete(id);
}

// After a capture: its own uses are over, the uses recorded before it get their events now.
void Allocator::record_deferred() {
  for (const BlockId id : streams_.deferred) {
    auto& uses = streams_.uses[static_cast<std::size_t>(past(id).uses)];
    std::erase_if(uses, [](const StreamUse& use) { return use.in_capture; });
    record_events(id);
    if (at(id).events == 0) complete(id);
  }
  streams_.deferred.clear();
}

void Allocator::process_events() {
  if (!streams_.deferred.empty()) record_deferred();
  streams_.pending = false;
  streams_.soonest = INT64_MAX;
  for (EventQueue& queue : streams_.queues) {
    while (!queue.empty() && driver_->event_reached(queue.waiting[queue.head].first)) {
      const BlockId id = queue.waiting[queue.head].second;
      queue.pop();
      finish_event(id);
    }
    if (queue.empty()) continue;
    streams_.pending = true;
    streams_.soonest = std::min(streams_.soonest, queue.waiting[queue.head].first.ticket);
  }
}

void Allocator::synchronize_and_free() {
  ++record_.statistics.num_sync_all_streams;
  record_deferred();
  for (EventQueue& queue : streams_.queues) {
    while (!queue.empty()) {
      const auto [event, id] = queue.waiting[queue.head];
      queue.pop();
      driver_->wait(event);
      finish_event(id);
    }
  }
  streams_.pending = false;
}

void Allocator::finish_event(BlockId id) {
  if (--at(id).events == 0) complete(id);
}

Allocator::PrivatePool& Allocator::private_pool(int number, const PoolOptions& options) {
  assert(number > 0);
  auto [it, fresh] = captures_.pools.try_emplace(number);
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
  captures_.open.push_back(number);
}

void Allocator::end_pool(int number) {
  const auto region = std::find(captures_.open.begin(), captures_.open.end(), number);
  assert(region != captures_.open.end());
  captures_.open.erase(region);
}

void Allocator::release_pool(int number) {
  const auto it = captures_.pools.find(number);
  assert(it != captures_.pools.end());
  assert(it->second.users > 0);
  --it->second.users;
}

}  // namespace sim::allocator
