// What messages are made of: the nearest name, and numbers as people read them.
#include "sim/base/text.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "sim/base/json_text.h"
#include "sim/base/random.h"

using namespace sim;

TEST_CASE("base: the edit distance counts insertions, deletions and substitutions") {
  CHECK(edit_distance("", "") == 0);
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("abc", "") == 3);
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("flaw", "lawn") == 2);
}

TEST_CASE("base: a JSON library's message is said without its name and number") {
  CHECK(json_text("[json.exception.parse_error.101] parse error at line 1, column 2: syntax error "
                  "while parsing value - invalid literal") == "parsing value - invalid literal");
  CHECK(json_text("[json.exception.out_of_range.403] key 'a] b' not found") ==
        "key 'a] b' not found");
  CHECK(json_text("no number") == "no number");
}

TEST_CASE("base: a list has commas, and a word before its last") {
  const std::vector<std::string> names = {"a", "b", "c"};
  const std::span<const std::string> all = names;
  CHECK(listed({}, "and").empty());
  CHECK(listed(all.first(1), "and") == "a");
  CHECK(listed(all.first(2), "or") == "a or b");
  CHECK(listed(all, "and") == "a, b and c");
}

TEST_CASE("base: the edit distance is symmetric and obeys the triangle") {
  Random random(7);
  const auto word = [&] {
    std::string text;
    for (std::uint64_t i = random.next() % 6; i > 0; --i)
      text += static_cast<char>('a' + random.next() % 3);
    return text;
  };
  for (int i = 0; i < 2000; ++i) {
    const std::string a = word(), b = word(), c = word();
    REQUIRE(edit_distance(a, b) == edit_distance(b, a));
    REQUIRE((edit_distance(a, b) == 0) == (a == b));
    REQUIRE(edit_distance(a, c) <= edit_distance(a, b) + edit_distance(b, c));
  }
}

TEST_CASE("base: the nearest name is the first of those with the least distance") {
  Random random(9);
  const auto word = [&](std::uint64_t most) {
    std::string text;
    for (std::uint64_t i = random.next() % most; i > 0; --i)
      text += static_cast<char>('a' + random.next() % 3);
    return text;
  };
  for (int i = 0; i < 2000; ++i) {
    const std::string given = word(12);
    std::vector<std::string> names;
    for (int n = 0; n < 8; ++n) names.push_back(word(14));
    std::string best;
    int least = static_cast<int>(given.size()) / 2 + 1;
    for (const std::string& name : names)
      if (const int distance = edit_distance(given, name); distance < least) {
        least = distance;
        best = name;
      }
    REQUIRE(nearest(given, names) == best);
  }
}

TEST_CASE("base: a misspelt name is offered, a strange one is not") {
  const std::vector<std::string> names = {"schedule", "sequence", "recompute"};
  CHECK(nearest("shedule", names) == "schedule");
  CHECK(did_you_mean("sequense", names) == "; did you mean 'sequence'?");
  CHECK(did_you_mean("sche", names) == "; did you mean 'schedule'?");
  const std::vector<std::string> several = {"interleaved-1f1b", "interleaved-zb", "1f1b"};
  CHECK(did_you_mean("interleaved", several) ==
        "; did you mean 'interleaved-1f1b' or 'interleaved-zb'?");
  CHECK(nearest("xyzzy", names).empty());
  CHECK(did_you_mean("xyzzy", names).empty());
  CHECK(nearest("anything", {}).empty());
}

TEST_CASE("base: one thing has no s") {
  CHECK(counted(0, "row") == "0 rows");
  CHECK(counted(1, "row") == "1 row");
  CHECK(counted(-1, "GPU") == "-1 GPUs");
  CHECK(counted(1LL << 40, "byte") == "1099511627776 bytes");
}

TEST_CASE("base: the shortest text of a number reads back as the same number") {
  CHECK(shortest(0.1) == "0.1");
  CHECK(shortest(1e300) == "1e+300");
  CHECK(shortest(-2) == "-2");
  Random random(3);
  for (int i = 0; i < 1000; ++i) {
    const double value = std::ldexp(random.normal(), static_cast<int>(random.next() % 200) - 100);
    REQUIRE(std::stod(shortest(value)) == value);
  }
}

TEST_CASE("base: sizes and times are said in the unit that suits them") {
  CHECK(human(Bytes{512}) == "512 B");
  CHECK(human(Bytes{1536}) == "1.5 KiB");
  CHECK(human(Bytes{544LL << 20}) == "544.0 MiB");
  CHECK(human(Bytes{(12LL << 30) + (1LL << 29)}) == "12.50 GiB");
  CHECK(human(Bytes{-(2LL << 30)}) == "-2.00 GiB");
  CHECK(human(Duration{2'500'000'000'000}) == "2.50 s");
  CHECK(human(Duration{45'600'000'000}) == "45.60 ms");
  CHECK(human(Duration{7'800'000}) == "7.80 us");
}
