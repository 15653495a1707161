#include "sim/allocator/allocator.h"

#include "support.h"

using namespace sim;
using namespace sim::allocator;

namespace {

constexpr std::int64_t mib = 1 << 20;

std::vector<std::int64_t> state(const Allocator& allocator) {
  std::vector<std::int64_t> words;
  allocator.save_state(words);
  return words;
}

}  // namespace

TEST_CASE("allocator: a small request takes 2 MiB from the driver and leaves the rest free") {
  BumpDriver driver({1 << 30});
  Allocator allocator(driver);
  const BlockId block = allocator.allocate(1000);
  // 1000 rounds up to 1024; the segment of the small pool is 2 MiB.
  REQUIRE(allocator.address(block) == 0);
  REQUIRE(allocator.size(block) == 1024);
  REQUIRE(allocator.requested(block) == 1000);
  REQUIRE(allocator.statistics().all.reserved_bytes.current == 2 * mib);
  REQUIRE(allocator.statistics().all.inactive_split_bytes.current == 2 * mib - 1024);
  allocator.free(block);
  REQUIRE(allocator.statistics().all.inactive_split_bytes.current == 0);
  allocator.empty_cache();
  REQUIRE(allocator.statistics().all.reserved_bytes.current == 0);
}

TEST_CASE("allocator: sizes round to 512 bytes and segments to the four sizes of the rules") {
  const Options options;
  CHECK(round_size(1, options) == 512);
  CHECK(round_size(512, options) == 512);
  CHECK(round_size(513, options) == 1024);
  CHECK(segment_size(mib, options) == 2 * mib);
  CHECK(segment_size(mib + 512, options) == 20 * mib);
  CHECK(segment_size(10 * mib - 512, options) == 20 * mib);
  CHECK(segment_size(10 * mib, options) == 10 * mib);
  CHECK(segment_size(10 * mib + 512, options) == 12 * mib);
}

TEST_CASE("allocator: power-of-two divisions round up within the power") {
  Options options;
  options.roundup_divisions.fill(4);
  // Between 1024 and 2048 with four divisions: steps of 256, but 1200 <= 512 * 4 stays on 512s.
  CHECK(round_size(1200, options) == 1536);
  // Between 4096 and 8192: steps of 1024.
  CHECK(round_size(4097, options) == 5120);
  CHECK(round_size(5120, options) == 5120);
  CHECK(round_size(8192, options) == 8192);
}

TEST_CASE("allocator: statistics count allocated and freed bytes and reset only peaks") {
  BumpDriver driver({1 << 30});
  Allocator allocator(driver);
  const BlockId a = allocator.allocate(30 * mib);
  const BlockId b = allocator.allocate(12 * mib);
  allocator.free(a);
  const Statistic& bytes = allocator.statistics().large_pool.allocated_bytes;
  CHECK(bytes.current == 12 * mib);
  CHECK(bytes.peak == 42 * mib);
  CHECK(bytes.allocated() == 42 * mib);
  CHECK(bytes.freed() == 30 * mib);
  allocator.reset_peaks();
  CHECK(bytes.peak == 12 * mib);
  CHECK(bytes.allocated() == 42 * mib);
  CHECK(allocator.largest_free_block() == Bytes{30 * mib});
  allocator.free(b);
}

TEST_CASE("allocator: out of memory leaves the allocator as it was and says what was asked") {
  BumpDriver driver({64 * mib});
  Allocator allocator(driver);
  const BlockId block = allocator.allocate(40 * mib);
  REQUIRE(allocator.allocate(30 * mib + 1) == no_block);
  const OutOfMemory& oom = allocator.last_out_of_memory();
  CHECK(oom.requested == 30 * mib + 1);
  CHECK(oom.rounded == 30 * mib + 512);
  CHECK(oom.segment == 32 * mib);
  CHECK(oom.device_free == 24 * mib);
  CHECK(allocator.statistics().num_ooms == 1);
  CHECK(allocator.statistics().num_alloc_retries == 1);
  CHECK(allocator.statistics().all.allocated_bytes.current == 40 * mib);
  allocator.free(block);
  CHECK(allocator.allocate(30 * mib + 1) != no_block);  // cut from the cached 40 MiB
}

TEST_CASE("allocator: a block used on another stream returns when that stream is done") {
  BumpDriver driver({1 << 30});
  Allocator allocator(driver);
  const BlockId block = allocator.allocate(20 * mib);
  allocator.record_stream(block, 1);
  allocator.free(block);
  const BlockId other = allocator.allocate(20 * mib);
  CHECK(allocator.address(other) != 0);  // address 0 is still pending
  allocator.free(other);
  driver.complete(1);
  // Both are free now; equal sizes go by the lowest address.
  CHECK(allocator.address(allocator.allocate(20 * mib)) == 0);
}

