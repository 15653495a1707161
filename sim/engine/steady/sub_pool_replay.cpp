#include "sim/engine/steady/sub_pool_replay.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <tuple>

namespace sim::engine {

using allocator::NodeId;
using allocator::SubPoolCode;
using allocator::SubPoolMachine;
using allocator::SubPoolStep;
using allocator::whole_blocks;

// The state of the allocator at the take-over.
struct SubPoolReplay::Found {
  struct Block {
    allocator::BlockId id = allocator::no_block;
    std::int64_t address = 0, size = 0;
    bool free = false, begins = false;  // begins: the first of its segment
  };
  struct SubPool {
    std::vector<Block> blocks;
    SubPoolMachine::Slack slack;
  };
  std::vector<Name> names;  // of sub-pools
  std::vector<SubPool> sub_pools;
  std::int64_t slack_allocated = 0, slack_active = 0;
  std::vector<allocator::BlockId> waiting;  // by facts_.waits

  std::size_t sub_pool(const Name& name) {
    const auto known = std::ranges::find(names, name);
    const auto number = static_cast<std::size_t>(known - names.begin());
    if (known != names.end()) return number;
    names.push_back(name);
    sub_pools.emplace_back();
    return number;
  }
};

struct SubPoolReplay::Filled {
  std::vector<Own> sub_pools;
  std::vector<BlockLocation> places;  // of occupied blocks, by their ids in the allocator
  std::size_t occupied = 0;
};

SubPoolReplay::SubPoolReplay(CycleTrace trace, std::int64_t from, std::int64_t length,
                             std::int64_t cut)
    : trace_(std::move(trace)), from_(from), length_(length), cut_(cut) {
  for (const CycleTrace::Tensor& tensor : trace_.tensors)
    facts_.bytes.push_back(whole_blocks(tensor.bytes));
  for (std::size_t t = 0; t < trace_.tensors.size(); ++t)
    if (std::ranges::find(facts_.names, name_of(t)) == facts_.names.end())
      facts_.names.push_back(name_of(t));
  facts_.freed_at.resize(trace_.tensors.size());
  for (std::size_t e = 0; e < trace_.events.size(); ++e)
    if (!trace_.events[e].places)
      facts_.freed_at[static_cast<std::size_t>(trace_.events[e].tensor)] = e;
  for (const CycleTrace::Event& event : trace_.events) {
    if (!event.places) continue;
    facts_.places.push_back(static_cast<std::size_t>(&event - trace_.events.data()));
  }
  for (std::size_t t = 0; t < trace_.tensors.size(); ++t) {
    facts_.releases.push_back(release_of(t));
    if (!trace_.tensors[t].waits.empty()) facts_.released.push_back(t);
  }
  std::ranges::stable_sort(facts_.released, {},
                           [&](std::size_t t) { return facts_.releases[t].event; });
  facts_.waits = find_waits();
  facts_.slack_in_groups = slack_in_groups();
  find_heights();
}

SubPoolReplay::Name SubPoolReplay::name_of(std::size_t tensor) const {
  return {static_cast<int>(trace_.tensors[tensor].stream),
          facts_.bytes[tensor] <= allocator::small_size};
}

void SubPoolReplay::start_from(std::int64_t cycle) {
  assert(!on());
  from_ = cycle;
  trace_.cycles = 0;
  limits_.slack_room = first_slack_room;
}

// Released blocks return to the pool at the next allocation, and at the begin of a cycle.
SubPoolReplay::Release SubPoolReplay::release_of(std::size_t tensor) const {
  std::int64_t when = INT64_MIN;
  for (const auto& [stream, end] : trace_.tensors[tensor].waits) when = std::max(when, end);
  const std::size_t behind = facts_.freed_at[tensor] + 1, end = trace_.events.size();
  if (when == INT64_MIN) return {behind, 0};
  auto first = std::ranges::lower_bound(facts_.places, behind);
  for (int cycles = 0;; ++cycles) {
    const auto place = std::lower_bound(
        first, facts_.places.end(), when,
        [&](std::size_t event, std::int64_t t) { return trace_.events[event].when < t; });
    if (place != facts_.places.end()) return {*place, cycles};
    if (cut_ + length_ >= when) return {end, cycles};
    first = facts_.places.begin();
    when -= length_;
  }
}

// Tensors that wait for streams between two cycles, in the order of their frees.
std::vector<SubPoolReplay::Waiting> SubPoolReplay::find_waits() const {
  std::vector<Waiting> all;
  for (const CycleTrace::Event& event : trace_.events) {
    if (event.places) continue;
    const auto t = static_cast<std::size_t>(event.tensor);
    for (int ago = 1; ago <= facts_.releases[t].cycles; ++ago)
      all.push_back({event.tensor, trace_.tensors[t].lives + ago, ago});
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Waiting& a, const Waiting& b) { return a.freed_ago > b.freed_ago; });
  return all;
}

