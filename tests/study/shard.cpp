// shard.cpp — shards of work on many machines: the choice of a shard, and their merge into the
// whole.
#include "sim/study/sweep/shard.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "sim/study/sweep/merge.h"
#include "sim/study/sweep/records.h"

using namespace sim;
using namespace sim::study;
namespace fs = std::filesystem;

namespace {

using Variables = std::map<std::string, std::string>;

Environment of(const Variables& variables) {
  return [&variables](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

std::string read(const std::string& text, const Variables& variables = {}) {
  const Result<Shard> shard = read_shard(text, of(variables));
  if (!shard) return "refused: " + shard.errors().front().message;
  return std::to_string(shard->number) + "/" + std::to_string(shard->of);
}

std::string id(std::size_t i) {
  std::string digits = std::to_string(i);
  return std::string(16 - digits.size(), '0') + digits;
}

std::string line(std::size_t i) {
  return sealed("{\"id\":\"" + id(i) + "\",\"answer\":" + std::to_string(i * i) + "}");
}

std::vector<std::string> ids(std::size_t count) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < count; ++i) all.push_back(id(i));
  return all;
}

std::string fresh_folder(const std::string& name) {
  const fs::path folder = fs::path(REHEARSE_BINARY_DIR) / "shards" / name;
  fs::remove_all(folder);
  return folder.string();
}

void write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// A finished shard of `count` items.
std::string make_shard(const std::string& folder, const Shard& shard, std::size_t count) {
  const std::string own = shard_folder(folder, shard);
  REQUIRE(
      write_manifest(own, manifest("sweep", ids(count), shard, {"grid name", "tp=2", "--resume"}))
          .empty());
  std::string text;
  for (std::size_t i = 0; i < share(shard, count); ++i) text += line(item(shard, i)) + "\n";
  write(own + "/results.jsonl", text);
  return own;
}

std::string problems(const Result<Merged>& merged) {
  if (merged) return "";
  std::string all;
  for (const Diagnostic& problem : merged.errors())
    all += problem.where + ": " + problem.message + "\n";
  return all;
}

}  // namespace

TEST_CASE("study: the shares of every small number of machines are disjoint and everything") {
  for (int of = 1; of <= 12; ++of) {
    for (std::size_t items = 0; items <= 30; ++items) {
      std::set<std::size_t> seen;
      std::size_t total = 0;
      for (int number = 1; number <= of; ++number) {
        const Shard shard{number, of};
        total += share(shard, items);
        for (std::size_t i = 0; i < share(shard, items); ++i) seen.insert(item(shard, i));
      }
      REQUIRE(total == items);
      REQUIRE(seen.size() == items);
      if (items > 0) REQUIRE(*seen.rbegin() == items - 1);
    }
  }
}

TEST_CASE("study: a share is written I/N, counted from 1") {
  CHECK(read("1/1") == "1/1");
  CHECK(read("3/8") == "3/8");
  for (const char* text : {"", "0/8", "9/8", "-1/8", "1/0", "1", "1/", "/8", "a/b", "1/8x",
                           "1/1000000", "1.5/8", "AUTO", "99999999999/8"}) {
    INFO(text);
    CHECK(read(text).rfind("refused", 0) == 0);
  }
}

