#include "sim/study/sweep/sweep.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/output/sample.h"

using namespace sim;
using namespace sim::answer;
using namespace sim::study;
namespace fs = std::filesystem;

namespace {

std::vector<Point> grid(int count) {
  std::vector<Point> points;
  for (int i = 0; i < count; ++i) {
    Point point;
    point.name = "toy/" + std::to_string(i);
    point.family = "toy";
    point.cluster = "toy-cluster";
    point.machine_digest = "m";
    point.plan = sample::fits().plan;
    point.plan.batch.micro_batch = i + 1;
    if (i % 5 == 4) point.problems = {"five is impossible", "and so is this"};
    points.push_back(point);
  }
  return points;
}

Points all_of(const std::vector<Point>& points) {
  return {points.size(), [&points](std::size_t i) { return points[i]; }};
}

answer::Answer answer_of(const Point& point) {
  answer::Answer answer =
      point.plan.batch.micro_batch % 3 == 0 ? sample::out_of_memory() : sample::fits();
  answer.plan = point.plan;
  answer.run.step_time = {point.plan.batch.micro_batch * 1'000'000'000'000};
  return answer;
}

std::string fresh_folder(const std::string& name) {
  const fs::path folder = fs::path(REHEARSE_BINARY_DIR) / "sweeps" / name;
  fs::remove_all(folder);
  return folder.string();
}

std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

SweepResult run(const std::string& folder, int workers, RecordFile::Mode mode,
                const std::vector<Point>& points, std::size_t stop_after = 1000) {
  SweepCalls calls;
  calls.evaluate = answer_of;
  calls.go_on = [&](const SweepCounts& counts) { return counts.done < stop_after; };
  return sweep(all_of(points), {folder, workers, mode}, calls);
}

}  // namespace

TEST_CASE("study: a sweep leaves the same bytes at any number of workers") {
  const std::vector<Point> points = grid(30);
  const std::string one = fresh_folder("one");
  const std::string four = fresh_folder("four");
  const SweepResult result = run(one, 1, RecordFile::Mode::fresh, points);
  REQUIRE(result.complete);
  REQUIRE(run(four, 4, RecordFile::Mode::fresh, points).complete);
  CHECK(text_of(one + "/results.jsonl") == text_of(four + "/results.jsonl"));
  CHECK(text_of(one + "/results.csv") == text_of(four + "/results.csv"));
  REQUIRE(result.records.size() == 30);
  CHECK(result.records[0]["outcome"] == "fits");
  CHECK(result.records[2]["outcome"] == "oom");
  CHECK(result.records[4]["outcome"] == "impossible");
  CHECK(result.records[4]["reason"] == "five is impossible; and so is this");
}

TEST_CASE("study: a sweep that was stopped goes on to the bytes of an uninterrupted one") {
  const std::vector<Point> points = grid(30);
  const std::string whole = fresh_folder("whole");
  const std::string parts = fresh_folder("parts");
  REQUIRE(run(whole, 2, RecordFile::Mode::fresh, points).complete);
  CHECK_FALSE(run(parts, 2, RecordFile::Mode::fresh, points, 10).complete);
  CHECK_FALSE(fs::exists(parts + "/results.csv"));
  CHECK_FALSE(run(parts, 2, RecordFile::Mode::go_on, points, 20).complete);
  const SweepResult end = run(parts, 2, RecordFile::Mode::go_on, points);
  CHECK(end.complete);
  CHECK(end.reused >= 20);
  CHECK(text_of(whole + "/results.jsonl") == text_of(parts + "/results.jsonl"));
  CHECK(text_of(whole + "/results.csv") == text_of(parts + "/results.csv"));
}

TEST_CASE("study: a point on which the program crashes is a record and is tried again") {
  const std::vector<Point> points = grid(4);
  const std::string folder = fresh_folder("crash");
  SweepCalls calls;
  calls.go_on = [](const SweepCounts&) { return true; };
  calls.evaluate = [](const Point& point) {
    if (point.name == "toy/2") ::raise(SIGKILL);
    return answer_of(point);
  };
  const SweepResult crashed = sweep(all_of(points), {folder, 2, RecordFile::Mode::fresh}, calls);
  REQUIRE(crashed.complete);
  CHECK(crashed.records[2]["outcome"] == "failed");
  CHECK(crashed.records[3]["outcome"] == "fits");
  const SweepResult again = run(folder, 2, RecordFile::Mode::go_on, points);
  REQUIRE(again.complete);
  CHECK(again.reused == 3);
  CHECK(again.records[2]["outcome"] == "oom");
}

TEST_CASE("study: the id of a point depends on plan and machine and name") {
  Point point = grid(1)[0];
  const std::string id = point_id(point);
  CHECK(id == point_id(point));
  CHECK(record_id("{\"id\":\"" + id + "\"}") == id);
  Point other = point;
  other.machine_digest = "n";
  CHECK(point_id(other) != id);
  other = point;
  other.plan.numerics.fp32_gradients = !other.plan.numerics.fp32_gradients;
  CHECK(point_id(other) != id);
}