bool SubPoolReplay::find_sub_pools(const RankState& r, Found& found) const {
  constexpr std::size_t most_blocks = 1 << 20;
  bool plain = r.memory.allocator().ids() < most_blocks, begins = false;
  std::size_t sub_pool = 0;
  r.memory.allocator().visit_segments(
      [&](const allocator::SegmentView& segment) {
        plain &= !segment.expandable && segment.pool == 0;
        sub_pool = found.sub_pool({segment.stream, segment.small});
        begins = true;
      },
      [&](const allocator::BlockView& block) {
        const bool free = block.state == allocator::BlockState::inactive;
        Found::SubPool& own = found.sub_pools[sub_pool];
        own.blocks.push_back({block.id, block.address, block.size, free, begins});
        begins = false;
        if (free) return;
        const std::int64_t slack = block.size - whole_blocks(block.requested);
        own.slack.active += slack;
        if (block.state == allocator::BlockState::active_allocated) own.slack.allocated += slack;
      });
  for (const Found::SubPool& own : found.sub_pools) {
    found.slack_allocated += own.slack.allocated;
    found.slack_active += own.slack.active;
  }
  for (const Name& name : facts_.names) found.sub_pool(name);
  return plain;
}

// Finds the waiting blocks: each stream's queue in the allocator is the tail of the list of blocks
// that wait for it.
bool SubPoolReplay::find_waiting(const RankState& r, Time begin, Found& found) const {
  std::map<int, std::vector<std::pair<std::int64_t, allocator::BlockId>>>
      waiting;  // with the ticket
  r.memory.allocator().visit_waiting([&](const allocator::Event& event, allocator::BlockId block) {
    waiting[event.stream].emplace_back(event.ticket, block);
  });
  found.waiting.assign(facts_.waits.size(), allocator::no_block);
  for (std::size_t n = facts_.waits.size(); n-- > 0;) {
    const Waiting& w = facts_.waits[n];
    allocator::BlockId& block = found.waiting[n];
    for (const auto& [stream, end] : trace_.tensors[static_cast<std::size_t>(w.tensor)].waits) {
      auto& queue = waiting[stream];
      const std::int64_t ticket = begin.ps + end - w.freed_ago * length_;
      if (queue.empty() || queue.back().first != ticket) continue;
      if (block != allocator::no_block && block != queue.back().second) return false;
      block = queue.back().second;
      queue.pop_back();
    }
    if (block == allocator::no_block) return false;
  }
  return std::ranges::all_of(waiting, [](const auto& queue) { return queue.second.empty(); });
}

