#include "sim/replay/lane_replay.h"

#include <algorithm>
#include <cassert>
#include <map>

namespace sim::replay {

using memory::LaneCode;
using memory::LaneMachine;
using memory::LaneStep;
using memory::NodeId;

namespace {

// As an allocator that takes what fits does.
std::int64_t rounded(std::int64_t bytes) {
  static const memory::Options plain;
  return memory::round_size(bytes, plain);
}

}  // namespace

// What is found in the allocator when lanes take over.
struct LaneReplay::Found {
  struct Lane {
    int stream = 0;
    bool small = false;
    std::vector<memory::SegmentView> segments;
    LaneMachine::Slack slack;
    LaneCode code;
  };
  std::vector<Lane> lanes;
  std::map<std::pair<int, bool>, int> numbers;  // of lanes
  std::int64_t slack_allocated = 0, slack_active = 0;
  std::vector<std::pair<Waiting, std::int64_t>> waiting;  // with the address of the block

  int lane(int stream, bool small) {
    const auto [it, fresh] = numbers.try_emplace({stream, small}, static_cast<int>(lanes.size()));
    if (fresh) lanes.push_back({stream, small, {}, {}, {}});
    return it->second;
  }
};

LaneReplay::LaneReplay(PeriodTrace trace, std::int64_t from, std::int64_t length, std::int64_t cut)
    : trace_(std::move(trace)), from_(from), length_(length), cut_(cut) {
  freed_at_.resize(trace_.tensors.size());
  for (std::size_t e = 0; e < trace_.events.size(); ++e)
    if (!trace_.events[e].places) freed_at_[static_cast<std::size_t>(trace_.events[e].tensor)] = e;
  for (const PeriodTrace::Event& event : trace_.events) {
    if (!event.places) continue;
    places_.push_back(static_cast<std::size_t>(&event - trace_.events.data()));
  }
  for (std::size_t t = 0; t < trace_.tensors.size(); ++t) {
    releases_.push_back(release_of(t));
    if (!trace_.tensors[t].waits.empty()) released_.push_back(t);
  }
  std::ranges::stable_sort(released_, {}, [&](std::size_t t) { return releases_[t].event; });
}

void LaneReplay::start_from(std::int64_t period) {
  assert(!on());
  from_ = period;
  trace_.periods = 0;
  slack_room_ = first_slack_room;
}

// Blocks that streams have let go come back at the next allocation, and at the begin of a period:
// nobody looks in between.
LaneReplay::Release LaneReplay::release_of(std::size_t tensor) const {
  std::int64_t when = INT64_MIN;
  for (const auto& [stream, end] : trace_.tensors[tensor].waits) when = std::max(when, end);
  const std::size_t behind = freed_at_[tensor] + 1, end = trace_.events.size();
  if (when == INT64_MIN) return {behind, 0};
  auto first = std::ranges::lower_bound(places_, behind);
  for (int periods = 0;; ++periods) {
    const auto place = std::lower_bound(
        first, places_.end(), when,
        [&](std::size_t event, std::int64_t t) { return trace_.events[event].when < t; });
    if (place != places_.end()) return {*place, periods};
    if (cut_ + length_ >= when) return {end, periods};
    first = places_.begin();
    when -= length_;
  }
}

// Those that wait for streams between two periods, in the order in which they were freed.
std::vector<LaneReplay::Waiting> LaneReplay::waiting() const {
  std::vector<Waiting> all;
  for (const PeriodTrace::Event& event : trace_.events) {
    if (event.places) continue;
    const auto t = static_cast<std::size_t>(event.tensor);
    for (int ago = 1; ago <= releases_[t].periods; ++ago)
      all.push_back({event.tensor, trace_.tensors[t].lives + ago, ago});
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Waiting& a, const Waiting& b) { return a.freed_ago > b.freed_ago; });
  return all;
}

