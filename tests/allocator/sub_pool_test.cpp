// lane_test.cpp — a sub-pool replayed alone against the allocator itself, on periodic programs
// drawn at random: the same blocks at the begin of every cycle, until the allocator asks its
// driver.
#include <map>

#include "sim/allocator/allocator.h"
#include "sim/allocator/sub_pools/sub_pool_machine.h"
#include "support.h"

using namespace sim;
using namespace sim::allocator;

namespace {

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : state_(seed * 2 + 1) {}
  int below(int n) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int>((state_ >> 33) % static_cast<std::uint64_t>(n));
  }

 private:
  std::uint64_t state_;
};

// A cycle that places tensors of few sizes; each is released some steps behind, or some cycles.
SubPoolCode draw_code(Draw& draw, bool small) {
  const int tensors = 4 + draw.below(60), sizes = 1 + draw.below(8), most_cycles = draw.below(4);
  std::vector<std::int64_t> bytes;
  for (int s = 0; s < sizes; ++s)
    bytes.push_back(small ? 512 * (1 + draw.below(2000))
                          : (1 << 20) + 512 * (1 + draw.below(200'000)));
  std::vector<std::vector<SubPoolStep>> at(static_cast<std::size_t>(2 * tensors));
  SubPoolCode code;
  code.small = small;
  for (int t = 0; t < tensors; ++t) {
    const int begin = 2 * draw.below(tensors);
    const bool stays = draw.below(3) == 0;
    const int cycles = stays ? draw.below(most_cycles + 1) : 0;
    const int end = cycles > 0 ? draw.below(2 * tensors)
                               : std::min(2 * tensors - 1, begin + 1 + draw.below(stays ? 60 : 6));
    code.tensors.push_back({bytes[static_cast<std::size_t>(draw.below(sizes))], cycles, 0, 0});
    at[static_cast<std::size_t>(begin)].push_back({SubPoolStep::Kind::place, t, 0, -1});
    at[static_cast<std::size_t>(end)].push_back({SubPoolStep::Kind::release, t, cycles, -1});
  }
  for (const auto& steps : at) code.steps.insert(code.steps.end(), steps.begin(), steps.end());
  return code;
}

// The same program on the allocator.
class Whole {
 public:
  Whole(const SubPoolCode& code, std::int64_t capacity)
      : code_(code), driver_(Bytes{capacity}), allocator_(driver_) {}

  void play() {
    for (const SubPoolStep& step : code_.steps) {
      const auto key = std::pair(step.tensor, cycle_ - step.cycles);
      if (step.kind == SubPoolStep::Kind::place) {
        const SubPoolTensor& tensor = code_.tensors[static_cast<std::size_t>(step.tensor)];
        held_[key] = allocator_.allocate(tensor.bytes);
        REQUIRE(held_[key] != no_block);
      } else if (const auto block = held_.find(key); block != held_.end()) {
        allocator_.free(block->second);
        held_.erase(block);
      }
    }
    ++cycle_;
  }
  std::int64_t calls() const {
    return allocator_.statistics().num_device_alloc + allocator_.statistics().num_device_free;
  }
  SubPoolMachine machine() const {
    SubPoolCode code = code_;
    prepare(code);
    SubPoolMachine machine(std::make_shared<const SubPoolCode>(std::move(code)), {}, cycle_);
    std::map<std::int64_t, NodeId> nodes;
    std::int64_t slack = 0;
    for (const SegmentView& segment : allocator_.segments()) {
      machine.begin_segment();
      for (const BlockView& block : segment.blocks) {
        const bool free = block.state == BlockState::inactive;
        nodes[block.address] = machine.add_block(block.address, block.size, free);
        if (!free) slack += block.size - block.requested;
      }
    }
    machine.set_slack({slack, slack});
    for (const auto& [key, block] : held_)
      machine.hold(key.first, key.second, nodes.at(allocator_.address(block)));
    return machine;
  }
  void check(const SubPoolMachine& machine, std::int64_t rotated) const {
    for (const auto& [key, block] : held_) {
      const NodeId node = machine.held(key.first, key.second - rotated);
      REQUIRE(machine.address(node) == allocator_.address(block));
      REQUIRE(machine.size(node) == allocator_.size(block));
    }
  }
  std::int64_t cycle() const { return cycle_; }

 private:
  const SubPoolCode& code_;
  BumpDriver driver_;
  Allocator allocator_;
  std::map<std::pair<int, std::int64_t>, BlockId> held_;
  std::int64_t cycle_ = 0;
};

struct Counts {
  int entered = 0, rested = 0, stuck = 0, groups = 0, cycles = 0;
};

void check_code(std::uint64_t seed, Counts& counts) {
  Draw draw(seed);
  const bool small = draw.below(4) == 0;
  const SubPoolCode code = draw_code(draw, small);
  Whole whole(code, std::int64_t{1} << 40);
  for (int n = 0; n < 8; ++n) whole.play();
  SubPoolMachine machine = whole.machine();
  REQUIRE(machine.room_for_sizes());
  ++counts.entered;
  counts.groups += !machine.code().groups.empty();
  std::vector<SubPoolMachine::Slack> notes;
  for (int n = 0; n < 60; ++n) {
    const std::int64_t calls = whole.calls();
    whole.play();
    ++counts.cycles;
    if (!machine.play(notes)) {
      ++counts.stuck;
      REQUIRE(whole.calls() > calls);
      return;
    }
    REQUIRE(whole.calls() == calls);
    if (!machine.rests()) {
      whole.check(machine, 0);
      continue;
    }
    ++counts.rested;
    // Somewhere later, as the sub-pool is when it rests until then.
    const int later = draw.below(20);
    for (int k = 0; k < later; ++k) whole.play();
    REQUIRE(whole.calls() == calls);
    machine.play_rest(whole.cycle() - machine.cycle());
    whole.check(machine, whole.cycle() - machine.cycle());
    return;
  }
}

}  // namespace

TEST_CASE("allocator: a sub-pool replayed alone is the allocator's, cycle for cycle") {
  Counts counts;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    INFO("seed " << seed);
    check_code(seed, counts);
  }
  CHECK(counts.entered == 3000);
  CHECK(counts.rested > 1000);
  CHECK(counts.stuck > 20);
  CHECK(counts.groups > 1000);
  CHECK(counts.cycles > 10'000);
}
