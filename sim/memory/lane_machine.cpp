#include "sim/memory/lane_machine.h"

#include <algorithm>
#include <cassert>

#include "sim/memory/options.h"

namespace sim::memory {

using Kind = LaneStep::Kind;

LaneMachine::LaneMachine(std::shared_ptr<const LaneCode> code, std::vector<std::int64_t> sizes,
                         std::int64_t period)
    : code_(std::move(code)),
      registers_(code_->registers, -1),
      period_(static_cast<std::uint32_t>(period)),
      saved_period_(period) {
  // Bins are cheapest to add from the smallest size on.
  for (const LaneTensor& tensor : code_->tensors) sizes.push_back(tensor.bytes);
  std::ranges::sort(sizes);
  for (const std::int64_t size : sizes)
    if (room_for_sizes()) free_.bin_of(size);
  steps_.reserve(code_->steps.size());
  for (const LaneStep& step : code_->steps) {
    Step& own = steps_.emplace_back();
    own.kind = step.kind;
    if (step.kind == Kind::note) continue;
    const LaneTensor& tensor = code_->tensors[static_cast<std::size_t>(step.tensor)];
    own.base = tensor.base;
    own.mask = tensor.mask;
    own.periods = static_cast<std::uint32_t>(step.periods);
    own.group = step.group;
    own.bytes = tensor.bytes;
    if (step.kind == Kind::place && room_for_sizes()) own.bin = free_.bin_of(tensor.bytes);
  }
  for (const LaneNeed& need : code_->needs)
    need_bins_.push_back(room_for_sizes() ? free_.bin_of(need.bytes) : -1);
}

NodeId LaneMachine::new_node() {
  if (!unused_.empty()) {
    const NodeId id = unused_.back();
    unused_.pop_back();
    return id;
  }
  nodes_.emplace_back();
  return static_cast<NodeId>(nodes_.size() - 1);
}

NodeId LaneMachine::add_block(std::int64_t address, std::int64_t size, bool free) {
  const NodeId id = new_node();
  at(id) = {address, size, last_, -1, -1};
  if (last_ >= 0) at(last_).right = id;
  last_ = id;
  if (free && room_for_sizes()) {
    at(id).bin = free_.bin_of(size);
    free_.insert_in(at(id).bin, address, BlockId{id});
  }
  return id;
}

inline bool LaneMachine::place(Step& step) {
  const FreeBins::Position fit = free_.first_fit_from(step.bin);
  if (fit.group < 0) return false;
  const auto id = static_cast<NodeId>(free_.block(fit));
  free_.erase(fit);
  registers_[step.base + (period_ & step.mask)] = id;
  Node& node = at(id);
  node.bin = -1;
  const std::int64_t rest = node.size - step.bytes;
  if (rest == 0) return true;
  if (!code_->small && rest <= small_size) {
    slack_.allocated += rest;
    slack_.active += rest;
    most_slack_.allocated = std::max(most_slack_.allocated, slack_.allocated);
    most_slack_.active = std::max(most_slack_.active, slack_.active);
    return true;
  }
  node.size = step.bytes;
  const NodeId right = node.right;
  const NodeId back = new_node();  // `node` may have moved
  at(id).right = back;
  if (right >= 0) at(right).left = back;
  if (step.left != fit.group) {
    if (!room_for_sizes()) return false;
    step.left = fit.group;
    step.then = free_.bin_of(rest);
  }
  at(back) = {at(id).address + step.bytes, rest, id, right, step.then};
  free_.insert_in(step.then, at(back).address, BlockId{back});
  return true;
}

inline void LaneMachine::release(Step& step) {
  NodeId id = registers_[step.base + ((period_ - step.periods) & step.mask)];
  std::int64_t size = at(id).size;
  const bool exact = size == step.bytes;
  if (!exact) {
    slack_.active -= size - step.bytes;
    if (step.kind == Kind::release) slack_.allocated -= size - step.bytes;
  }
  const NodeId left = at(id).left, right = at(id).right;
  const std::int32_t left_bin = left >= 0 ? at(left).bin : -1;
  const std::int32_t right_bin = right >= 0 ? at(right).bin : -1;
  if (right_bin >= 0) {
    const Node& gone = at(right);
    free_.erase(free_.find_in(right_bin, gone.address));
    size += gone.size;
    at(id).right = gone.right;
    if (gone.right >= 0) at(gone.right).left = id;
    unused_.push_back(right);
  }
  if (left_bin >= 0) {
    Node& into = at(left);
    free_.erase(free_.find_in(left_bin, into.address));
    size += into.size;
    into.right = at(id).right;
    if (into.right >= 0) at(into.right).left = left;
    unused_.push_back(id);
    id = left;
  }
  at(id).size = size;
  if (!exact || step.left != left_bin || step.right != right_bin) {
    step.left = exact ? left_bin : -2;
    step.right = right_bin;
    step.then = free_.bin_of(size);
  }
  at(id).bin = step.then;
  free_.insert_in(at(id).bin, at(id).address, BlockId{id});
}

inline void LaneMachine::leave(const Step& step) {
  const NodeId id = registers_[step.base + ((period_ - step.periods) & step.mask)];
  slack_.allocated -= at(id).size - step.bytes;
}

inline bool LaneMachine::room_for(const LaneGroup& group) const {
  if (group.bytes <= free_.largest_size()) return true;
  // A tensor may take up to small_size more than it asks for.
  const std::int64_t largest = group.largest + small_size;
  for (std::int32_t n = group.needs; n < group.needs_end; ++n) {
    const LaneNeed& need = code_->needs[static_cast<std::size_t>(n)];
    FreeBins::Position p = free_.first_fit_from(need_bins_[static_cast<std::size_t>(n)]);
    std::int64_t live = need.live;
    // Bin by bin: the lowest of a bin is its last entry.
    for (; live >= 0 && p.group >= 0; p = free_.next({p.group, 0}))
      live -= (p.index + 1) * (1 + (free_.size_at(p) - need.bytes) / (need.bytes + largest));
    if (live >= 0) return false;
  }
  return true;
}

bool LaneMachine::play(std::vector<Slack>& notes) {
  look_for_cycle();
  return rests() || run(notes);
}

bool LaneMachine::run(std::vector<Slack>& notes) {
  const std::size_t end = steps_.size();
  for (std::size_t i = 0; i < end; ++i) {
    Step& step = steps_[i];
    if (step.kind == Kind::place) {
      if (step.group >= 0) {
        const LaneGroup& group = code_->groups[static_cast<std::size_t>(step.group)];
        if (room_for(group)) {
          for (std::int32_t k = group.others; k < group.others_end; ++k) {
            Step& other =
                steps_[static_cast<std::size_t>(code_->others[static_cast<std::size_t>(k)])];
            if (!room_for_sizes()) return false;
            other.kind == Kind::leave ? leave(other) : release(other);
          }
          i = static_cast<std::size_t>(group.end) - 1;
          continue;
        }
      }
      if (!place(step)) return false;
    } else if (step.kind == Kind::note) {
      notes.push_back(slack_);
    } else if (step.kind == Kind::leave) {
      leave(step);
    } else {
      if (!room_for_sizes()) return false;
      release(step);
    }
  }
  ++period_;
  return true;
}

// Everything that decides what comes is where the tensors lie that live across the begin of a
// period: what is free follows from it.
void LaneMachine::look_for_cycle() {
  if (rests()) return;
  const std::int64_t now = period();
  const auto visit = [&](const auto& see) {
    for (std::size_t t = 0; t < code_->tensors.size(); ++t)
      for (int age = 1; age <= code_->tensors[t].periods; ++age) {
        const Node& node = at(held(static_cast<int>(t), now - age));
        if (!see(std::pair(node.address, node.size))) return false;
      }
    return true;
  };
  if (now > saved_period_) {
    auto next = saved_.begin();
    if (visit([&](const auto& held) { return held == *next++; })) {
      cycle_ = now - saved_period_;
      return;
    }
    if (now - saved_period_ < distance_) return;
    distance_ *= 2;
  }
  saved_.clear();
  visit([&](const auto& held) {
    saved_.push_back(held);
    return true;
  });
  saved_period_ = now;
}

void LaneMachine::play_rest(std::int64_t periods) {
  assert(rests());
  std::vector<Slack> notes;
  for (std::int64_t left = periods % cycle_; left > 0; --left) {
    [[maybe_unused]] const bool played = run(notes);
    assert(played);
  }
}

}  // namespace sim::memory
