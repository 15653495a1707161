// sub_pool_machine.h — replays one sub-pool of an allocator, cycle for cycle, without the rest of
// it.
//
// It does what Allocator does where nothing needs the driver and no option turns a fitting block
// away: best fit, the lowest address on a tie, cut when the rest is worth keeping, merged with free
// neighbours on release. Addresses and sizes of blocks are the same, byte for byte
// (tests/allocator/sub_pool_test.cpp holds the two to each other).
//
// Slack is what blocks are larger than their requests. All else that is allocated repeats with the
// program.
//
// Invariants
//  (1) Blocks of a segment tile it; no two neighbours are both free.
//  (2) A block has a bin when it is free, and is in it.
//
// A lazy tensor is not placed where that has no consequence: it is kept in mind which block it
// would lie in, and what of that would be left. As long as nobody else looks at that block or would
// rather have the rest, all goes as if it were there, and its release gives back what was never
// taken. As soon as somebody does, it is placed after all: the block is still as it was.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "sim/allocator/free_blocks/free_bins.h"
#include "sim/allocator/sub_pools/sub_pool_code.h"

namespace sim::allocator {

using NodeId = std::int32_t;

class SubPoolMachine {
 public:
  struct Slack {
    std::int64_t allocated = 0, active = 0;  // bytes; active: with blocks that streams still use
  };
  // `sizes`: of the blocks that are free. REQUIRES: the code is prepared.
  SubPoolMachine(std::shared_ptr<const SubPoolCode> code, std::vector<std::int64_t> sizes,
                 std::int64_t cycle);

  // The sub-pool as it is at the begin of the first cycle: blocks of a segment from left to right.
  // REQUIRES: room_for_sizes() afterwards.
  void begin_segment() { last_ = -1; }
  NodeId add_block(std::int64_t address, std::int64_t size, bool free);
  void hold(int tensor, std::int64_t cycle, NodeId node) {
    registers_[place_of(tensor, cycle)] = node;
  }
  void set_slack(Slack slack) { slack_ = most_slack_ = slack; }

  // Replays a cycle; `notes` get the slack at each note. False: the driver is needed, or sizes are
  // too many; the state is of no use any more.
  bool play(std::vector<Slack>& notes);
  // Cycles begun in all, those that it was built with included.
  std::int64_t cycle() const { return static_cast<std::int64_t>(cycle_); }

  // A state that came back: play() stops playing, cycle() stays.
  bool rests() const { return recurrence_ > 0; }
  std::int64_t recurrence() const { return recurrence_; }
  // Plays what is left of `cycles` behind whole cycles. REQUIRES: rests().
  void play_rest(std::int64_t cycles);

  // Whether the free blocks may still get sizes that none had.
  bool room_for_sizes() const { return !free_.full(); }
  // The largest slack at any time so far.
  Slack most_slack() const { return most_slack_; }
  NodeId held(int tensor, std::int64_t cycle) const { return registers_[place_of(tensor, cycle)]; }
  std::size_t nodes() const { return nodes_.size(); }  // more than any NodeId
  std::int64_t address(NodeId id) const { return at(id).address; }
  std::int64_t size(NodeId id) const { return at(id).size; }
  bool free(NodeId id) const { return at(id).bin >= 0; }
  NodeId right(NodeId id) const { return at(id).right; }
  const SubPoolCode& code() const { return *code_; }

 private:
  struct Node {
    std::int64_t address = 0, size = 0;
    NodeId left = -1, right = -1;
    std::int32_t bin = -1;
  };
  // A step with what it found out the last time: half a cache line, for a cycle goes over all.
  struct Step {
    SubPoolStep::Kind kind{};
    bool lazy = false;
    std::uint16_t mask = 0, cycles = 0;
    std::int16_t bin = -1;  // place: of the size that is asked for
    std::uint32_t base = 0;
    std::int32_t group = -1;
    std::int16_t left = -2, right = -2, then = -1;  // bins and what came of them
    std::int64_t bytes = 0;
  };
  static_assert(sizeof(Step) == 32);
  // A lazy tensor that was not placed.
  struct Lazy {
    std::size_t step = 0;
    std::uint32_t home = 0;  // its register
    NodeId block = -1;
    std::int64_t rest = 0, rest_address = 0;  // 0: nothing would be left
  };

  const Node& at(NodeId id) const { return nodes_[static_cast<std::size_t>(id)]; }
  Node& at(NodeId id) { return nodes_[static_cast<std::size_t>(id)]; }
  std::size_t place_of(int tensor, std::int64_t cycle) const {
    const SubPoolTensor& t = code_->tensors[static_cast<std::size_t>(tensor)];
    return t.base + (static_cast<std::uint32_t>(cycle) & t.mask);
  }
  bool run(std::vector<Slack>& notes);
  bool place(Step& step);
  bool take(Step& step, FreeBins::Position fit);
  bool release(Step& step);
  void leave(const Step& step);
  bool room_for(const SubPoolGroup& group) const;
  // What is left of a block; 0 where it is not cut.
  std::int64_t rest_of(const Node& node, std::int64_t bytes) const;
  void add_slack(std::int64_t bytes);

  bool lazy_in(NodeId block) const;
  FreeBins::Position first_fit(const Step& step) const;
  bool would_rather(const Lazy& lazy, std::int64_t bytes, FreeBins::Position fit) const;
  void keep_in_mind(const Step& step, FreeBins::Position fit);
  bool forget(const Step& step);
  bool lay_down(std::size_t lazy);
  bool lay_down_all();
  NodeId new_node();
  void look_for_recurrence();

  std::shared_ptr<const SubPoolCode> code_;
  std::vector<std::int32_t> need_bins_;  // of the sizes of SubPoolCode::needs
  std::vector<Step> steps_;
  std::vector<Node> nodes_;
  std::vector<NodeId> unused_;
  std::vector<NodeId> registers_;
  FreeBins free_;
  NodeId last_ = -1;  // while segments are added
  std::uint32_t cycle_ = 0;
  Slack slack_, most_slack_;
  std::array<Lazy, most_lazy> lazy_;
  std::size_t lazies_ = 0;

  // Brent's search: what the tensors held that lived at the begin of a cycle, kept at distances
  // that double.
  std::vector<std::pair<std::int64_t, std::int64_t>> saved_;
  std::int64_t saved_cycle_ = 0, distance_ = 1;
  std::int64_t recurrence_ = 0;
};

}  // namespace sim::allocator
