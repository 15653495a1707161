// differential_test.cpp — the fast allocator against the naive one on seeded random programs.
#include <cstdlib>

#include "naive_allocator.h"
#include "support.h"

using namespace sim;
using namespace sim::allocator;

namespace {

constexpr std::int64_t mib = 1 << 20;

// Numbers from a seed, the same on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 2 + 1) {}
  std::int64_t below(std::int64_t n) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<std::int64_t>((state_ >> 11) % static_cast<std::uint64_t>(n));
  }
  bool chance(int percent) { return below(100) < percent; }

 private:
  std::uint64_t state_;
};

struct Pair {
  Pair(std::int64_t capacity, const Options& options, Rules rules)
      : fast_driver({capacity}),
        slow_driver({capacity}),
        fast(fast_driver, options, rules),
        slow(slow_driver, options, rules) {
    fast.set_trace(&trace);
  }

  BumpDriver fast_driver, slow_driver;
  Allocator fast;
  naive::Allocator slow;
  std::vector<TraceEntry> trace;
};

void compare(Pair& pair) {
  REQUIRE(pair.trace == pair.slow.trace);
  pair.trace.clear();
  pair.slow.trace.clear();
  const Statistics& s = pair.fast.statistics();
  const naive::Counts c = pair.slow.counts();
  REQUIRE(s.all.allocated_bytes.current == c.allocated);
  REQUIRE(s.all.reserved_bytes.current == c.reserved);
  REQUIRE(s.all.active_bytes.current == c.active);
  REQUIRE(s.all.requested_bytes.current == c.requested);
  REQUIRE(s.all.inactive_split_bytes.current == c.inactive_split);
  REQUIRE(s.all.allocation.current == c.allocations);
  REQUIRE(s.all.segment.current == c.segments);
  REQUIRE(s.all.active.current == c.actives);
  REQUIRE(s.all.inactive_split.current == c.inactive_splits);
  REQUIRE(s.num_alloc_retries == pair.slow.retries);
  REQUIRE(s.num_ooms == pair.slow.ooms);
  REQUIRE(s.num_sync_all_streams == pair.slow.syncs);
  REQUIRE(s.num_device_alloc == pair.slow.device_allocs);
  REQUIRE(s.num_device_free == pair.slow.device_frees);
}

void compare_blocks(const Pair& pair) {
  std::vector<std::tuple<std::int64_t, std::int64_t, int>> fast, slow;
  for (const SegmentView& segment : pair.fast.segments()) {
    for (const BlockView& block : segment.blocks) {
      fast.emplace_back(block.address, block.size, static_cast<int>(block.state));
    }
  }
  for (const auto& [address, block] : pair.slow.blocks()) {
    if (!block.mapped) continue;
    slow.emplace_back(address, block.size, block.allocated ? 0 : block.idle() ? 2 : 1);
  }
  REQUIRE(fast == slow);
}

std::int64_t random_size(Random& random) {
  switch (random.below(6)) {
    case 0:
      return 1 + random.below(4096);
    case 1:
      return 1 + random.below(2 * mib);
    case 2:
      return mib + random.below(10 * mib);
    case 3:
      return 512 * (1 + random.below(8192));
    case 4:
      return 2 * mib * (1 + random.below(20));
    default:
      return 1 + random.below(120 * mib);
  }
}