TEST_CASE("allocator: saved states are equal exactly when the future is") {
  BumpDriver driver({std::int64_t{1} << 34});
  Allocator allocator(driver);
  const auto microbatch = [&] {
    const BlockId a = allocator.allocate(30 * mib);
    const BlockId b = allocator.allocate(5 * mib);
    const BlockId c = allocator.allocate(700);
    allocator.free(a);
    allocator.free(c);
    allocator.free(b);
  };
  const auto empty = state(allocator);
  microbatch();
  const auto once = state(allocator);
  microbatch();
  CHECK(state(allocator) == once);  // steady from the first on
  CHECK(once != empty);

  const BlockId held = allocator.allocate(700);
  const auto with_700 = state(allocator);
  allocator.free(held);
  CHECK(state(allocator) == once);
  const BlockId other = allocator.allocate(701);  // same block, other request
  CHECK(state(allocator) != with_700);
  allocator.record_stream(other, 2);
  const auto recorded = state(allocator);
  allocator.free(other);
  CHECK(state(allocator) != recorded);  // pending now
  driver.complete(2);
  allocator.poll();
  CHECK(state(allocator) == once);
}

TEST_CASE(
    "allocator: where old blocks are collected, states are equal when their blocks are as old") {
  Options options;
  options.garbage_collection_threshold = 0.8;
  options.per_process_memory_fraction = 0.5;
  BumpDriver driver({std::int64_t{1} << 34});
  Allocator allocator(driver, options);
  const auto use = [&](std::int64_t size) { allocator.free(allocator.allocate(size)); };
  const auto microbatch = [&] {
    use(30 * mib);
    use(60 * mib);
  };
  microbatch();
  microbatch();
  const auto steady = state(allocator);
  microbatch();
  CHECK(state(allocator) == steady);  // more searches, the same ages
  use(60 * mib);
  CHECK(state(allocator) != steady);  // the other block is older than it was
  microbatch();
  CHECK(state(allocator) == steady);
}

TEST_CASE("allocator: a copy of the state in another allocator acts alike") {
  BumpDriver driver({std::int64_t{1} << 34});
  Allocator first(driver);
  const BlockId a = first.allocate(26 * mib);
  const BlockId b = first.allocate(3 * mib);
  first.free(a);
  // 26 MiB free whole, 3 MiB in use at the front of a 20 MiB segment.
  BumpDriver other_driver({std::int64_t{1} << 34});
  Allocator second(other_driver);
  std::vector<BlockId> ids;
  using Piece = Allocator::Piece;
  second.restore({0, 0, 0, false, 0, {{Piece::Kind::free, 26 * mib, 0}}}, ids);
  second.restore({26 * mib,
                  0,
                  0,
                  false,
                  0,
                  {{Piece::Kind::allocated, 3 * mib, 3 * mib}, {Piece::Kind::free, 17 * mib, 0}}},
                 ids);
  REQUIRE(ids.size() == 1);
  CHECK(state(first) == state(second));
  for (const Statistic PoolStatistics::* what :
       {&PoolStatistics::allocation, &PoolStatistics::segment, &PoolStatistics::active,
        &PoolStatistics::inactive_split, &PoolStatistics::allocated_bytes,
        &PoolStatistics::reserved_bytes, &PoolStatistics::active_bytes,
        &PoolStatistics::inactive_split_bytes, &PoolStatistics::requested_bytes})
    CHECK((first.statistics().all.*what).current == (second.statistics().all.*what).current);
  first.free(b);
  second.free(ids[0]);
  CHECK(state(first) == state(second));
  CHECK(second.statistics().all.inactive_split_bytes.current == 0);
}

TEST_CASE("allocator: an oversized block serves a request less than 20 MiB smaller") {
  const auto reuses = [](std::int64_t request) {
    BumpDriver driver({1 << 30});
    Options options;
    options.max_split_size = 100 * mib;
    Allocator allocator(driver, options);
    allocator.free(allocator.allocate(150 * mib));
    return allocator.address(allocator.allocate(request)) == 0;
  };
  CHECK(reuses(130 * mib + 512));
  CHECK_FALSE(reuses(130 * mib));  // 150 >= 130 + 20
  CHECK_FALSE(reuses(50 * mib));   // below the limit: never cut from an oversized block
}

TEST_CASE("allocator: a pool offered as a last resort serves what would be out of memory") {
  const auto serve = [](Rules rules) {
    BumpDriver driver({64 * mib});
    Allocator allocator(driver, {}, rules);
    allocator.begin_pool(1, {.use_on_oom = true});
    const BlockId block = allocator.allocate(40 * mib);
    allocator.end_pool(1);
    allocator.free(block);  // stays cached in the pool, which still has a user
    return allocator.allocate(30 * mib) != no_block;
  };
  CHECK(serve(Rules::newer));
  CHECK_FALSE(serve(Rules::v2_4_0));
}