// Computes the bytes at each allocation of a cycle.
void SubPoolReplay::find_heights() {
  Height now;
  auto released = facts_.released.begin();
  for (std::size_t e = 0; e <= trace_.events.size(); ++e) {
    for (; released != facts_.released.end() && facts_.releases[*released].event == e; ++released)
      now.active -= facts_.bytes[*released];
    if (e == trace_.events.size()) break;
    const CycleTrace::Event& event = trace_.events[e];
    const auto tensor = static_cast<std::size_t>(event.tensor);
    if (!event.places) {
      now.allocated -= facts_.bytes[tensor];
      if (trace_.tensors[tensor].waits.empty()) now.active -= facts_.bytes[tensor];
      continue;
    }
    now.allocated += facts_.bytes[tensor];
    now.active += facts_.bytes[tensor];
    facts_.heights.push_back({e, now.allocated, now.active});
    facts_.highest.allocated = std::max(facts_.highest.allocated, now.allocated);
    facts_.highest.active = std::max(facts_.highest.active, now.active);
  }
  facts_.repeats = now.allocated == 0 && now.active == 0;
}

// Finds the allocations so close to a peak that the slack decides.
void SubPoolReplay::find_critical(const RankState& r, const Found& found) {
  const allocator::PoolStatistics& all = r.memory.allocator().statistics().all;
  limits_.peak_allocated = r.memory.peak_allocated();
  limits_.peak_active = all.active_bytes.peak;
  limits_.slack_most = 2 * std::max(found.slack_allocated, found.slack_active) + limits_.slack_room;
  const std::int64_t room = limits_.slack_most + facts_.slack_in_groups;
  const std::int64_t allocated = all.allocated_bytes.current - found.slack_allocated;
  const std::int64_t active = all.active_bytes.current - found.slack_active;
  const auto near = [&](const Height& above) {
    return allocated + above.allocated + room > limits_.peak_allocated ||
           active + above.active + room > limits_.peak_active;
  };
  limits_.critical.clear();
  if (!near(facts_.highest)) return;
  for (const Height& above : facts_.heights)
    if (near(above))
      limits_.critical.push_back({above.event, allocated + above.allocated, active + above.active});
}

// The largest slack that tensors of omitted groups can have at one time: tensors that do not
// outlive their cycle.
std::int64_t SubPoolReplay::slack_in_groups() const {
  std::int64_t live = 0, most = 0;
  for (const CycleTrace::Event& event : trace_.events) {
    const auto tensor = static_cast<std::size_t>(event.tensor);
    if (trace_.tensors[tensor].lives > 0 || facts_.bytes[tensor] <= allocator::small_size) continue;
    live += event.places ? 1 : -1;
    most = std::max(most, live);
  }
  return most * allocator::small_size;
}

void SubPoolReplay::write_codes(Found& found) {
  CodesFor codes_for{found.names, {}};
  for (const Height& critical : limits_.critical) codes_for.notes.push_back(critical.event);
  if (codes_for == codes_.made_for) return;
  codes_.made_for = std::move(codes_for);

  std::vector<SubPoolCode> codes(found.sub_pools.size());
  codes_.home.clear();
  for (std::size_t t = 0; t < trace_.tensors.size(); ++t) {
    const CycleTrace::Tensor& tensor = trace_.tensors[t];
    const std::size_t sub_pool = found.sub_pool(name_of(t));
    SubPoolCode& code = codes[sub_pool];
    codes_.home.emplace_back(static_cast<int>(sub_pool), static_cast<int>(code.tensors.size()));
    code.tensors.push_back({facts_.bytes[t], tensor.lives + facts_.releases[t].cycles, 0, 0});
  }
  const auto add = [&](SubPoolStep::Kind kind, std::size_t tensor, int cycles) {
    SubPoolCode& code = codes[static_cast<std::size_t>(codes_.home[tensor].first)];
    code.steps.push_back({kind, codes_.home[tensor].second, cycles, -1});
  };
  auto critical = limits_.critical.begin();
  auto released = facts_.released.begin();
  for (std::size_t e = 0; e <= trace_.events.size(); ++e) {
    for (; released != facts_.released.end() && facts_.releases[*released].event == e; ++released)
      add(SubPoolStep::Kind::finish, *released,
          trace_.tensors[*released].lives + facts_.releases[*released].cycles);
    if (e == trace_.events.size()) break;
    const CycleTrace::Event& event = trace_.events[e];
    const auto t = static_cast<std::size_t>(event.tensor);
    const CycleTrace::Tensor& tensor = trace_.tensors[t];
    if (event.places) {
      add(SubPoolStep::Kind::place, t, 0);
    } else {
      add(tensor.waits.empty() ? SubPoolStep::Kind::release : SubPoolStep::Kind::leave, t,
          tensor.lives);
    }
    if (critical == limits_.critical.end() || critical->event != e) continue;
    ++critical;
    for (std::size_t l = 0; l < codes.size(); ++l)
      if (!found.names[l].second) codes[l].steps.push_back({SubPoolStep::Kind::note, -1, 0, -1});
  }
  codes_.of.clear();
  for (std::size_t l = 0; l < codes.size(); ++l) {
    codes[l].small = found.names[l].second;
    codes[l].notes = codes[l].small ? 0 : static_cast<int>(limits_.critical.size());
    prepare(codes[l]);
    codes_.of.push_back(std::make_shared<const SubPoolCode>(std::move(codes[l])));
  }
}

