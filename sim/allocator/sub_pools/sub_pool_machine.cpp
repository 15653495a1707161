#include "sim/allocator/sub_pools/sub_pool_machine.h"

#include <algorithm>
#include <cassert>

#include "sim/allocator/options.h"

namespace sim::allocator {

using Kind = LaneStep::Kind;

namespace {

// Of a bin: there are no more than fit (FreeBins::most).
std::int16_t number(int bin) {
  static_assert(FreeBins::most <= INT16_MAX);
  return static_cast<std::int16_t>(bin);
}

}  // namespace

LaneMachine::LaneMachine(std::shared_ptr<const LaneCode> code, std::vector<std::int64_t> sizes,
                         std::int64_t period)
    : code_(std::move(code)),
      registers_(code_->registers, -1),
      period_(static_cast<std::uint32_t>(period)),
      saved_period_(period) {
  for (const LaneTensor& tensor : code_->tensors) sizes.push_back(tensor.bytes);
  std::ranges::sort(sizes);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  free_ = FreeBins(sizes);
  steps_.reserve(code_->steps.size());
  for (const LaneStep& step : code_->steps) {
    Step& own = steps_.emplace_back();
    own.kind = step.kind;
    if (step.kind == Kind::note) continue;
    const LaneTensor& tensor = code_->tensors[static_cast<std::size_t>(step.tensor)];
    own.base = tensor.base;
    assert(tensor.mask <= UINT16_MAX);
    own.mask = static_cast<std::uint16_t>(tensor.mask);
    own.periods = static_cast<std::uint16_t>(step.periods);
    own.group = step.group;
    own.bytes = tensor.bytes;
    own.brief = step.brief;
    if (step.kind == Kind::place && room_for_sizes()) own.bin = number(free_.bin_of(tensor.bytes));
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

inline std::int64_t LaneMachine::rest_of(const Node& node, std::int64_t bytes) const {
  const std::int64_t rest = node.size - bytes;
  return code_->small || rest > small_size ? rest : 0;
}

inline void LaneMachine::add_slack(std::int64_t bytes) {
  if (bytes == 0) return;  // as a rule
  slack_.allocated += bytes;
  slack_.active += bytes;
  most_slack_.allocated = std::max(most_slack_.allocated, slack_.allocated);
  most_slack_.active = std::max(most_slack_.active, slack_.active);
}

inline bool LaneMachine::brief_in(NodeId block) const {
  for (std::size_t b = 0; b < briefs_; ++b)
    if (brief_[b].block == block) return true;
  return false;
}

inline bool LaneMachine::place(Step& step) {
  FreeBins::Position fit = first_fit(step);
  for (std::size_t b = 0; b < briefs_;) {
    if (!would_rather(brief_[b], step.bytes, fit)) {
      ++b;
      continue;
    }
    if (!lay_down(b)) return false;
    fit = first_fit(step);
    b = 0;
  }
  if (fit.group < 0) return false;
  if (!step.brief) return take(step, fit);
  keep_in_mind(step, fit);
  return true;
}

// The first fit that no brief tensor would lie in.
inline FreeBins::Position LaneMachine::first_fit(const Step& step) const {
  FreeBins::Position fit = free_.first_fit_from(step.bin);
  while (fit.group >= 0 && brief_in(static_cast<NodeId>(free_.block(fit)))) fit = free_.next(fit);
  return fit;
}

// Places a tensor in a free block.
inline bool LaneMachine::take(Step& step, FreeBins::Position fit) {
  const auto id = static_cast<NodeId>(free_.block(fit));
  free_.erase(fit);
  registers_[step.base + (period_ & step.mask)] = id;
  Node& node = at(id);
  node.bin = -1;
  const std::int64_t rest = rest_of(node, step.bytes);
  if (rest == 0) {
    add_slack(node.size - step.bytes);
    return true;
  }
  node.size = step.bytes;
  const NodeId right = node.right;
  const NodeId back = new_node();  // `node` may have moved
  at(id).right = back;
  if (right >= 0) at(right).left = back;
  if (step.left != fit.group) {
    if (!room_for_sizes()) return false;
    step.left = number(fit.group);
    step.then = number(free_.bin_of(rest));
  }
  at(back) = {at(id).address + step.bytes, rest, id, right, step.then};
  free_.insert_in(step.then, at(back).address, BlockId{back});
  return true;
}

// Whether what a brief tensor would leave is a better fit.
inline bool LaneMachine::would_rather(const Brief& brief, std::int64_t bytes,
                                      FreeBins::Position fit) const {
  if (brief.rest < bytes) return false;
  if (fit.group < 0) return true;
  const std::int64_t size = free_.size_at(fit);
  return brief.rest < size || (brief.rest == size && brief.rest_address < free_.address_at(fit));
}

inline void LaneMachine::keep_in_mind(const Step& step, FreeBins::Position fit) {
  const auto block = static_cast<NodeId>(free_.block(fit));
  const Node& node = at(block);
  const std::int64_t rest = rest_of(node, step.bytes);
  brief_[briefs_++] = {static_cast<std::size_t>(&step - steps_.data()), step.base, block, rest,
                       node.address + step.bytes};
  if (rest == 0) add_slack(node.size - step.bytes);
}

// The end of a brief tensor that was not placed. False: it was.
inline bool LaneMachine::forget(const Step& step) {
  for (std::size_t b = 0; b < briefs_; ++b) {
    const Brief& brief = brief_[b];
    if (brief.home != step.base) continue;
    if (brief.rest == 0) add_slack(step.bytes - at(brief.block).size);
    brief_[b] = brief_[--briefs_];
    return true;
  }
  return false;
}

bool LaneMachine::lay_down(std::size_t b) {
  const Brief brief = brief_[b];
  brief_[b] = brief_[--briefs_];
  Step& step = steps_[brief.step];
  const Node& node = at(brief.block);
  if (brief.rest == 0) add_slack(step.bytes - node.size);
  return take(step, free_.find_in(node.bin, node.address));
}

bool LaneMachine::lay_down_all() {
  while (briefs_ > 0)
    if (!lay_down(0)) return false;
  return true;
}

// False: there would be too many sizes.
inline bool LaneMachine::release(Step& step) {
  if (step.brief && forget(step)) return true;
  NodeId id = registers_[step.base + ((period_ - step.periods) & step.mask)];
  for (std::size_t b = 0; b < briefs_;) {
    if (brief_[b].block != at(id).left && brief_[b].block != at(id).right) {
      ++b;
      continue;
    }
    if (!lay_down(b)) return false;
    b = 0;
  }
  if (!room_for_sizes()) return false;
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
    step.left = exact ? number(left_bin) : std::int16_t{-2};
    step.right = number(right_bin);
    step.then = number(free_.bin_of(size));
  }
  at(id).bin = step.then;
  free_.insert_in(at(id).bin, at(id).address, BlockId{id});
  return true;
}

inline void LaneMachine::leave(const Step& step) {
  const NodeId id = registers_[step.base + ((period_ - step.periods) & step.mask)];
  slack_.allocated -= at(id).size - step.bytes;
}

inline bool LaneMachine::room_for(const LaneGroup& group) const {
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

// Flattened, as are the allocator's own two: a tenth of it would go into calls.
[[gnu::flatten]] bool LaneMachine::run(std::vector<Slack>& notes) {
  const std::size_t end = steps_.size();
  for (std::size_t i = 0; i < end; ++i) {
    Step& step = steps_[i];
    if (step.kind == Kind::place) {
      if (step.group >= 0) {
        const LaneGroup& group = code_->groups[static_cast<std::size_t>(step.group)];
        bool room = group.bytes <= free_.largest_size() &&
                    !brief_in(static_cast<NodeId>(free_.block(free_.last())));
        if (!room) {
          if (!lay_down_all()) return false;
          room = room_for(group);
        }
        if (room) {
          for (std::int32_t k = group.others; k < group.others_end; ++k) {
            Step& other =
                steps_[static_cast<std::size_t>(code_->others[static_cast<std::size_t>(k)])];
            if (other.kind == Kind::leave) {
              leave(other);
            } else if (!release(other)) {
              return false;
            }
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
    } else if (!release(step)) {
      return false;
    }
  }
  assert(briefs_ == 0);
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

}  // namespace sim::allocator
