// reader_cases.cpp — small files of every format, and everything that is read from them.
#include <fmt/format.h>

#include "sim/base/median.h"
#include "sim/calibrate/readers/lines.h"
#include "sim/calibrate/readers/reader.h"
#include "tests/calibrate/described.h"
#include "tests/cases.h"

using namespace sim;
using namespace sim::calibrate;

TEST_CASE("calibrate: small files of every format are read as they were") {
  cases::hold("tests/calibrate/data/reader_cases.txt", [](const std::string& text) {
    const auto read = read_bytes(text, "file");
    if (read)
      return std::string(read->reader->name) + "\n" + described::described(read->measurements);
    std::string said;
    for (const Diagnostic& problem : read.errors())
      said += problem.where + ": " + problem.message + "\n";
    return said;
  });
}

TEST_CASE("calibrate: lines, words and numbers of logs end where they end") {
  std::string seen;
  for_lines("a\nb\r\nc\n\nd", [&](std::string_view line) { seen += std::string(line) + "|"; });
  CHECK(seen == "a|b||c||d|");
  for (const std::size_t size : {(1u << 16) - 1, 1u << 16, (1u << 16) + 1})
    for_lines(std::string(size, 'x'), [&](std::string_view line) {
      CHECK(line.size() == std::min<std::size_t>(size, 1 << 16));
    });
  CHECK(split_words(" a\tb  c ").size() == 3);
  std::string many;
  for (int i = 0; i < 70; ++i) many += "w ";
  CHECK(split_words(many).size() == 64);
  CHECK(split_words("").empty());
  CHECK(trimmed(" \t a b\t ") == "a b");
  CHECK(trimmed("a") == "a");
  CHECK(trimmed(" ").empty());
  CHECK(without_prefix("[1,0]<stdout>: x") == "x");
  CHECK(without_prefix("[1,0]<stdout>") == "[1,0]<stdout>");
  CHECK(without_prefix("[" + std::string(62, '0') + ">: x") == "x");
  CHECK(without_prefix("[" + std::string(63, '0') + ">: x") != "x");
  CHECK(without_prefix("1234567: x") == "x");
  CHECK(without_prefix("12345678: x") == "12345678: x");
  CHECK(without_prefix(": x") == ": x");
  CHECK(without_prefix("12:x") == "12:x");
  CHECK(without_prefix("12") == "12");
  CHECK(without_colours("\x1b[1;31mred\x1b[0m, \x1bplain\x1b[m") == "red, \x1bplain");
  CHECK(without_colours("a\x1b[12") == "a");
  CHECK(number_after("x = : 12", "x") == 12);
  CHECK(number_after("x 1,234,567", "x") == 1234567);
  CHECK(number_after("x 1,a", "x") == 1);
  CHECK(number_after("x ,1", "x") == 0);
  CHECK(number_after("x 1.5e-3s", "x") == 0.0015);
  CHECK(number_after("x 1.5E+3", "x") == 1500);
  CHECK(number_after("x 2e", "x") == 2);
  CHECK(number_after("x 2.e1", "x") == 20);
  CHECK(number_after("x 1-2", "x") == 1);
  CHECK(number_after("x e5", "x") == 0);
  CHECK(number_after("x 0", "x") == 0);
  CHECK(number_after("x" + std::string(50, '1'), "x") == Approx(1.1111111e39));
  CHECK(count_after("n 12.9", "n") == 12);
  CHECK(count_after("n 1e15", "n") == 1'000'000'000'000'000);
  CHECK(count_after("n 1.1e15", "n") == 0);
  CHECK(date_in("at 2024-08-15T") == "2024-08-15");
  for (const char* no : {"1999-08-15", "2024/08-15", "2024-08/15", "202x-08-15", "20x4-08-15",
                         "2024-x8-15", "2024-0x-15", "2024-08-x5", "2024-08-1x"})
    CHECK(date_in(no) == "");
  CHECK(date_in(std::string(190, ' ') + "2024-08-15") == "2024-08-15");
  CHECK(date_in(std::string(191, ' ') + "2024-08-15") == "");
}

TEST_CASE("calibrate: steps together are their middle and where nine in ten lie") {
  CHECK(summary({}) == "");
  std::vector<StepSample> steps(10);
  CHECK(summary(steps) == "10 steps");
  for (std::size_t i = 0; i < steps.size(); ++i) steps[i].seconds = static_cast<double>(i + 1);
  CHECK(summary(steps) == "10 steps: 5 s a step (nine in ten within 1-9)");
  // Of more than ten steps the first three are warm-up.
  steps.resize(21);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    steps[i].seconds = i < 3 ? 1000 : static_cast<double>(i);
    steps[i].tflops_gpu = i < 3 ? 1000 : 400 + static_cast<double>(i);
    steps[i].tokens_s_gpu = i < 3 ? 1 : 2000;
    steps[i].reserved_gib = i < 3 ? 1 : 62.5;
  }
  CHECK(summary(steps) ==
        "21 steps: 11 s a step (nine in ten within 3-19), 411.5 TFLOP/s per GPU as printed, "
        "2000 tokens/s per GPU, 62.50 GiB reserved");
}

