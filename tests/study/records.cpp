#include "sim/study/sweep/records.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>

using namespace sim::study;
namespace fs = std::filesystem;

namespace {

const std::vector<std::string> ids = {"00000000000000a0", "00000000000000b0", "00000000000000c0"};

std::string fresh_folder(const std::string& name) {
  const fs::path folder = fs::path(REHEARSE_BINARY_DIR) / "records" / name;
  fs::remove_all(folder);
  return folder.string();
}

std::string record(int point) {
  return "{\"id\":\"" + ids[static_cast<std::size_t>(point)] +
         "\",\"outcome\":\"fits\",\"n\":" + std::to_string(point) + "}";
}

std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

RecordProblem add(RecordFile& file, int point) {
  return file.append(ids[static_cast<std::size_t>(point)], record(point));
}

// A record as the file holds it.
std::string kept(int point) {
  return sealed(record(point)) + "\n";
}

const std::string in_order = kept(0) + kept(1) + kept(2);

}  // namespace

TEST_CASE("study: records end in the order of the grid whatever order they came in") {
  const std::string folder = fresh_folder("order");
  RecordFile file;
  REQUIRE(file.open(folder, RecordFile::Mode::fresh, ids) == RecordProblem::none);
  for (const int point : {2, 0, 1}) REQUIRE(add(file, point) == RecordProblem::none);
  CHECK(text_of(file.path()) == kept(2) + kept(0) + kept(1));
  REQUIRE(file.finish() == RecordProblem::none);
  CHECK(text_of(file.path()) == in_order);
}

TEST_CASE("study: a file that was cut at any byte of its last record goes on to the same bytes") {
  const std::string whole = kept(2) + kept(0);
  for (std::size_t bytes = 0; bytes <= whole.size(); ++bytes) {
    const std::string folder = fresh_folder("torn");
    fs::create_directories(folder);
    std::ofstream(folder + "/results.jsonl", std::ios::binary) << whole.substr(0, bytes);
    RecordFile file;
    REQUIRE(file.open(folder, RecordFile::Mode::go_on, ids) == RecordProblem::none);
    const auto kept_of = [&](int point) { return file.find(ids[static_cast<std::size_t>(point)]); };
    CHECK((kept_of(2) != nullptr) == (bytes >= kept(2).size()));
    CHECK((kept_of(0) != nullptr) == (bytes == whole.size()));
    for (int point = 0; point < 3; ++point) {
      if (file.find(ids[static_cast<std::size_t>(point)]) == nullptr) {
        REQUIRE(add(file, point) == RecordProblem::none);
      }
    }
    REQUIRE(file.finish() == RecordProblem::none);
    CHECK(text_of(file.path()) == in_order);
  }
}

TEST_CASE("study: a second writer is refused until the first has ended") {
  const std::string folder = fresh_folder("locked");
  {
    RecordFile first;
    REQUIRE(first.open(folder, RecordFile::Mode::fresh, ids) == RecordProblem::none);
    RecordFile second;
    CHECK(second.open(folder, RecordFile::Mode::go_on, ids) == RecordProblem::locked);
    CHECK(second.message().find("is being written by another process") != std::string::npos);
  }
  RecordFile third;
  CHECK(third.open(folder, RecordFile::Mode::go_on, ids) == RecordProblem::none);
}

TEST_CASE("study: one that is about to end is waited for") {
  const std::string folder = fresh_folder("about-to-end");
  std::optional<RecordFile> first(std::in_place);
  REQUIRE(first->open(folder, RecordFile::Mode::fresh, ids) == RecordProblem::none);
  std::thread ends([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    first.reset();
  });
  RecordFile second;
  CHECK(second.open(folder, RecordFile::Mode::go_on, ids) == RecordProblem::none);
  ends.join();
}

TEST_CASE("study: an unfinished sweep is not thrown away by mistake") {
  const std::string folder = fresh_folder("unfinished");
  {
    RecordFile file;
    REQUIRE(file.open(folder, RecordFile::Mode::fresh, ids) == RecordProblem::none);
    REQUIRE(add(file, 1) == RecordProblem::none);
  }
  {
    RecordFile again;
    CHECK(again.open(folder, RecordFile::Mode::fresh, ids) == RecordProblem::unfinished);
  }
  CHECK(text_of(folder + "/results.jsonl") == kept(1));
  {
    RecordFile over;
    REQUIRE(over.open(folder, RecordFile::Mode::overwrite, ids) == RecordProblem::none);
  }
  CHECK(text_of(folder + "/results.jsonl").empty());
}

TEST_CASE("study: a finished sweep is replaced only by who says so") {
  const std::string folder = fresh_folder("finished");
  fs::create_directories(folder);
  std::ofstream(folder + "/results.jsonl") << in_order;
  std::ofstream(folder + "/results.csv") << "point\n";
  {
    RecordFile file;
    CHECK(file.open(folder, RecordFile::Mode::fresh, ids) == RecordProblem::finished);
    CHECK(file.message().find("holds 3 records of a sweep that is done") != std::string::npos);
  }
  CHECK(text_of(folder + "/results.jsonl") == in_order);
  CHECK(fs::exists(folder + "/results.csv"));
  RecordFile file;
  REQUIRE(file.open(folder, RecordFile::Mode::overwrite, ids) == RecordProblem::none);
  CHECK(text_of(folder + "/results.jsonl").empty());
  CHECK_FALSE(fs::exists(folder + "/results.csv"));
}