TEST_CASE("allocator: a pool without splitting hands out whole blocks") {
  BumpDriver driver({1 << 30});
  Allocator allocator(driver);
  allocator.begin_pool(1, {.no_split = true});
  const BlockId block = allocator.allocate(1000);
  CHECK(allocator.size(block) == 2 * mib);
  allocator.end_pool(1);
}

TEST_CASE("allocator: uses recorded during a capture are over when it ends") {
  BumpDriver driver({1 << 30});
  Allocator allocator(driver);
  const BlockId before = allocator.allocate(20 * mib);
  const BlockId during = allocator.allocate(20 * mib);
  allocator.record_stream(before, 1);
  allocator.begin_pool(1);
  allocator.record_stream(during, 1);
  allocator.free(before);
  allocator.free(during);
  CHECK(allocator.statistics().all.active.current == 2);
  allocator.end_pool(1);
  allocator.poll();
  // Only the use from before the capture waits for stream 1.
  CHECK(allocator.statistics().all.active.current == 1);
  driver.complete(1);
  allocator.poll();
  CHECK(allocator.statistics().all.active.current == 0);
}

TEST_CASE("allocator: options are read and checked together and kept across changes at run time") {
  const auto first = parse_options("expandable_segments:True,max_split_size_mb:200");
  REQUIRE(first);
  CHECK(first->expandable_segments);
  CHECK(first->max_split_size == 200 * mib);
  const auto second = parse_options("garbage_collection_threshold:0.8", Rules::newer, *first);
  REQUIRE(second);
  CHECK(second->expandable_segments);          // keeps its value
  CHECK(second->max_split_size == unlimited);  // starts afresh
  CHECK(second->garbage_collection_threshold == 0.8);

  const auto list = parse_options("roundup_power2_divisions:[2:4,8:2,>:8]");
  REQUIRE(list);
  // The first pair fills the entries below it; what lies between stays 0; > begins after 8 MiB.
  CHECK(list->roundup_divisions ==
        std::array<int, 16>{4, 4, 0, 2, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8});
  const auto old = parse_options("roundup_power2_divisions:[2:4,8:2,>:8]", Rules::v2_4_0);
  REQUIRE(old);
  CHECK(old->roundup_divisions[3] == 8);  // 2.4.0 overwrites the last named entry
}

TEST_CASE("allocator: options may lie on their bounds and no further") {
  for (const char* good : {"per_process_memory_fraction:0",
                           "per_process_memory_fraction:1",
                           "garbage_collection_threshold:0.000001",
                           "garbage_collection_threshold:0.999999",
                           "max_split_size_mb:20",
                           "max_split_size_mb:1073741824",
                           "large_segment_size_mb:11,max_split_size_mb:11",
                           "max_split_size_mb:11,large_segment_size_mb:11",
                           "max_non_split_rounding_mb:20",
                           "pinned_num_register_threads:1",
                           "pinned_num_register_threads:128",
                           "expandable_segments_reserve:1.125",
                           "expandable_segments_reserve:1073741824M",
                           "expandable_segments_reserve:1048576G",
                           "backend:native",
                           "roundup_power2_divisions:1",
                           "roundup_power2_divisions:1048576",
                           "roundup_power2_divisions:[1:0,>:1048576]",
                           "",
                           " \t ",
                           "-"}) {
    INFO(good);
    CHECK(parse_options(good));
  }
  for (const char* bad : {"per_process_memory_fraction:-0.01",
                          "per_process_memory_fraction:1.01",
                          "garbage_collection_threshold:0",
                          "garbage_collection_threshold:1",
                          "max_split_size_mb:19",
                          "per_process_memory_fraction:nan",
                          "per_process_memory_fraction:0.5x",
                          "garbage_collection_threshold:nan",
                          "max_split_size_mb:20x",
                          "max_split_size_mb:",
                          "max_split_size_mb:99999999999999999999",
                          "max_split_size_mb:1073741825",
                          "max_split_size_mb:11,large_segment_size_mb:12",
                          "large_segment_size_mb:10",
                          "max_non_split_rounding_mb:19",
                          "pinned_num_register_threads:0",
                          "pinned_num_register_threads:129",
                          "expandable_segments_reserve:0",
                          "expandable_segments_reserve:0M",
                          "expandable_segments_reserve:1.126",
                          "expandable_segments_reserve:inf",
                          "expandable_segments_reserve:nan",
                          "expandable_segments_reserve:G",
                          "expandable_segments_reserve:",
                          "expandable_segments_reserve:1073741825M",
                          "expandable_segments_reserve:1048577G",
                          "backend:cuda",
                          "roundup_power2_divisions:0",
                          "roundup_power2_divisions:3",
                          "roundup_power2_divisions:-2",
                          "roundup_power2_divisions:",
                          "roundup_power2_divisions:2097152",
                          "roundup_power2_divisions:[2:4",
                          "roundup_power2_divisions:[2]",
                          "roundup_power2_divisions:[:2]",
                          "roundup_power2_divisions:[>]",
                          "roundup_power2_divisions:[2:3]",
                          "roundup_power2_divisions:[0:2]",
                          "expandable_segments:True,"}) {
    INFO(bad);
    CHECK_FALSE(parse_options(bad));
  }
}