TEST_CASE("calibrate: helpers of readers know their limits") {
  CHECK(first_line("a\r\nb") == "a");
  CHECK(first_line("a") == "a");
  CHECK(first_line("") == "");
  CHECK(first_line("\r") == "");
  CHECK(first_line(std::string(5000, 'x')).size() == 4096);
  CHECK(positive("1.5") == 1.5);
  for (const char* no : {"", "0", "-1", "x", "1x", "inf", "nan", "1e999"}) CHECK(positive(no) == 0);
  CHECK(positive_whole("5", 5) == 5);
  CHECK(positive_whole("6", 5) == 0);
  CHECK(positive_whole("1", 5) == 1);
  CHECK(positive_whole("0.5", 5) == 0);
  CHECK(positive_whole("1.5", 5) == 0);
  CHECK(positive_whole("1e3", 1000) == 1000);
  CHECK(median({}) == 0);
  CHECK(median({3}) == 3);
  CHECK(median({9, 1, 5}) == 5);
  CHECK(median({4, 1, 3, 2}) == 2.5);
  CHECK(date_of(1.26e15) == "");
  CHECK(date_of(1.2600001e15) == "2009-12-05");
  CHECK(date_of(1723716000e6) == "2024-08-15");
  CHECK(date_of(4.0999e15) == "2099-12-02");
  CHECK(date_of(4.1e15) == "");
}

TEST_CASE("calibrate: files of an archive are as long as their headers say") {
  const auto member = [](const std::string& name, const std::string& bytes, char kind = '0') {
    std::string head(512, '\0');
    head.replace(0, name.size(), name);
    head.replace(124, 11, fmt::format("{:011o}", bytes.size()));
    head[156] = kind;
    head.replace(257, 5, "ustar");
    return head + bytes + std::string((512 - bytes.size() % 512) % 512, '\0');
  };
  for (const std::size_t size : {0u, 1u, 511u, 512u, 513u, 4096u}) {
    const std::string archive =
        member("a", std::string(size, 'x')) + member("b", "folder", '5') + member("c", "yz", '\0');
    const std::vector<Member> found = members(archive);
    INFO(size);
    REQUIRE(found.size() == 2);
    CHECK(found[0].name == "a");
    CHECK(found[0].bytes == std::string(size, 'x'));
    CHECK(found[1].name == "c");
    CHECK(found[1].bytes == "yz");
    // An archive truncated within the last file's bytes lacks this file. Truncated behind them it
    // has the file.
    CHECK(members(archive.substr(0, archive.size() - 511)).size() == 1);
    CHECK(members(archive.substr(0, archive.size() - 510)).size() == 2);
  }
  const std::string longest(100, 'n');
  CHECK(members(member(longest, "x")).front().name == longest);
  CHECK(members("text").empty());
  CHECK(members(std::string(512, '\0')).empty());
  std::string much;
  for (int i = 0; i < 10'001; ++i) much += member("a", "");
  CHECK(members(much).size() == 10'000);
}
