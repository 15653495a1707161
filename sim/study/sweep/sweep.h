// sweep.h — evaluates every point of a grid on all cores. Records go to results.jsonl while it
// runs, results.csv is written at the end.
//
// Invariants
// (1) The bytes of both files depend neither on the number of workers nor on kills and resumes.
// (2) Every point has exactly one record: it fits, runs out of memory, is impossible with a reason,
//     or the simulator failed on it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/answer/answer.h"
#include "sim/answer/checked_plan.h"
#include "sim/input/cluster/cluster.h"
#include "sim/output/json.h"
#include "sim/program/plan/plan.h"
#include "sim/study/sweep/ranks.h"
#include "sim/study/sweep/records.h"
#include "sim/study/sweep/shard.h"

namespace sim::study {

struct Point {
  std::string name, family;           // names are unique in a grid
  std::vector<std::string> settings;  // "tp=4": the point as a plan of settings
  bool counts_all_attention = false;  // grid.proto: `throughput: paper`
  std::string cluster;
  std::shared_ptr<const input::Machine> machine;
  std::string machine_digest;                  // of everything else that the answer depends on
  program::Plan plan;                          // incomplete when there are problems
  std::optional<answer::CheckedPlan> checked;  // the same plan; set if there are no problems
  engine::MemoryDetail memory = engine::MemoryDetail::exact;
  bool peaks = false;                 // exact peaks also of plans that no allocator could save
  std::vector<std::string> problems;  // why it is impossible; empty: it is possible
};

// The points of a grid, created on demand since a grid may be large.
struct Points {
  std::size_t count = 0;
  std::function<Point(std::size_t index)> at;
};

// Hash, as 16 hex digits, of everything that the point's record depends on.
std::string point_id(const Point& point);
std::vector<std::string> point_ids(const Points& points);

// The points of a shard.
Points share_of(const Points& points, const Shard& shard);

struct SweepSettings {
  std::string folder;
  int workers = 1;
  RecordFile::Mode mode = RecordFile::Mode::fresh;
  Ranks* ranks = nullptr;  // processes that share the sweep; this one is rank 0
};

struct SweepCounts {
  std::size_t done = 0, total = 0, fits = 0, oom = 0;
};

struct SweepCalls {
  // Runs in a worker. REQUIRES: the point has no problems.
  std::function<answer::Answer(const Point&)> evaluate;
  // Runs in the parent often. False: finish running points and stop.
  std::function<bool(const SweepCounts&)> go_on;
};

struct SweepResult {
  RecordProblem problem = RecordProblem::none;
  std::string message;  // of the problem
  bool complete = false;
  std::size_t reused = 0;             // existing records
  std::size_t foreign = 0;            // existing records of other points
  std::size_t damaged = 0;            // lines with a wrong checksum
  std::size_t dropped_bytes = 0;      // of a torn record
  std::vector<output::Json> records;  // in the order of the grid, if complete
};

SweepResult sweep(const Points& points, const SweepSettings& settings, const SweepCalls& calls);

// The records of `count` points from `first` on, in the order of the grid, without a folder and
// without checksums. One worker means this process. Empty if `go_on` returned false.
std::vector<std::string> records_of(const Points& points, std::size_t first, std::size_t count,
                                    int workers, const SweepCalls& calls);

// Runs on the other ranks: answers points until rank 0 has no more. REQUIRES: the same points.
void help_sweep(const Points& points, const SweepSettings& settings, const SweepCalls& calls);

// Writes the records of finished shards (merge.h) as the folder that one machine would have left.
// `records` are the parsed lines. Returns "" or the error.
std::string write_results(const std::string& folder, const std::vector<std::string>& lines,
                          const std::vector<output::Json>& records);

}  // namespace sim::study
