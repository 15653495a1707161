// Units: exact sums, named conversions and how they round.
#include "sim/base/units.h"

#include <catch2/catch.hpp>

using namespace sim;
using namespace sim::literals;

TEST_CASE("base: GB is 10^9 bytes, GiB is 2^30, Gb is an eighth of GB") {
  CHECK((1_GBps).bytes_per_second == 1'000'000'000);
  CHECK((8_Gbps) == (1_GBps));
  CHECK((1_MiB).n == 1'048'576);
  CHECK(gib(Bytes{std::int64_t{1} << 30}) == 1.0);
}

TEST_CASE("base: a transfer is never reported as finished early") {
  CHECK(transfer_time(1'000_B, 1_GBps) == 1_us);
  // 1 byte at 3 bytes per second takes a third of a second, rounded up to a whole picosecond.
  CHECK(transfer_time(1_B, Bandwidth{3}).ps == 333'333'333'334);
  CHECK(transfer_time(0_B, 1_GBps).ps == 0);
  // 1 MiB at 50 GB/s: the closed form.
  CHECK(transfer_time(1_MiB, 50_GBps).ps == 20'971'520);
  for (std::int64_t bytes = 1; bytes < 200; ++bytes) {
    for (std::int64_t rate = 1; rate < 200; ++rate) {
      const __int128 ps = transfer_time(Bytes{bytes}, Bandwidth{rate}).ps;
      const __int128 wanted = static_cast<__int128>(bytes) * 1'000'000'000'000;
      REQUIRE(ps * rate >= wanted);
      REQUIRE((ps - 1) * rate < wanted);
    }
  }
}

TEST_CASE("base: seconds become whole picoseconds, rounded up") {
  CHECK(from_seconds(0).ps == 0);
  CHECK(from_seconds(1).ps == 1'000'000'000'000);
  CHECK(from_seconds(1.5e-12).ps == 2);
  CHECK(seconds(1'500_ns) == 1.5e-6);
}

TEST_CASE("base: times subtract to durations and durations add") {
  CHECK(Time{50} - Time{20} == 30_ps);
  CHECK(Time{50} + 20_ps == Time{70});
  CHECK(3 * 20_ps == 60_ps);
  CHECK(5_B - 7_B == Bytes{-2});
}
