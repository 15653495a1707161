// sub_pool_machine.h — replays one sub-pool of the allocator, cycle by cycle, without the others.
//
// The engine calls it for the memory of a rank class once the times of its cycles repeat
// (engine/steady/sub_pool_replay.h). The machine does what Allocator does, with the same addresses
// and sizes: best fit, lowest address first, split if the remainder is large enough, merge with
// free neighbours. It has two preconditions: no call of the driver, and no option that refuses a
// block that fits (Allocator::takes_what_fits). tests/allocator compares both on random programs.
//
// Slack: the bytes by which blocks are larger than their requests. All other allocated bytes repeat
// with the program, so only the slack must be recorded.
//
// Invariants
//  (1) Blocks of a segment tile it. No two neighbours are both free.
//  (2) A block has a bin number if and only if it is free, and it is then in that bin.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "sim/allocator/free_blocks/free_bins.h"
#include "sim/allocator/sub_pools/sub_pool_code.h"

namespace sim::allocator {

using NodeId = std::int32_t;

// A sub-pool and its code. Sizes and addresses in bytes.
class SubPoolMachine {
 public:
  static constexpr int most_sizes = 4096;  // of free blocks: steps store them in 16 bits

  struct Slack {
    std::int64_t allocated = 0, active = 0;  // active includes freed blocks in use by streams
  };
  // `sizes`: sizes of the free blocks. `cycle`: number of the first cycle to play.
  // REQUIRES: the code is prepared.
  SubPoolMachine(std::shared_ptr<const SubPoolCode> code, std::vector<std::int64_t> sizes,
                 std::int64_t cycle);

  // The state at the start of the first cycle. For each segment: begin_segment, then add_block for
  // each block from left to right. hold() assigns a block to a tensor allocated in `cycle`.
  // REQUIRES: room_for_sizes() afterwards.
  void begin_segment() { last_ = -1; }
  NodeId add_block(std::int64_t address, std::int64_t size, bool free);
  void hold(int tensor, std::int64_t cycle, NodeId node) {
    registers_[place_of(tensor, cycle)] = node;
  }
  void set_slack(Slack slack) { slack_ = most_slack_ = slack; }

  // Replays one cycle and appends the slack of each note to `notes`. False: a tensor needs the
  // driver, or there are too many sizes. The state is then invalid.
  bool play(std::vector<Slack>& notes);
  // Number of the next cycle: the first cycle of the constructor plus the cycles played.
  std::int64_t cycle() const { return static_cast<std::int64_t>(cycle_); }

  // Whether the state equals that of an earlier cycle. play() then does nothing, and cycle() stays.
  bool rests() const { return brent_.recurrence > 0; }
  // The number of cycles after which the state recurs; 0 if none is known.
  std::int64_t recurrence() const { return brent_.recurrence; }
  // Brings the state to the one after `cycles` more cycles: plays only the remainder modulo
  // recurrence(). REQUIRES: rests().
  void play_rest(std::int64_t cycles);

  // Whether free blocks of new sizes can still be stored.
  bool room_for_sizes() const { return free_.bins() < most_sizes; }
  // The largest slack so far; its two fields have separate maxima.
  Slack most_slack() const { return most_slack_; }
  NodeId held(int tensor, std::int64_t cycle) const { return registers_[place_of(tensor, cycle)]; }
  std::size_t nodes() const { return nodes_.size(); }  // greater than every NodeId
  std::int64_t address(NodeId id) const { return at(id).address; }
  std::int64_t size(NodeId id) const { return at(id).size; }
  bool free(NodeId id) const { return at(id).bin >= 0; }
  NodeId right(NodeId id) const { return at(id).right; }
  const SubPoolCode& code() const { return *code_; }

 private:
  // A block.
  struct Node {
    std::int64_t address = 0, size = 0;
    NodeId left = -1, right = -1;
    std::int32_t bin = -1;  // of its size, if it is free
  };
  // A step of the code with cached results of its last run. Half a cache line, because a cycle
  // visits every step.
  struct Step {
    SubPoolStep::Kind kind{};
    std::uint16_t mask = 0, cycles = 0;
    std::int16_t bin = -1;  // place: bin of the requested size
    std::uint32_t base = 0;
    std::int32_t group = -1;
    // Cache. place: `left` is the bin of the block taken, `then` that of its remainder. release:
    // `left` and `right` are the bins of the neighbours, `then` that of the merged block.
    std::int16_t left = -2, right = -2, then = -1;
    std::int64_t bytes = 0;
  };
  static_assert(sizeof(Step) == 32);

  const Node& at(NodeId id) const { return nodes_[static_cast<std::size_t>(id)]; }
  Node& at(NodeId id) { return nodes_[static_cast<std::size_t>(id)]; }
  std::size_t place_of(int tensor, std::int64_t cycle) const {
    const SubPoolTensor& t = code_->tensors[static_cast<std::size_t>(tensor)];
    return t.base + (static_cast<std::uint32_t>(cycle) & t.mask);
  }
  bool run(std::vector<Slack>& notes);
  bool place(Step& step);
  bool release(Step& step);
  void leave(const Step& step);
  bool room_for(const SubPoolGroup& group) const;
  // The remainder after a split for `bytes`; 0 if the block would not be split.
  std::int64_t rest_of(const Node& node, std::int64_t bytes) const;
  void add_slack(std::int64_t bytes);

  NodeId new_node();
  void look_for_recurrence();

  std::shared_ptr<const SubPoolCode> code_;
  std::vector<std::int32_t> need_bins_;  // bin of the size of each SubPoolCode::needs
  std::vector<Step> steps_;
  std::vector<Node> nodes_;
  std::vector<NodeId> unused_;
  std::vector<NodeId> registers_;
  FreeBins free_;
  NodeId last_ = -1;  // block added last, while segments are added
  std::uint32_t cycle_ = 0;
  Slack slack_, most_slack_;

  // Brent's cycle detection: address and size of every tensor alive at the start of cycle
  // saved_cycle. The state is saved again at distances that double.
  struct Brent {
    std::vector<std::pair<std::int64_t, std::int64_t>> saved;
    std::int64_t saved_cycle = 0, distance = 1;
    std::int64_t recurrence = 0;  // 0: none is known
  };
  Brent brent_;
};

}  // namespace sim::allocator
