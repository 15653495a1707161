#include "sim/allocator/recorded/pickle.h"

#include "support.h"

using namespace sim;
using namespace sim::allocator;

namespace {

std::string bytes(std::initializer_list<int> values) {
  std::string out;
  for (const int v : values) out += static_cast<char>(v);
  return out;
}

std::int64_t integer(const std::string& body) {
  const std::string input = "\x80\x02" + body + ".";
  const auto pickle = read_pickle(input, "p");
  REQUIRE(pickle);
  REQUIRE(pickle->kind(pickle->root()) == PickleKind::integer);
  return pickle->integer(pickle->root());
}

}  // namespace

TEST_CASE("allocator: pickled integers keep their sign and width") {
  CHECK(integer(bytes({'K', 255})) == 255);
  CHECK(integer(bytes({'M', 1, 2})) == 513);
  CHECK(integer(bytes({'J', 0xfe, 0xff, 0xff, 0xff})) == -2);
  CHECK(integer(bytes({0x8a, 0})) == 0);         // LONG1 of no bytes
  CHECK(integer(bytes({0x8a, 1, 0xff})) == -1);  // sign in the top byte
  CHECK(integer(bytes({0x8a, 2, 0xff, 0})) == 255);
  CHECK(integer(bytes({0x8a, 6, 0, 0, 0, 0, 0, 0x7f})) == std::int64_t{0x7f} << 40);
  CHECK(integer(bytes({0x8a, 8, 0, 0, 0, 0, 0, 0, 0, 0x80})) == INT64_MIN);
}

TEST_CASE("allocator: pickled containers nest and share what the memo names") {
  // {"a": [1, 2], "b": the same list, "c": (1.5, None, True)}
  std::string input = "\x80\x04}(\x8c\x01";
  input += "a](K\x01K\x02";
  input += "e\x94\x8c\x01";
  input += "bh";
  input += bytes({0, 0x8c, 1, 'c', 'G', 0x3f, 0xf8, 0, 0, 0, 0, 0, 0, 'N', 0x88, 0x87, 'u', '.'});
  const auto pickle = read_pickle(input, "p");
  REQUIRE(pickle);
  const PickleId root = pickle->root();
  const PickleId list = pickle->find(root, "a");
  REQUIRE(pickle->items(list).size() == 2);
  CHECK(pickle->integer(pickle->items(list)[1]) == 2);
  CHECK(pickle->find(root, "b") == list);
  const auto& triple = pickle->items(pickle->find(root, "c"));
  REQUIRE(triple.size() == 3);
  CHECK(pickle->real(triple[0]) == 1.5);
  CHECK(pickle->kind(triple[1]) == PickleKind::none);
  CHECK(pickle->kind(triple[2]) == PickleKind::boolean);
  CHECK(pickle->find(root, "d") == no_value);
}

TEST_CASE("allocator: a pickle may take values back and say them twice") {
  CHECK(integer("K\x07K\x08"
                "0") == 7);        // POP of a value
  CHECK(integer("K\x07(0") == 7);  // of a mark
  CHECK(integer("K\x07(K\x08"
                "00") == 7);
  const std::string twice =
      "\x80\x02K\x07"
      "2\x86.";  // DUP, TUPLE2
  const auto pair = read_pickle(twice, "p");
  REQUIRE(pair);
  const auto& items = pair->items(pair->root());
  REQUIRE(items.size() == 2);
  CHECK(items[0] == items[1]);
  CHECK(pair->integer(items[0]) == 7);
  for (const char* body : {"0K\x07.", "2K\x07."})  // of nothing
    CHECK_FALSE(read_pickle("\x80\x02" + std::string(body), "p"));
}

TEST_CASE("allocator: a pickle ends with one value and no open mark") {
  CHECK(read_pickle(bytes({0x80, 2, 'K', 7, '.'}), "p"));
  const std::vector<std::vector<int>> wrong = {
      {0x80, 2, '.'}, {0x80, 2, 'K', 7, 'K', 8, '.'}, {0x80, 2, '(', 'K', 7, '.'}};
  for (const std::vector<int>& all : wrong) {
    std::string input;
    for (const int byte : all) input += static_cast<char>(byte);
    const auto pickle = read_pickle(input, "p");
    REQUIRE_FALSE(pickle);
    CHECK(pickle.errors()[0].message.find("STOP with") != std::string::npos);
  }
}

TEST_CASE("allocator: every opcode byte alone is data or refused and never crashes") {
  for (int opcode = 0; opcode < 256; ++opcode) {
    for (const std::string& tail : {std::string("."), std::string(".........."), std::string()}) {
      const auto pickle = read_pickle(bytes({0x80, 2, ')', opcode}) + tail, "p");
      if (!pickle) CHECK_FALSE(pickle.errors()[0].message.empty());
    }
  }
}