TEST_CASE("allocator: options that PyTorch 2.4.0 has otherwise, or does not have") {
  const auto said = [](const char* text, Rules rules) {
    const auto options = parse_options(text, rules);
    return options ? "" : options.errors()[0].where + ": " + options.errors()[0].message;
  };
  for (const char* newer : {"max_non_split_rounding_mb", "large_segment_size_mb"}) {
    const std::string text = std::string(newer) + ":20";
    CHECK(said(text.c_str(), Rules::newer).empty());
    CHECK(said(text.c_str(), Rules::v2_4_0) ==
          "options:1: " + std::string(newer) + " does not exist in 2.4.0");
  }
  CHECK(said("max_split_size_mb:21", Rules::v2_4_0).empty());
  CHECK(said("max_split_size_mb:20", Rules::v2_4_0) ==
        "options:1: max_split_size_mb must be a whole number of MiB from 21 to 1073741824, not "
        "\"20\"");
  CHECK(said("max_split_size_mb:0", Rules::newer) ==
        "options:1: max_split_size_mb must be a whole number of MiB from 1 to 1073741824, not "
        "\"0\"");
  CHECK(said(" large_segment_size_mb:32,max_split_size_mb:31", Rules::newer) ==
        "options:27: max_split_size_mb must be at least the large segment size, 32");
}

TEST_CASE("allocator: options have the values that are written, blanks or not") {
  const auto all = parse_options(
      " large_segment_size_mb : 32 ,\tmax_non_split_rounding_mb:24,pinned_num_register_threads:8,"
      "per_process_memory_fraction:0.5,expandable_segments_reserve:0.25");
  REQUIRE(all);
  CHECK(all->large_segment == 32 * mib);
  CHECK(all->max_non_split_rounding == 24 * mib);
  CHECK(all->max_split_size == unlimited);
  CHECK(all->pinned_num_register_threads == 8);
  CHECK(all->per_process_memory_fraction == 0.5);
  CHECK(all->expandable_reserve_fraction == 0.25);
  CHECK(all->expandable_reserve_bytes == 0);
  const auto amount = parse_options("expandable_segments_reserve:1.5M", Rules::newer, *all);
  REQUIRE(amount);
  CHECK(amount->expandable_reserve_fraction == 0);
  CHECK(amount->expandable_reserve_bytes == 3 * mib / 2);
  const auto larger = parse_options("expandable_segments_reserve:1.5G", Rules::newer, *all);
  REQUIRE(larger);
  CHECK(larger->expandable_reserve_bytes == 1536 * mib);
  // Sizes above the last entry, 32 GiB, are of it; a list of > alone is of all.
  const auto list = parse_options("roundup_power2_divisions:[32768:2, 65536 : 4]");
  REQUIRE(list);
  CHECK(list->roundup_divisions ==
        std::array<int, 16>{2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 4});
  const auto each = parse_options("roundup_power2_divisions:[>:8]");
  REQUIRE(each);
  CHECK(each->roundup_divisions ==
        std::array<int, 16>{8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8});
}

TEST_CASE("allocator: wrong options are all reported with their columns") {
  const auto options = parse_options(
      "max_split_size:100,expandable_segments:yes,roundup_power2_divisions:[3:2],"
      "garbage_collection_threshold:1,backend:cudaMallocAsync,x");
  REQUIRE_FALSE(options);
  std::vector<std::string> found;
  for (const Diagnostic& e : options.errors()) found.push_back(e.where + ": " + e.message);
  CHECK(found ==
        std::vector<std::string>{
            "options:130: \"x\" is not key:value",
            "options:1: unknown allocator option \"max_split_size\"; did you mean "
            "'max_split_size_mb'?",
            "options:20: expandable_segments must be True or False",
            "options:44: roundup_power2_divisions: \"3:2\" is not MiB:n, both powers of two",
            "options:75: garbage_collection_threshold must lie between 0 and 1, both excluded",
            "options:106: backend cudaMallocAsync is not modelled; write native",
        });
}