TEST_CASE("study: records of another grid are kept until somebody says to drop them") {
  const std::string folder = fresh_folder("foreign");
  fs::create_directories(folder);
  const std::string there = sealed("{\"id\":\"00000000000000ff\",\"outcome\":\"fits\"}") + "\n" +
                            "{\"id\":\"00000000000000fe\",\"outcome\":\"fits\"}\n" + kept(1) +
                            sealed("{\"id\":\"" + ids[0] + "\",\"outcome\":\"failed\"}") + "\n";
  std::ofstream(folder + "/results.jsonl") << there << "{\"id\":\"0";
  {
    RecordFile file;
    CHECK(file.open(folder, RecordFile::Mode::go_on, ids) == RecordProblem::foreign);
    CHECK(file.foreign() == 2);
  }
  CHECK(text_of(folder + "/results.jsonl") == there + "{\"id\":\"0");
  RecordFile file;
  REQUIRE(file.open(folder, RecordFile::Mode::take_over, ids) == RecordProblem::none);
  CHECK(file.find(ids[0]) == nullptr);  // a failure is tried again
  CHECK(file.find(ids[1]) != nullptr);
  for (const int point : {0, 2}) REQUIRE(add(file, point) == RecordProblem::none);
  REQUIRE(file.finish() == RecordProblem::none);
  CHECK(text_of(file.path()) == in_order);
}

TEST_CASE("study: a record with any byte changed is made anew") {
  const std::string line = sealed(record(1));
  REQUIRE(is_sound(line));
  for (std::size_t i = 0; i < line.size(); ++i) {
    for (const char other : {'0', 'x', '"', '}', '\0'}) {
      if (line[i] == other) continue;
      std::string changed = line;
      changed[i] = other;
      INFO(changed);
      CHECK_FALSE(is_sound(changed));
    }
    CHECK_FALSE(is_sound(line.substr(0, i)));
  }
  std::string changed = kept(1);
  changed[changed.find("fits")] = 'b';
  const std::string folder = fresh_folder("damaged");
  fs::create_directories(folder);
  std::ofstream(folder + "/results.jsonl") << kept(0) << changed << kept(2);
  RecordFile file;
  REQUIRE(file.open(folder, RecordFile::Mode::go_on, ids) == RecordProblem::none);
  CHECK(file.damaged() == 1);
  CHECK(file.find(ids[1]) == nullptr);
  REQUIRE(add(file, 1) == RecordProblem::none);
  REQUIRE(file.finish() == RecordProblem::none);
  CHECK(text_of(file.path()) == in_order);
}

TEST_CASE("study: a record that is there twice is written once") {
  const std::string folder = fresh_folder("twice");
  fs::create_directories(folder);
  std::ofstream(folder + "/results.jsonl") << kept(0) << kept(1) << kept(2) << kept(1);
  RecordFile file;
  REQUIRE(file.open(folder, RecordFile::Mode::go_on, ids) == RecordProblem::none);
  REQUIRE(file.finish() == RecordProblem::none);
  CHECK(text_of(file.path()) == in_order);
}

TEST_CASE("study: two different results of one point are an error") {
  const std::string folder = fresh_folder("mixed");
  fs::create_directories(folder);
  std::ofstream(folder + "/results.jsonl")
      << kept(1) << sealed("{\"id\":\"" + ids[1] + "\",\"outcome\":\"oom\"}") << "\n";
  RecordFile file;
  CHECK(file.open(folder, RecordFile::Mode::go_on, ids) == RecordProblem::mixed);
}

TEST_CASE("study: a record that this version does not understand is made anew") {
  const std::string folder = fresh_folder("older");
  fs::create_directories(folder);
  std::ofstream(folder + "/results.jsonl") << kept(0) << kept(1);
  const auto readable = [](std::string_view line) { return line != sealed(record(1)); };
  RecordFile file;
  CHECK(file.open(folder, RecordFile::Mode::go_on, ids, readable) == RecordProblem::none);
  CHECK(file.damaged() == 1);
  CHECK(file.find(ids[0]) != nullptr);
  CHECK(file.find(ids[1]) == nullptr);
}

TEST_CASE("study: a full disk is reported with the file") {
  const std::string folder = fresh_folder("full");
  fs::create_directories(folder);
  fs::create_symlink("/dev/full", folder + "/results.jsonl");
  RecordFile file;
  REQUIRE(file.open(folder, RecordFile::Mode::fresh, ids) == RecordProblem::none);
  CHECK(add(file, 0) == RecordProblem::io);
  CHECK(file.message().find("results.jsonl: No space left on device") != std::string::npos);
}

TEST_CASE("study: an id is sixteen hex digits at the start of the line") {
  CHECK(record_id(record(0)) == ids[0]);
  CHECK(record_id("{\"id\":\"00000000000000A0\"}").empty());
  CHECK(record_id("{\"id\":\"00000000\"}").empty());
  CHECK(record_id("{}").empty());
  CHECK(record_id("").empty());
}