TEST_CASE("study: the share comes from the scheduler that started the job") {
  const Variables slurm = {{"SLURM_ARRAY_TASK_ID", "6"},
                           {"SLURM_ARRAY_TASK_MIN", "4"},
                           {"SLURM_ARRAY_TASK_MAX", "10"},
                           {"SLURM_ARRAY_TASK_STEP", "2"}};
  CHECK(read("auto", slurm) == "2/4");
  CHECK(read("auto", {{"SGE_TASK_ID", "8"},
                      {"SGE_TASK_FIRST", "1"},
                      {"SGE_TASK_LAST", "8"},
                      {"SGE_TASK_STEPSIZE", "1"}}) == "8/8");
  CHECK(read("auto", {{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "4"}}) == "1/4");
  CHECK(read("auto", {{"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "4"}}) == "4/4");
  CHECK(read("auto", {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}) == "2/2");
  CHECK(read("auto/8", {{"PBS_ARRAY_INDEX", "8"}}) == "8/8");
  // Four ranks in each of two tasks of a job array make eight shards.
  CHECK(read("auto", {{"SLURM_ARRAY_TASK_ID", "1"},
                      {"SLURM_ARRAY_TASK_MIN", "0"},
                      {"SLURM_ARRAY_TASK_MAX", "1"},
                      {"SLURM_PROCID", "2"},
                      {"SLURM_STEP_NUM_TASKS", "4"}}) == "7/8");
}

TEST_CASE("study: what a scheduler does not say is asked for") {
  CHECK(read("auto").find("write the share as I/N") != std::string::npos);
  CHECK(read("auto", {{"SGE_TASK_ID", "undefined"}}).rfind("refused", 0) == 0);
  CHECK(read("auto", {{"PBS_ARRAY_INDEX", "3"}}).find("--shard auto/N") != std::string::npos);
  CHECK(read("auto/8", {{"PBS_ARRAY_INDEX", "0"}}).find("qsub -J 1-8") != std::string::npos);
  CHECK(read("auto/8").find("PBS_ARRAY_INDEX") != std::string::npos);
  // A batch script without a step has a rank but no number of tasks.
  CHECK_FALSE(step_shard(of({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}})).has_value());
}

TEST_CASE("study: shards of any number put together are the whole, byte for byte") {
  for (const int of : {1, 2, 3, 8, 20}) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{7}, std::size_t{40}}) {
      const std::string folder = fresh_folder("whole");
      for (int number = of; number >= 1; --number) make_shard(folder, {number, of}, count);
      const Result<Merged> merged = merge({folder});
      INFO(problems(merged));
      REQUIRE(merged);
      REQUIRE(merged->lines.size() == count);
      for (std::size_t i = 0; i < count; ++i) REQUIRE(merged->lines[i] == line(i));
    }
  }
}

TEST_CASE("study: shards may lie in several folders, and one twice") {
  const std::string a = fresh_folder("a"), b = fresh_folder("b");
  make_shard(a, {1, 3}, 10);
  make_shard(a, {2, 3}, 10);
  make_shard(b, {2, 3}, 10);
  const std::string third = make_shard(b, {3, 3}, 10);
  CHECK(merge({a, b}));
  CHECK(merge({shard_folder(a, {1, 3}), shard_folder(a, {2, 3}), third}));
  // The second copy of shard 2 has other contents.
  const std::string other = sealed("{\"id\":\"" + id(4) + "\",\"answer\":9}");
  write(shard_folder(b, {2, 3}) + "/results.jsonl", line(1) + "\n" + other + "\n" + line(7) + "\n");
  CHECK(problems(merge({a, b})).find("with other records") != std::string::npos);
}

TEST_CASE("study: missing and torn shards are named with the command that makes them") {
  const std::string folder = fresh_folder("torn");
  for (const int number : {1, 2, 5, 7}) make_shard(folder, {number, 8}, 40);
  const std::string second = shard_folder(folder, {2, 8}) + "/results.jsonl";
  fs::resize_file(second, fs::file_size(second) - 5);
  fs::remove(shard_folder(folder, {5, 8}) + "/results.jsonl");
  const std::string said = problems(merge({folder}));
  INFO(said);
  CHECK(said.find(folder + ": of 8 shards 4 are missing: 3 to 4, 6, 8") != std::string::npos);
  CHECK(said.find("shard 2 of 8 is torn: 4 of 5 records") != std::string::npos);
  CHECK(said.find("shard 5 of 8 is torn: 0 of 5 records") != std::string::npos);
  CHECK(said.find("rehearse sweep 'grid name' tp=2 --resume -o " + folder + " --shard 2/8") !=
        std::string::npos);
}

