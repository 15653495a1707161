// Random numbers that never change, and results that carry their diagnostics.
#include "sim/base/random.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <string>

#include "sim/base/result.h"

using namespace sim;

TEST_CASE("base: the numbers of a seed are those of SplitMix64") {
  // The first three of the author's own implementation (prng.di.unimi.it/splitmix64.c), seed
  // 1234567.
  Random random(1234567);
  CHECK(random.next() == 6457827717110365317ULL);
  CHECK(random.next() == 3203168211198807973ULL);
  CHECK(random.next() == 9817491932198370423ULL);
}

TEST_CASE("base: uniform numbers stay inside (0, 1) and normal ones have mean 0, deviation 1") {
  Random random(42);
  double sum = 0, squares = 0, uniform = 0;
  constexpr int count = 100'000;
  for (int i = 0; i < count; ++i) {
    const double u = random.uniform();
    REQUIRE(u > 0);
    REQUIRE(u < 1);
    uniform += u;
    const double n = random.normal();
    sum += n;
    squares += n * n;
  }
  // Five standard errors.
  CHECK(std::abs(uniform / count - 0.5) < 5 * std::sqrt(1.0 / 12 / count));
  CHECK(std::abs(sum / count) < 5 / std::sqrt(count));
  CHECK(std::abs(squares / count - 1) < 5 * std::sqrt(2.0 / count));
}

TEST_CASE("base: a result is a value or its diagnostics") {
  const Result<std::string> good = std::string("value");
  REQUIRE(good);
  CHECK(*good == "value");
  CHECK(good->size() == 5);
  const Result<std::string> bad = Diagnostics{{"plan.textproto:3:1", "tp is 0", Fault::data},
                                              {"x", "is not there", Fault::missing}};
  REQUIRE_FALSE(bad);
  CHECK(bad.errors().size() == 2);
  CHECK(bad.errors()[1].fault == Fault::missing);
}