bool SubPoolReplay::enter(RankState& r, std::int64_t cycle, Time begin) {
  assert(!on() && cycle >= first());
  const allocator::Allocator& allocator = r.memory.allocator();
  if (!allocator.takes_what_fits() || !facts_.repeats) return false;
  r.clock.cpu = Time{begin.ps + cut_};
  r.memory.poll();
  Found found;
  if (!find_sub_pools(r, found) || !find_waiting(r, begin, found)) return false;
  find_critical(r, found);
  write_codes(found);

  Filled filled;
  if (!fill_sub_pools(found, cycle, allocator.ids(), filled)) return false;
  if (!hold_tensors(r, cycle, found, filled)) return false;
  sub_pools_ = std::move(filled.sub_pools);
  entered_ = done_ = cycle;
  return true;
}

// Builds a machine for each sub-pool with the blocks of the allocator. False: a machine has no room
// for the sizes of its free blocks.
bool SubPoolReplay::fill_sub_pools(const Found& found, std::int64_t cycle, std::size_t ids,
                                   Filled& filled) const {
  filled.places.resize(ids);
  filled.sub_pools.resize(found.sub_pools.size());
  for (std::size_t l = 0; l < filled.sub_pools.size(); ++l) {
    Own& own = filled.sub_pools[l];
    std::tie(own.stream, own.small) = found.names[l];
    std::vector<std::int64_t> sizes;
    for (const Found::Block& block : found.sub_pools[l].blocks)
      if (block.free) sizes.push_back(block.size);
    SubPoolMachine& machine = own.machine.emplace(codes_.of[l], std::move(sizes), cycle);
    machine.set_slack(found.sub_pools[l].slack);
    for (const Found::Block& block : found.sub_pools[l].blocks) {
      if (block.begins) machine.begin_segment();
      const NodeId node = machine.add_block(block.address, block.size, block.free);
      if (block.begins) own.segments.push_back(node);
      if (block.free) continue;
      filled.places[static_cast<std::size_t>(block.id)] = {static_cast<int>(l), node};
      ++filled.occupied;
    }
    if (!machine.room_for_sizes()) return false;
  }
  return true;
}

