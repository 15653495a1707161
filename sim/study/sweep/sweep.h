// sweep.h — runs every point of a grid on all cores and keeps what comes out: results.jsonl while
// it goes, results.csv at the end.
//
// Invariants
//  (1) The bytes of both files do not depend on the number of workers, nor on how often the sweep
//      was killed and resumed.
//  (2) Every point of the grid has exactly one record: it fits, runs out of memory, is impossible
//      for a reason, or our program failed on it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sim/answer/answer.h"
#include "sim/input/cluster/cluster.h"
#include "sim/output/json.h"
#include "sim/program/plan/plan.h"
#include "sim/study/sweep/ranks.h"
#include "sim/study/sweep/records.h"
#include "sim/study/sweep/shard.h"

namespace sim::study {

struct Point {
  std::string name, family;  // names are unique in a grid
  std::string cluster;
  std::shared_ptr<const input::Machine> machine;
  std::string machine_digest;  // of everything else that the answer depends on
  program::Plan plan;                          // incomplete when there are problems
  std::optional<answer::CheckedPlan> checked;  // the same plan; set if there are no problems
  engine::MemoryDetail memory = engine::MemoryDetail::exact;
  std::vector<std::string> problems;  // why it is impossible; empty: it is possible
};

// The points of a grid, made when they are asked for: a grid may be large.
struct Points {
  std::size_t count = 0;
  std::function<Point(std::size_t index)> at;
};

// Hash of everything that the point's record depends on, 16 hex digits.
std::string point_id(const Point& point);
std::vector<std::string> point_ids(const Points& points);

// The points of a shard.
Points share_of(const Points& points, const Shard& shard);

struct SweepSettings {
  std::string folder;
  int workers = 1;
  RecordFile::Mode mode = RecordFile::Mode::fresh;
  Ranks* ranks = nullptr;  // the processes that share the sweep; this one is rank 0
};

struct SweepCounts {
  std::size_t done = 0, total = 0, fits = 0, oom = 0;
};

struct SweepCalls {
  // In a worker. REQUIRES: the point has no problems.
  std::function<answer::Answer(const Point&)> evaluate;
  // In the parent, often. False: finish what is under way and stop.
  std::function<bool(const SweepCounts&)> go_on;
};

struct SweepResult {
  RecordProblem problem = RecordProblem::none;
  std::string message;  // of the problem
  bool complete = false;
  std::size_t reused = 0;             // records that were there
  std::size_t foreign = 0;            // records that were there and belong to no point
  std::size_t damaged = 0;            // lines that are not as they were written
  std::size_t dropped_bytes = 0;      // of a record that was cut short
  std::vector<output::Json> records;  // in the order of the grid, when complete
};

SweepResult sweep(const Points& points, const SweepSettings& settings, const SweepCalls& calls);

// The records of `count` points from `first` on, in the order of the grid, without a folder: lines
// without checksums. One worker is this process. Empty where `go_on` said no.
std::vector<std::string> records_of(const Points& points, std::size_t first, std::size_t count,
                                    int workers, const SweepCalls& calls);

// What the other ranks do: they answer points until rank 0 has no more. The points are the same.
void help_sweep(const Points& points, const SweepSettings& settings, const SweepCalls& calls);

// The records of finished shards (merge.h) as the folder that one machine would have left;
// `records` are the parsed lines. "" or what went wrong.
std::string write_results(const std::string& folder, const std::vector<std::string>& lines,
                          const std::vector<output::Json>& records);

}  // namespace sim::study