void run_program(std::uint64_t seed, const std::string& conf, Rules rules) {
  CAPTURE(seed, conf, rules == Rules::newer);
  Random random(seed);
  const auto options = parse_options(conf, rules);
  REQUIRE(options);
  const std::int64_t capacity = (64 + random.below(2048)) * mib;
  Pair pair(capacity, *options, rules);
  std::vector<std::pair<BlockId, std::int64_t>> live;
  std::vector<int> open;
  std::map<int, int> users;
  Options current = *options;

  for (int step = 0; step < 400; ++step) {
    CAPTURE(step);
    const std::int64_t choice = random.below(100);
    if (choice < 48) {
      const std::int64_t size = random_size(random);
      const int stream = static_cast<int>(random.chance(70) ? 0 : random.below(3));
      const BlockId block = pair.fast.allocate(size, stream);
      const std::int64_t address = pair.slow.allocate(size, stream);
      REQUIRE((block == no_block) == (address < 0));
      if (block != no_block) {
        REQUIRE(pair.fast.address(block) == address);
        live.emplace_back(block, address);
      }
    } else if (choice < 84) {
      if (live.empty()) continue;
      const auto i = static_cast<std::size_t>(random.below(static_cast<std::int64_t>(live.size())));
      pair.fast.free(live[i].first);
      pair.slow.free(live[i].second);
      live[i] = live.back();
      live.pop_back();
    } else if (choice < 90) {
      if (live.empty()) continue;
      const auto i = static_cast<std::size_t>(random.below(static_cast<std::int64_t>(live.size())));
      const int stream = static_cast<int>(random.below(4));
      pair.fast.record_stream(live[i].first, stream);
      pair.slow.record_stream(live[i].second, stream);
    } else if (choice < 93) {
      const int stream = static_cast<int>(random.below(4));
      pair.fast_driver.complete(stream);
      pair.slow_driver.complete(stream);
    } else if (choice < 94) {
      pair.fast.empty_cache();
      pair.slow.empty_cache();
    } else if (choice < 95) {
      const double fraction = static_cast<double>(random.below(11)) / 10.0;
      pair.fast.set_memory_fraction(fraction);
      pair.slow.set_fraction(fraction);
    } else if (choice < 96) {
      const Bytes outside{random.below(capacity / 2)};
      pair.fast_driver.set_outside_use(outside);
      pair.slow_driver.set_outside_use(outside);
    } else if (choice < 97) {
      const char* const changes[] = {"expandable_segments:True", "expandable_segments:False",
                                     "max_split_size_mb:64", "roundup_power2_divisions:4"};
      const auto changed = parse_options(changes[random.below(4)], rules, current);
      REQUIRE(changed);
      current = *changed;
      pair.fast.set_options(current);
      pair.slow.set_options(current);
    } else if (choice < 98) {
      const int pool = 1 + static_cast<int>(random.below(2));
      pair.fast.begin_pool(pool);
      pair.slow.begin_pool(pool);
      open.push_back(pool);
      ++users[pool];
    } else {
      if (!open.empty()) {
        pair.fast.end_pool(open.back());
        pair.slow.end_pool(open.back());
        open.pop_back();
      }
      const int pool = 1 + static_cast<int>(random.below(2));
      if (open.empty() && users[pool] > 0) {
        pair.fast.release_pool(pool);
        pair.slow.release_pool(pool);
        --users[pool];
      }
    }
    compare(pair);
    if (step % 20 == 0) compare_blocks(pair);
  }
  compare_blocks(pair);
}

}  // namespace

TEST_CASE("allocator: the fast allocator agrees with a naive one on random programs") {
  const char* const confs[] = {
      "-",
      "expandable_segments:True",
      "max_split_size_mb:32",
      "max_split_size_mb:100,expandable_segments:True",
      "garbage_collection_threshold:0.5",
      "garbage_collection_threshold:0.3,expandable_segments:True",
      "roundup_power2_divisions:4",
      "roundup_power2_divisions:[1:2,4:8,>:4],max_split_size_mb:64",
  };
  // REHEARSE_SEEDS=N runs N seeds for each list of options instead of 20.
  const char* const wanted = std::getenv("REHEARSE_SEEDS");
  const int seeds = wanted != nullptr ? std::atoi(wanted) : 20;
  for (int seed = 1; seed <= seeds; ++seed) {
    for (const char* conf : confs) {
      for (const Rules rules : {Rules::newer, Rules::v2_4_0}) {
        run_program(static_cast<std::uint64_t>(seed), conf, rules);
      }
    }
  }
}
