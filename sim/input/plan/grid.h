// grid.h — loads a grid of plans (workloads/*.textproto, schema grid.proto).
//
// Invariants
//  (1) The names of the points are unique, and a point's name does not depend on other points.
//  (2) Points are counted before any is built: more than max_points are refused.
//  (3) A point that is impossible is a point all the same, with the reasons.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/base/result.h"
#include "sim/input/cluster/cluster.h"
#include "sim/program/plan/plan.h"

namespace sim::input {

constexpr std::int64_t max_points = 10'000'000;

struct GridPoint {
  std::string name, family;
  std::shared_ptr<const Machine> machine;
  program::Plan plan;                 // as far as it can be told when there are problems
  std::vector<std::string> problems;  // why it is impossible; empty: it is possible
};

class Grid {
 public:
  const std::string& name() const;
  const std::string& path() const;
  std::size_t size() const;
  // Families in the order of the file, each name once.
  std::vector<std::string> families() const;
  // Every machine that a point may run on, in the order of the file.
  std::vector<std::shared_ptr<const Machine>> machines() const;
  // REQUIRES: index < size(). Families in the order of the file; the first `vary` is the slowest.
  GridPoint point(std::size_t index) const;

 private:
  friend class GridLoader;
  struct State;
  std::shared_ptr<const State> state_;
};

// `overrides` are "key=value" for every point, as on the command line of a plan; a key that the
// grid varies cannot be overridden.
Result<Grid> load_grid(const std::string& path, const std::vector<std::string>& overrides = {});

}  // namespace sim::input
