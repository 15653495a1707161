#include "sim/memory/allocator.h"

#include <catch2/catch.hpp>

using namespace sim;
using namespace sim::memory;

TEST_CASE("memory: a small request takes 2 MiB from the driver and leaves the rest free") {
  BumpDriver driver({1 << 30});
  Allocator allocator(driver);
  const BlockId block = allocator.allocate(1000);
  // 1000 rounds up to 1024; the segment of the small pool is 2 MiB.
  REQUIRE(allocator.address(block) == 0);
  REQUIRE(allocator.size(block) == 1024);
  REQUIRE(allocator.statistics().all.reserved_bytes.current == 2 << 20);
  REQUIRE(allocator.statistics().all.inactive_split_bytes.current == (2 << 20) - 1024);
  allocator.free(block);
  REQUIRE(allocator.statistics().all.inactive_split_bytes.current == 0);
  allocator.empty_cache();
  REQUIRE(allocator.statistics().all.reserved_bytes.current == 0);
}