bool LaneReplay::find_lanes(const RankState& r, Found& found) const {
  constexpr std::int64_t most_blocks = 1 << 20;
  std::int64_t blocks = 0;
  for (memory::SegmentView& segment : r.memory.allocator().segments()) {
    if (segment.expandable || segment.pool != 0) return false;
    Found::Lane& lane =
        found.lanes[static_cast<std::size_t>(found.lane(segment.stream, segment.small))];
    for (const memory::BlockView& block : segment.blocks) {
      if (block.state == memory::BlockState::inactive) continue;
      const std::int64_t slack = block.size - rounded(block.requested);
      lane.slack.active += slack;
      if (block.state == memory::BlockState::active_allocated) lane.slack.allocated += slack;
    }
    blocks += static_cast<std::int64_t>(segment.blocks.size());
    lane.segments.push_back(std::move(segment));
  }
  for (const Found::Lane& lane : found.lanes) {
    found.slack_allocated += lane.slack.allocated;
    found.slack_active += lane.slack.active;
  }
  for (const PeriodTrace::Tensor& tensor : trace_.tensors)
    found.lane(static_cast<int>(tensor.stream), rounded(tensor.bytes) <= memory::small_size);
  return blocks < most_blocks;
}

// Each stream's queue in the allocator is the end of the list of what waits for it.
bool LaneReplay::find_waiting(const RankState& r, Time begin, Found& found) const {
  std::map<int, std::vector<std::pair<std::int64_t, std::int64_t>>> queues;  // ticket, address
  r.memory.allocator().visit_waiting([&](const memory::Event& event, std::int64_t address) {
    queues[event.stream].emplace_back(event.ticket, address);
  });
  const std::vector<Waiting> all = waiting();
  std::vector<std::int64_t> addresses(all.size(), -1);
  for (std::size_t n = all.size(); n-- > 0;) {
    const Waiting& w = all[n];
    for (const auto& [stream, end] : trace_.tensors[static_cast<std::size_t>(w.tensor)].waits) {
      auto& queue = queues[stream];
      const std::int64_t ticket = begin.ps + end - w.freed_ago * length_;
      if (queue.empty() || queue.back().first != ticket) continue;
      if (addresses[n] >= 0 && addresses[n] != queue.back().second) return false;
      addresses[n] = queue.back().second;
      queue.pop_back();
    }
    if (addresses[n] < 0) return false;
  }
  for (const auto& [stream, queue] : queues)
    if (!queue.empty()) return false;
  for (std::size_t n = 0; n < all.size(); ++n) found.waiting.emplace_back(all[n], addresses[n]);
  return true;
}

// Walks a period and notes where a peak is so near that the slack decides. False if a period does
// not end with what it began with.
bool LaneReplay::find_critical(const RankState& r, const Found& found) {
  const memory::PoolStatistics& all = r.memory.allocator().statistics().all;
  peak_allocated_ = r.memory.peak_allocated();
  peak_active_ = all.active_bytes.peak;
  slack_most_ = 2 * std::max(found.slack_allocated, found.slack_active) + slack_room_;
  const std::int64_t room = slack_most_ + slack_in_groups();
  std::int64_t allocated = all.allocated_bytes.current - found.slack_allocated;
  std::int64_t active = all.active_bytes.current - found.slack_active;
  const std::int64_t allocated_before = allocated, active_before = active;
  critical_.clear();
  auto released = released_.begin();
  for (std::size_t e = 0; e <= trace_.events.size(); ++e) {
    for (; released != released_.end() && releases_[*released].event == e; ++released)
      active -= rounded(trace_.tensors[*released].bytes);
    if (e == trace_.events.size()) break;
    const PeriodTrace::Event& event = trace_.events[e];
    const auto tensor = static_cast<std::size_t>(event.tensor);
    const std::int64_t bytes = rounded(trace_.tensors[tensor].bytes);
    if (!event.places) {
      allocated -= bytes;
      if (trace_.tensors[tensor].waits.empty()) active -= bytes;
      continue;
    }
    allocated += bytes;
    active += bytes;
    if (allocated + room > peak_allocated_ || active + room > peak_active_)
      critical_.push_back({e, allocated, active});
  }
  return allocated == allocated_before && active == active_before;
}

