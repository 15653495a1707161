#include "sim/allocator/recorded/replay.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <filesystem>
#include <sstream>

#include "support.h"

using namespace sim;
using namespace sim::allocator;

namespace {

std::string replayed(const std::string& text, const std::string& name, Rules rules) {
  const auto trace = parse_trace(text, name, rules);
  REQUIRE(trace);
  std::string out;
  replay_trace(*trace, rules, [&](std::string_view line) {
    out += line;
    out += '\n';
  });
  return out;
}

std::vector<std::string> problems(const std::string& text) {
  const auto trace = parse_trace(text, "t", Rules::newer);
  std::vector<std::string> found;
  if (trace) return found;
  for (const Diagnostic& error : trace.errors())
    found.push_back(error.where + ": " + error.message);
  return found;
}

Rules rules_named(const std::string& name) {
  return name == "newer" ? Rules::newer : Rules::v2_4_0;
}

}  // namespace

TEST_CASE("allocator: every allocator case replays line for line under both rule sets") {
  std::istringstream list(read_file(memory_test_path("cases/checksums.txt")));
  std::string line;
  int cases = 0;
  while (std::getline(list, line)) {
    if (line.empty() || line.front() == '#') continue;
    const auto fields = split(line, ' ');
    CAPTURE(fields[0], fields[1]);
    const std::string trace = read_file(memory_test_path("cases/" + fields[0] + ".trace"));
    const std::string out = replayed(trace, fields[0], rules_named(fields[1]));
    CHECK(std::to_string(std::count(out.begin(), out.end(), '\n')) == fields[2]);
    char hash[17];
    std::snprintf(hash, sizeof hash, "%016llx",
                  static_cast<unsigned long long>(XXH64(out.data(), out.size(), 0)));
    CHECK(hash == fields[3]);
    ++cases;
  }
  CHECK(cases == 75);  // 38 cases under two rule sets, one of them under the newer only
}

TEST_CASE("allocator: the short cases equal their expected text") {
  int compared = 0;
  for (const auto& entry : std::filesystem::directory_iterator(memory_test_path("cases"))) {
    const std::string path = entry.path().string();
    const bool old = path.ends_with(".expected.2.4.0");
    if (!old && !path.ends_with(".expected")) continue;
    const std::string stem = path.substr(0, path.rfind(".expected"));
    const std::string out =
        replayed(read_file(stem + ".trace"), stem, old ? Rules::v2_4_0 : Rules::newer);
    const auto got = split(out, '\n');
    const auto want = split(read_file(path), '\n');
    CAPTURE(path);
    CHECK(got.size() == want.size());
    for (std::size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
      REQUIRE(got[i] == want[i]);
    }
    ++compared;
  }
  CHECK(compared == 12);
}

TEST_CASE("allocator: a malformed trace reports every problem with line and column") {
  const auto found = problems(
      "# capacity=-1 conf=max_split_size_mb:5,expandable_segment:True\n"
      "a t1 100\n"
      "a t1 100\n"
      "f t2\n"
      "f t1\n"
      "f t1\n"
      "  q 1\n"
      "a t3 -5\n"
      "a t4 99999999999999999999\n"
      "r t3 x\n"
      "pe 1\n"
      "m 1.5\n"
      "a t5\n");
  const std::vector<std::string> expected = {
      "t:1:12: \"-1\" is not a capacity in bytes",
      "t:1:40: unknown allocator option \"expandable_segment\"; did you mean "
      "'expandable_segments'?",
      "t:1:20: max_split_size_mb must be at least the large segment size, 20",
      "t:3:3: \"t1\" is still allocated, since line 2",
      "t:4:3: \"t2\" was never allocated",
      "t:6:3: \"t1\" was already freed, in line 5",
      "t:7:3: unknown command \"q\"; known are a f r s e m x c pb pe pr k d",
      "t:8:6: \"-5\" is not a number of bytes from 0 to 2^50",
      "t:9:6: \"99999999999999999999\" is not a number of bytes from 0 to 2^50",
      "t:10:6: \"x\" is not a stream number from 0 to 65535",
      "t:11:4: pool 1 is not open",
      "t:12:3: \"1.5\" is not a fraction from 0 to 1",
      "t:13:1: expected \"a ID SIZE [STREAM]\"",
  };
  CHECK(found == expected);
}

TEST_CASE("allocator: a trace with endless problems reports the first twenty") {
  std::string text = "# capacity=1000000 conf=-\n";
  for (int i = 0; i < 1000; ++i) text += "zzz\n";
  CHECK(problems(text).size() == 21);
  CHECK(problems("").size() == 1);
  CHECK(problems("a t1 5\n").size() == 1);
}

TEST_CASE("allocator: a request of a trace may have 2^50 bytes and not one more") {
  CHECK(problems("# capacity=1000000 conf=-\na t1 1125899906842624\n").empty());
  CHECK(problems("# capacity=1000000 conf=-\na t1 1125899906842625\n").size() == 1);
}

TEST_CASE("allocator: a request far beyond the device is out of memory and no failure") {
  const std::string out =
      replayed("# capacity=1048576 conf=-\na t1 1000000000000\nf t1\n", "t", Rules::newer);
  CHECK(out.find("E 1 [a t1 1000000000000] oom -1") != std::string::npos);
  CHECK(out.find("E 2 [f t1] noop -1") != std::string::npos);
}

TEST_CASE("allocator: addresses run out before they overflow") {
  // Each stream reserves 9/8 PiB; 2^62 bytes hold fewer than 4096 of them.
  std::string text = "# capacity=1125899906842624 conf=expandable_segments:True\n";
  for (int i = 0; i < 5000; ++i) {
    text += "a t" + std::to_string(i) + " 20971520 " + std::to_string(i) + "\n";
  }
  const auto trace = parse_trace(text, "t", Rules::newer);
  REQUIRE(trace);
  const ReplaySummary summary = replay_trace(*trace, Rules::newer, {});
  CHECK(summary.allocations == 5000);
  CHECK(summary.out_of_memory == 5000 - 3640);  // 2^62 / (9/8 * 2^50), in whole 20 MiB pages
}
