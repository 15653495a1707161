// grid.h — loads a grid: many plans in one file (workloads/*.textproto, schema grid.proto), or in
// the words of a command line.
//
// `rehearse sweep` and the Python module load a grid and evaluate its points. Points are built on
// demand, so a large grid needs little memory.
//
// Invariants
//  (1) The names of the points are unique. A point's name does not depend on other points.
//  (2) Points are counted before any is built. More than max_points are refused.
//  (3) An impossible point is still a point, with its reasons.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/result.h"
#include "sim/input/cluster/cluster.h"
#include "sim/program/plan/valid_plan.h"

namespace sim::input {

constexpr std::int64_t max_points = 10'000'000;

struct GridPoint {
  std::string name, family;
  std::vector<std::string> settings;  // "tp=4": the point as a plan of settings
  bool counts_all_attention = false;  // grid.proto: `throughput: paper`
  std::shared_ptr<const Machine> machine;
  program::Plan plan;                       // incomplete when there are problems
  std::optional<program::ValidPlan> valid;  // set if there are no problems
  Diagnostics problems;                     // reasons why it cannot run; `where` is the setting
};

class Grid {
 public:
  const std::string& name() const;
  const std::string& path() const;
  std::size_t size() const;
  // The families in file order, each name once.
  std::vector<std::string> families() const;
  // The machines of all points, in file order.
  std::vector<std::shared_ptr<const Machine>> machines() const;
  // Builds one point. The order is that of the families in the file; the first `vary` block changes
  // slowest. REQUIRES: index < size().
  GridPoint point(std::size_t index) const;

 private:
  friend class GridLoader;
  struct State;
  std::shared_ptr<const State> state_;
};

// Loads a grid file. `overrides`: "key=value" for every point, as on the command line of a plan.
// Error: an override of a key that the grid varies.
Result<Grid> load_grid(const std::string& path, const std::vector<std::string>& overrides = {});

// The grid of "key=v1,v2" words (grid_words.h): all combinations, the first key the slowest. It is
// named after its model, or "sweep" if it has several or a path.
Result<Grid> grid_of_words(const std::vector<std::string>& words);

}  // namespace sim::input