// The slack that tensors which groups leave out may have at one time: those that do not outlive
// their period.
std::int64_t LaneReplay::slack_in_groups() const {
  std::int64_t live = 0, most = 0;
  for (const PeriodTrace::Event& event : trace_.events) {
    const PeriodTrace::Tensor& tensor = trace_.tensors[static_cast<std::size_t>(event.tensor)];
    if (tensor.lives > 0 || rounded(tensor.bytes) <= memory::small_size) continue;
    live += event.places ? 1 : -1;
    most = std::max(most, live);
  }
  return most * memory::small_size;
}

void LaneReplay::write_codes(Found& found) {
  home_.clear();
  for (std::size_t t = 0; t < trace_.tensors.size(); ++t) {
    const PeriodTrace::Tensor& tensor = trace_.tensors[t];
    const std::int64_t bytes = rounded(tensor.bytes);
    const int lane = found.lane(static_cast<int>(tensor.stream), bytes <= memory::small_size);
    LaneCode& code = found.lanes[static_cast<std::size_t>(lane)].code;
    home_.emplace_back(lane, static_cast<int>(code.tensors.size()));
    code.tensors.push_back({bytes, tensor.lives + releases_[t].periods, 0, 0});
  }
  const auto add = [&](LaneStep::Kind kind, std::size_t tensor, int periods) {
    LaneCode& code = found.lanes[static_cast<std::size_t>(home_[tensor].first)].code;
    code.steps.push_back({kind, home_[tensor].second, periods, -1});
  };
  auto critical = critical_.begin();
  auto released = released_.begin();
  for (std::size_t e = 0; e <= trace_.events.size(); ++e) {
    for (; released != released_.end() && releases_[*released].event == e; ++released)
      add(LaneStep::Kind::finish, *released,
          trace_.tensors[*released].lives + releases_[*released].periods);
    if (e == trace_.events.size()) break;
    const PeriodTrace::Event& event = trace_.events[e];
    const auto t = static_cast<std::size_t>(event.tensor);
    const PeriodTrace::Tensor& tensor = trace_.tensors[t];
    if (event.places) {
      add(LaneStep::Kind::place, t, 0);
    } else {
      add(tensor.waits.empty() ? LaneStep::Kind::release : LaneStep::Kind::leave, t, tensor.lives);
    }
    if (critical == critical_.end() || critical->event != e) continue;
    ++critical;
    for (Found::Lane& lane : found.lanes)
      if (!lane.small) lane.code.steps.push_back({LaneStep::Kind::note, -1, 0, -1});
  }
  for (Found::Lane& lane : found.lanes) {
    lane.code.small = lane.small;
    lane.code.notes = lane.small ? 0 : static_cast<int>(critical_.size());
    prepare(lane.code);
  }
}

