// Quantities as people write them, and what is said of those that are none.
#include "sim/base/quantity.h"

#include <catch2/catch.hpp>
#include <string>

using namespace sim;

namespace {

template <class T>
std::string message(const Parsed<T>& parsed) {
  const auto* text = std::get_if<std::string>(&parsed);
  return text == nullptr ? "" : *text;
}

}  // namespace

TEST_CASE("base: sizes, rates and times are read with their units") {
  CHECK(std::get<Bytes>(parse_bytes("94GB")) == Bytes{94'000'000'000});
  CHECK(std::get<Bytes>(parse_bytes("40 GiB")) == Bytes{40LL << 30});
  CHECK(std::get<Bytes>(parse_bytes("0B")) == Bytes{0});
  CHECK(std::get<Bandwidth>(parse_bandwidth("400Gb/s")) == Bandwidth{50'000'000'000});
  CHECK(std::get<Bandwidth>(parse_bandwidth("2.4TB/s")) == Bandwidth{2'400'000'000'000});
  CHECK(std::get<Duration>(parse_duration("1.5us")) == Duration{1'500'000});
  CHECK(std::get<double>(parse_flop_rate("989.4TFLOP/s")) == 989.4e12);
  CHECK(std::get<double>(parse_frequency("1980MHz")) == 1980e6);
}

TEST_CASE("base: counts are read with K, M, B and T, or bare") {
  CHECK(std::get<double>(parse_count("1T")) == 1e12);
  CHECK(std::get<double>(parse_count("1.5T")) == 1.5e12);
  CHECK(std::get<double>(parse_count("300B")) == 300e9);
  CHECK(std::get<double>(parse_count("300b")) == 300e9);
  CHECK(std::get<double>(parse_count("2.5M")) == 2.5e6);
  CHECK(std::get<double>(parse_count("4k")) == 4e3);
  CHECK(std::get<double>(parse_count("2e12")) == 2e12);
  for (const char* text : {"", "T", "0", "-1T", "nan", "inf", "1 T", "1TB", "1X", "many"}) {
    INFO(text);
    CHECK(message(parse_count(text)).find("write for example 300B") != std::string::npos);
  }
}

TEST_CASE("base: a bare number is refused and the message writes it with units") {
  CHECK(message(parse_bytes("94")).find("\"94GB\"") != std::string::npos);
  CHECK(message(parse_bandwidth("400")).find("\"400Gb/s\"") != std::string::npos);
  CHECK(message(parse_duration("3")).find("\"3us\"") != std::string::npos);
}

TEST_CASE("base: what is no quantity is refused by name") {
  for (const char* text : {"", "GB", "-1GB", "nanGB", "infGB", "1e400GB", "1XB", "1gb", "0x10B",
                           "1GB/s", "1,5GB", "1GB "}) {
    INFO(text);
    CHECK_FALSE(message(parse_bytes(text)).empty());
  }
  CHECK(message(parse_bytes("-1GB")).find("negative") != std::string::npos);
  CHECK(message(parse_bytes("1XB")).find("unknown unit \"XB\"") != std::string::npos);
  CHECK(message(parse_bytes("99999999999TB")).find("too large") != std::string::npos);
}
