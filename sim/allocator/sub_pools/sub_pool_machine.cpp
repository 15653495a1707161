#include "sim/allocator/sub_pools/sub_pool_machine.h"

#include <algorithm>
#include <cassert>

#include "sim/allocator/options.h"

namespace sim::allocator {

using Kind = SubPoolStep::Kind;

namespace {

// A bin number in 16 bits.
std::int16_t number(int bin) {
  assert(bin <= INT16_MAX);
  return static_cast<std::int16_t>(bin);
}

}  // namespace

SubPoolMachine::SubPoolMachine(std::shared_ptr<const SubPoolCode> code,
                               std::vector<std::int64_t> sizes, std::int64_t cycle)
    : code_(std::move(code)),
      registers_(code_->registers, -1),
      cycle_(static_cast<std::uint32_t>(cycle)) {
  brent_.saved_cycle = cycle;
  for (const SubPoolTensor& tensor : code_->tensors) sizes.push_back(tensor.bytes);
  std::ranges::sort(sizes);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  free_ = FreeBins(sizes);
  steps_.reserve(code_->steps.size());
  for (const SubPoolStep& step : code_->steps) {
    Step& own = steps_.emplace_back();
    own.kind = step.kind;
    if (step.kind == Kind::note) continue;
    const SubPoolTensor& tensor = code_->tensors[static_cast<std::size_t>(step.tensor)];
    own.base = tensor.base;
    assert(tensor.mask <= UINT16_MAX);
    own.mask = static_cast<std::uint16_t>(tensor.mask);
    own.cycles = static_cast<std::uint16_t>(step.cycles);
    own.group = step.group;
    own.bytes = tensor.bytes;
    if (step.kind == Kind::place && room_for_sizes()) own.bin = number(free_.bin_of(tensor.bytes));
  }
  for (const SubPoolNeed& need : code_->needs)
    need_bins_.push_back(room_for_sizes() ? free_.bin_of(need.bytes) : -1);
}

NodeId SubPoolMachine::new_node() {
  if (!unused_.empty()) {
    const NodeId id = unused_.back();
    unused_.pop_back();
    return id;
  }
  nodes_.emplace_back();
  return static_cast<NodeId>(nodes_.size() - 1);
}

NodeId SubPoolMachine::add_block(std::int64_t address, std::int64_t size, bool free) {
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

inline std::int64_t SubPoolMachine::rest_of(const Node& node, std::int64_t bytes) const {
  const std::int64_t rest = node.size - bytes;
  return code_->small || rest > small_size ? rest : 0;
}

inline void SubPoolMachine::add_slack(std::int64_t bytes) {
  if (bytes == 0) return;  // the common case
  slack_.allocated += bytes;
  slack_.active += bytes;
  most_slack_.allocated = std::max(most_slack_.allocated, slack_.allocated);
  most_slack_.active = std::max(most_slack_.active, slack_.active);
}

// Allocates the tensor of a step. False: no free block fits, or there would be too many sizes.
inline bool SubPoolMachine::place(Step& step) {
  const FreeBins::Position fit = free_.first_fit_from(step.bin);
  if (fit.group < 0) return false;
  const auto id = static_cast<NodeId>(free_.block(fit));
  free_.erase(fit);
  registers_[step.base + (cycle_ & step.mask)] = id;
  Node& node = at(id);
  node.bin = -1;
  const std::int64_t rest = rest_of(node, step.bytes);
  if (rest == 0) {
    add_slack(node.size - step.bytes);
    return true;
  }
  node.size = step.bytes;
  const NodeId right = node.right;
  const NodeId back = new_node();  // invalidates `node`
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

// Frees the block of a tensor and merges it with free neighbours. False: there would be too many
// sizes.
inline bool SubPoolMachine::release(Step& step) {
  NodeId id = registers_[step.base + ((cycle_ - step.cycles) & step.mask)];
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

// The tensor is freed, but other streams still use its block.
inline void SubPoolMachine::leave(const Step& step) {
  const NodeId id = registers_[step.base + ((cycle_ - step.cycles) & step.mask)];
  slack_.allocated -= at(id).size - step.bytes;
}

// The second test of SubPoolGroup: every tensor of the group finds room.
inline bool SubPoolMachine::room_for(const SubPoolGroup& group) const {
  // A block may be up to small_size larger than its tensor.
  const std::int64_t largest = group.largest + small_size;
  for (std::int32_t n = group.needs; n < group.needs_end; ++n) {
    const SubPoolNeed& need = code_->needs[static_cast<std::size_t>(n)];
    FreeBins::Position p = free_.first_fit_from(need_bins_[static_cast<std::size_t>(n)]);
    std::int64_t live = need.live;
    // Bin by bin. p.index + 1 is the number of blocks of a bin: the lowest is its last entry.
    for (; live >= 0 && p.group >= 0; p = free_.next({p.group, 0}))
      live -= (p.index + 1) * (1 + (free_.size_at(p) - need.bytes) / (need.bytes + largest));
    if (live >= 0) return false;
  }
  return true;
}

bool SubPoolMachine::play(std::vector<Slack>& notes) {
  look_for_recurrence();
  return rests() || run(notes);
}

// Flattened (all calls inlined), as Allocator::allocate and free: calls would cost a tenth of the
// time.
[[gnu::flatten]] bool SubPoolMachine::run(std::vector<Slack>& notes) {
  const std::size_t end = steps_.size();
  for (std::size_t i = 0; i < end; ++i) {
    Step& step = steps_[i];
    if (step.kind == Kind::place) {
      if (step.group >= 0) {
        const SubPoolGroup& group = code_->groups[static_cast<std::size_t>(step.group)];
        if (group.bytes <= free_.largest_size() || room_for(group)) {
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
  ++cycle_;
  return true;
}

// The state at the start of a cycle is the place of every tensor alive at that time. The free
// blocks follow from it.
void SubPoolMachine::look_for_recurrence() {
  if (rests()) return;
  const std::int64_t now = cycle();
  const auto visit = [&](const auto& see) {
    for (std::size_t t = 0; t < code_->tensors.size(); ++t)
      for (int age = 1; age <= code_->tensors[t].cycles; ++age) {
        const Node& node = at(held(static_cast<int>(t), now - age));
        if (!see(std::pair(node.address, node.size))) return false;
      }
    return true;
  };
  if (now > brent_.saved_cycle) {
    auto next = brent_.saved.begin();
    if (visit([&](const auto& held) { return held == *next++; })) {
      brent_.recurrence = now - brent_.saved_cycle;
      return;
    }
    if (now - brent_.saved_cycle < brent_.distance) return;
    brent_.distance *= 2;
  }
  brent_.saved.clear();
  visit([&](const auto& held) {
    brent_.saved.push_back(held);
    return true;
  });
  brent_.saved_cycle = now;
}

void SubPoolMachine::play_rest(std::int64_t cycles) {
  assert(rests());
  std::vector<Slack> notes;
  for (std::int64_t left = cycles % brent_.recurrence; left > 0; --left) {
    [[maybe_unused]] const bool played = run(notes);
    assert(played);
  }
}

}  // namespace sim::allocator