bool LaneReplay::enter(RankState& r, std::int64_t period, Time begin) {
  assert(!on() && period >= first());
  if (!r.memory.allocator().takes_what_fits()) return false;
  r.clock.cpu = Time{begin.ps + cut_};
  r.memory.poll();
  Found found;
  if (!find_lanes(r, found) || !find_waiting(r, begin, found)) return false;
  if (!find_critical(r, found)) return false;
  write_codes(found);

  std::vector<std::pair<std::int64_t, Place>> places;  // of blocks by address
  std::vector<Own> lanes;
  for (Found::Lane& lane : found.lanes) {
    Own& own = lanes.emplace_back();
    own.stream = lane.stream;
    own.small = lane.small;
    std::vector<std::int64_t> sizes;
    for (const memory::SegmentView& segment : lane.segments)
      for (const memory::BlockView& block : segment.blocks)
        if (block.state == memory::BlockState::inactive) sizes.push_back(block.size);
    LaneMachine& machine = own.machine.emplace(
        std::make_shared<const LaneCode>(std::move(lane.code)), std::move(sizes), period);
    machine.set_slack(lane.slack);
    for (const memory::SegmentView& segment : lane.segments) {
      machine.begin_segment();
      for (std::size_t b = 0; b < segment.blocks.size(); ++b) {
        const memory::BlockView& block = segment.blocks[b];
        const bool free = block.state == memory::BlockState::inactive;
        const NodeId node = machine.add_block(block.address, block.size, free);
        if (b == 0) own.segments.push_back(node);
        if (!free)
          places.emplace_back(block.address, Place{static_cast<int>(lanes.size()) - 1, node});
      }
    }
    if (!machine.room_for_sizes()) return false;
  }

  using Entry = std::pair<std::int64_t, Place>;
  std::ranges::sort(places, {}, &Entry::first);
  const auto place_at = [&](std::int64_t address) {
    const auto entry = std::ranges::lower_bound(places, address, {}, &Entry::first);
    assert(entry != places.end() && entry->first == address);
    return entry->second;
  };

  // Each block in the register of its tensor.
  std::size_t held = 0;
  const auto hold = [&](std::int32_t tensor, int age, std::int64_t address) {
    const Place place = place_at(address);
    const auto [lane, number] = home_[static_cast<std::size_t>(tensor)];
    if (lane != place.lane) return false;
    lanes[static_cast<std::size_t>(lane)].machine->hold(number, period - age, place.node);
    ++held;
    return true;
  };
  permanent_.clear();
  const memory::Allocator& allocator = r.memory.allocator();
  for (const PeriodTrace::Held& h : trace_.held) {
    const std::uint32_t slot = actual_slot(r.program, h.slot, r.live);
    if (!r.memory.full(slot)) return false;
    const std::int64_t address = allocator.address(r.memory.block(slot));
    if (h.tensor >= 0) {
      if (!hold(h.tensor, h.age, address)) return false;
      continue;
    }
    const Place place = place_at(address);
    permanent_.push_back({slot, r.memory.category(slot), r.memory.recorded(slot),
                          r.memory.requested(slot), place.lane, place.node});
    ++held;
  }
  for (const auto& [w, address] : found.waiting)
    if (!hold(w.tensor, w.age, address)) return false;
  if (held != places.size()) return false;
  lanes_ = std::move(lanes);
  entered_ = done_ = period;
  return true;
}

void LaneReplay::keep() {
  kept_ = {};
  kept_.done = done_;
  for (std::size_t l = 0; l < lanes_.size(); ++l) {
    kept_.notes.push_back(lanes_[l].notes.size());
    if (!lanes_[l].machine->rests()) kept_.machines.emplace_back(l, *lanes_[l].machine);
  }
}

void LaneReplay::put_back() {
  done_ = kept_.done;
  for (std::size_t l = 0; l < lanes_.size(); ++l) lanes_[l].notes.resize(kept_.notes[l]);
  for (const auto& [l, machine] : kept_.machines) lanes_[l].machine = machine;
}

LaneReplay::Reached LaneReplay::advance(std::int64_t end) {
  const std::int64_t from = done_;
  std::int64_t reached = end;  // by all lanes
  for (Own& own : lanes_)
    for (std::int64_t p = from; p < reached && !own.machine->rests(); ++p)
      if (!own.machine->play(own.notes)) reached = p;
  if (reached < end) return {reached, Stop::driver};
  if (slack_outgrown()) {
    slack_room_ *= 2;
    return {from, Stop::peak};
  }
  done_ = end;
  const std::int64_t peak = first_peak(from, end);
  if (peak < end) return {peak, Stop::peak};
  return {end, Stop::no};
}

bool LaneReplay::slack_outgrown() const {
  std::int64_t slack = 0;
  for (const Own& own : lanes_) {
    const LaneMachine::Slack most = own.machine->most_slack();
    slack += std::max(most.allocated, most.active);
  }
  return slack > slack_most_;
}

LaneMachine::Slack LaneReplay::Own::noted(std::int64_t period, std::int64_t entered, int k) const {
  const int count = machine->code().notes;
  if (count == 0) return {};
  if (machine->rests() && period >= machine->period()) {
    const std::int64_t cycle = machine->cycle();
    period = machine->period() - cycle + (period - machine->period()) % cycle;
  }
  return notes[static_cast<std::size_t>((period - entered) * count + k)];
}