// Enters each block in the register of its tensor. False: a tensor lies in another sub-pool than
// its code expects, or a block belongs to no tensor.
bool SubPoolReplay::hold_tensors(const RankState& r, std::int64_t cycle, const Found& found,
                                 Filled& filled) {
  std::size_t held = 0;
  const auto hold = [&](std::int32_t tensor, int age, allocator::BlockId block) {
    const BlockLocation place = filled.places[static_cast<std::size_t>(block)];
    const auto [sub_pool, number] = codes_.home[static_cast<std::size_t>(tensor)];
    if (sub_pool != place.sub_pool) return false;
    filled.sub_pools[static_cast<std::size_t>(sub_pool)].machine->hold(number, cycle - age,
                                                                       place.node);
    ++held;
    return true;
  };
  permanent_.clear();
  for (const CycleTrace::Held& h : trace_.held) {
    const std::uint32_t slot = actual_slot(r.program, h.slot, r.live);
    if (!r.memory.full(slot)) return false;
    const allocator::BlockId block = r.memory.block(slot);
    if (h.tensor >= 0) {
      if (!hold(h.tensor, h.age, block)) return false;
      continue;
    }
    const BlockLocation place = filled.places[static_cast<std::size_t>(block)];
    permanent_.push_back({slot, r.memory.category(slot), r.memory.recorded(slot),
                          r.memory.requested(slot), place.sub_pool, place.node});
    ++held;
  }
  for (std::size_t n = 0; n < facts_.waits.size(); ++n)
    if (!hold(facts_.waits[n].tensor, facts_.waits[n].age, found.waiting[n])) return false;
  return held == filled.occupied;
}

void SubPoolReplay::keep() {
  kept_.done = done_;
  kept_.notes.clear();
  kept_.machines.resize(sub_pools_.size());
  for (std::size_t l = 0; l < sub_pools_.size(); ++l) {
    kept_.notes.push_back(sub_pools_[l].notes.size());
    if (sub_pools_[l].machine->rests()) {
      kept_.machines[l].reset();
    } else {
      kept_.machines[l] = sub_pools_[l].machine;
    }
  }
}

void SubPoolReplay::put_back() {
  done_ = kept_.done;
  for (std::size_t l = 0; l < sub_pools_.size(); ++l) {
    sub_pools_[l].notes.resize(kept_.notes[l]);
    if (kept_.machines[l]) sub_pools_[l].machine = kept_.machines[l];
  }
}

MemoryReplay::Reached SubPoolReplay::advance(std::int64_t end) {
  const std::int64_t from = done_;
  std::int64_t reached = end;  // by all sub-pools
  for (Own& own : sub_pools_)
    for (std::int64_t p = from; p < reached && !own.machine->rests(); ++p)
      if (!own.machine->play(own.notes)) reached = p;
  if (reached < end) return {reached, Stop::driver};
  if (slack_outgrown()) {
    limits_.slack_room *= 2;
    return {from, Stop::peak};
  }
  done_ = end;
  const std::int64_t peak = first_peak(from, end);
  if (peak < end) return {peak, Stop::peak};
  return {end, Stop::no};
}

bool SubPoolReplay::slack_outgrown() const {
  std::int64_t slack = 0;
  for (const Own& own : sub_pools_) {
    const SubPoolMachine::Slack most = own.machine->most_slack();
    slack += std::max(most.allocated, most.active);
  }
  return slack > limits_.slack_most;
}

SubPoolMachine::Slack SubPoolReplay::Own::noted(std::int64_t cycle, std::int64_t entered,
                                                int k) const {
  const int count = machine->code().notes;
  if (count == 0) return {};
  if (machine->rests() && cycle >= machine->cycle()) {
    const std::int64_t recurrence = machine->recurrence();
    cycle = machine->cycle() - recurrence + (cycle - machine->cycle()) % recurrence;
  }
  return notes[static_cast<std::size_t>((cycle - entered) * count + k)];
}

// The first cycle in which all tensors together would reach a new peak; `to` if none does.
std::int64_t SubPoolReplay::first_peak(std::int64_t from, std::int64_t to) const {
  for (std::int64_t p = from; p < to; ++p)
    for (std::size_t k = 0; k < limits_.critical.size(); ++k) {
      std::int64_t allocated = limits_.critical[k].allocated, active = limits_.critical[k].active;
      for (const Own& own : sub_pools_) {
        const SubPoolMachine::Slack slack = own.noted(p, entered_, static_cast<int>(k));
        allocated += slack.allocated;
        active += slack.active;
      }
      if (allocated > limits_.peak_allocated || active > limits_.peak_active) return p;
    }
  return to;
}

}  // namespace sim::engine