TEST_CASE("study: a file cut at any byte is torn, never merged") {
  const std::string folder = fresh_folder("cut");
  make_shard(folder, {1, 2}, 8);
  const std::string path = make_shard(folder, {2, 2}, 8) + "/results.jsonl";
  const auto whole = fs::file_size(path);
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  for (std::uintmax_t size = 0; size < whole; ++size) {
    write(path, text.str().substr(0, size));
    INFO(size);
    REQUIRE_FALSE(merge({folder}));
  }
  write(path, text.str());
  CHECK(merge({folder}));
}

TEST_CASE("study: a file with a changed digit is torn, never merged") {
  const std::string folder = fresh_folder("changed");
  make_shard(folder, {1, 2}, 8);
  const std::string path = make_shard(folder, {2, 2}, 8) + "/results.jsonl";
  std::string changed = line(1);
  changed[changed.find("answer\":1") + 8] = '2';
  write(path, changed + "\n" + line(3) + "\n" + line(5) + "\n" + line(7) + "\n");
  CHECK(problems(merge({folder})).find("a line that is not as it was written") !=
        std::string::npos);
}

TEST_CASE("study: shards of other inputs, versions, counts or kinds are refused") {
  const std::string folder = fresh_folder("mixed");
  make_shard(folder, {1, 2}, 10);
  const std::string second = make_shard(folder, {2, 2}, 10);
  const auto refuse = [&](const Manifest& other, const std::string& why) {
    REQUIRE(write_manifest(second, other).empty());
    const std::string said = problems(merge({folder}));
    INFO(said);
    CHECK(said.find(why) != std::string::npos);
  };
  const Manifest good = manifest("sweep", ids(10), {2, 2}, {});
  Manifest other = good;
  other.version = "9.9.9";
  refuse(other, "version 9.9.9");
  other = good;
  other.fingerprint = "0123456789abcdef";
  refuse(other, "other inputs: fingerprints 0123456789abcdef");
  other = good;
  other.kind = "validate";
  refuse(other, "a validate and a sweep");
  other = good;
  other.shard.of = 3;
  refuse(other, "one of 3 shards and one of 2");
  for (const char* hostile : {"", "{", "[]", "{\"schema\":\"rehearse/shard/1\"}", "null",
                              "{\"schema\":\"rehearse/shard/1\",\"shard\":\"x\"}"}) {
    write(second + "/shard.json", hostile);
    CHECK_FALSE(merge({folder}));
  }
  // The message tells the line where the JSON ends and what to do.
  for (const auto& [text, line] :
       {std::pair{"x", ":1"}, std::pair{"", ":1"}, std::pair{"{\n  \"kind\": \"sw", ":2"}}) {
    write(second + "/shard.json", text);
    const std::string said = problems(merge({folder}));
    INFO(said);
    CHECK(said.find(second + "/shard.json" + line) != std::string::npos);
    CHECK(said.find("is no JSON") != std::string::npos);
    CHECK(said.find("make this shard anew") != std::string::npos);
  }
}

TEST_CASE("study: records of other items than the shards say are refused") {
  const std::string folder = fresh_folder("foreign");
  make_shard(folder, {1, 2}, 4);
  const std::string path = make_shard(folder, {2, 2}, 4) + "/results.jsonl";
  write(path, line(1) + "\n" + line(2) + "\n");
  CHECK(problems(merge({folder})).find("shard 2 of 2 did not end") != std::string::npos);
}

TEST_CASE("study: nothing to put together says so") {
  CHECK(problems(merge({fresh_folder("nowhere")})).find("is no folder") != std::string::npos);
  const std::string empty = fresh_folder("empty");
  fs::create_directories(empty);
  CHECK(problems(merge({empty})).find("holds no shards") != std::string::npos);
}