// The first period in which all tensors together would reach a new peak; `to` if none does.
std::int64_t LaneReplay::first_peak(std::int64_t from, std::int64_t to) const {
  for (std::int64_t p = from; p < to; ++p)
    for (std::size_t k = 0; k < critical_.size(); ++k) {
      std::int64_t allocated = critical_[k].allocated, active = critical_[k].active;
      for (const Own& own : lanes_) {
        const LaneMachine::Slack slack = own.noted(p, entered_, static_cast<int>(k));
        allocated += slack.allocated;
        active += slack.active;
      }
      if (allocated > peak_allocated_ || active > peak_active_) return p;
    }
  return to;
}

void LaneReplay::leave(RankState& r, Time begin, std::span<const std::uint32_t> live) {
  assert(on());
  RankMemory::Layout layout;
  for (Own& own : lanes_)
    if (own.machine->rests()) own.machine->play_rest(done_ - own.machine->period());
  // What each occupied block was asked for, and which piece it is, by its node.
  std::vector<std::vector<std::int64_t>> asked;
  std::vector<std::vector<std::size_t>> pieces;
  for (const Own& own : lanes_) {
    asked.emplace_back(own.machine->nodes());
    pieces.emplace_back(own.machine->nodes());
  }
  const auto place_of = [&](std::int32_t tensor, int age) {
    const auto [lane, number] = home_[static_cast<std::size_t>(tensor)];
    const LaneMachine& machine = *lanes_[static_cast<std::size_t>(lane)].machine;
    return Place{lane, machine.held(number, machine.period() - age)};
  };
  const std::vector<Waiting> waits = waiting();
  const auto ask = [&](const Place& place, std::int64_t bytes) {
    asked[static_cast<std::size_t>(place.lane)][static_cast<std::size_t>(place.node)] = bytes;
  };
  for (const PeriodTrace::Held& h : trace_.held)
    if (h.tensor >= 0)
      ask(place_of(h.tensor, h.age), trace_.tensors[static_cast<std::size_t>(h.tensor)].bytes);
  for (const Waiting& w : waits)
    ask(place_of(w.tensor, w.age), trace_.tensors[static_cast<std::size_t>(w.tensor)].bytes);
  for (const Permanent& p : permanent_) ask({p.lane, p.node}, p.requested);

  std::size_t count = 0;
  for (std::size_t l = 0; l < lanes_.size(); ++l) {
    const Own& own = lanes_[l];
    for (const NodeId head : own.segments) {
      auto& segment = layout.segments.emplace_back();
      segment.address = own.machine->address(head);
      segment.stream = own.stream;
      segment.small = own.small;
      for (NodeId id = head; id >= 0; id = own.machine->right(id)) {
        using Kind = memory::Allocator::Piece::Kind;
        const bool free = own.machine->free(id);
        const auto node = static_cast<std::size_t>(id);
        assert(free || asked[l][node] > 0);
        segment.pieces.push_back({free ? Kind::free : Kind::allocated, own.machine->size(id),
                                  free ? 0 : asked[l][node]});
        if (!free) pieces[l][node] = count++;
      }
    }
  }
  const auto piece = [&](const Place& place) {
    return pieces[static_cast<std::size_t>(place.lane)][static_cast<std::size_t>(place.node)];
  };
  for (const Permanent& p : permanent_)
    layout.tensors.push_back({p.slot, piece({p.lane, p.node}), p.category, p.recorded});
  for (const PeriodTrace::Held& h : trace_.held) {
    if (h.tensor < 0) continue;
    layout.tensors.push_back(
        {actual_slot(r.program, h.slot, live), piece(place_of(h.tensor, h.age)),
         trace_.tensors[static_cast<std::size_t>(h.tensor)].category, h.recorded});
  }
  const std::int64_t now = begin.ps + cut_;
  for (const Waiting& w : waits) {
    auto& waiting = layout.waiting.emplace_back();
    waiting.piece = piece(place_of(w.tensor, w.age));
    for (const auto& [stream, end] : trace_.tensors[static_cast<std::size_t>(w.tensor)].waits) {
      const std::int64_t ticket = begin.ps + end - w.freed_ago * length_;
      if (ticket > now) waiting.events.push_back({stream, ticket});
    }
  }
  r.memory.rebuild(layout);
  lanes_.clear();
}

}  // namespace sim::replay
