#include "sim/base/plain_number.h"

#include <catch2/catch.hpp>

using sim::plain_number;

TEST_CASE("base: numbers for readers have commas and no exponent") {
  CHECK(plain_number(25'400'000) == "25,400,000");
  CHECK(plain_number(10'170.4) == "10,170");
  CHECK(plain_number(1e12) == "1,000,000,000,000");
  CHECK(plain_number(123'456.7) == "123,500");
  CHECK(plain_number(1234.5, 6) == "1,234.5");
  CHECK(plain_number(-1234) == "-1,234");
  CHECK(plain_number(-123'456) == "-123,500");
  CHECK(plain_number(999.96) == "1,000");
  CHECK(plain_number(183.47) == "183.5");
  CHECK(plain_number(0.43218) == "0.4322");
  CHECK(plain_number(0) == "0");
  CHECK(plain_number(2.5e-7) == "2.5e-07");
}
