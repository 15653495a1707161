// timeline.h — runs the orders of a schedule against given times of passes, and draws them as
// papers do. It models no memory, no network and no CPU; the replay models all of them.
//
// A stage runs its steps strictly in order, each as soon as its inputs exist. The forward pass of
// part j needs that of part j - 1. The gradients of part j need those of part j + 1 and the forward
// pass of part j. A weight pass needs its own input pass. A message takes `transfer` and blocks no
// stage. A slice takes its share of a pass.
#pragma once

#include <string>
#include <vector>

#include "sim/job/schedule/schedule.h"

namespace sim::schedule {

struct Timed {
  ScheduledPass step;
  double start, end;
};

struct Timeline {
  bool deadlock = false;
  double makespan = 0;  // from the first start to the last end
  // The longest time of one stage, from its first start to its last end.
  double span = 0;
  std::vector<std::vector<Timed>> rows;  // by stage
  std::vector<double> busy;              // by stage
  std::vector<int> live;  // by stage: most tasks between forward and last backward pass

  // Idle share of the stages' time until the last stage is done, in percent.
  double bubble_percent() const;
};

// REQUIRES: schedule.problem(shape) is empty; `orders` are its orders.
Timeline run(const Schedule& schedule, const PipelineShape& shape,
             const std::vector<Order>& orders);
Timeline run(const Schedule& schedule, const PipelineShape& shape);

// Activations of `live` tasks, in units of a whole stage: 1/p of the model, a whole sequence.
double in_stages(const Schedule& schedule, const PipelineShape& shape, int live);

// The label of a step: "F3"; small letters for chunk 1; "F3:2" for chunk 2; "F3.1" for slice 1.
std::string name(const ScheduledPass& step);

// A picture with one row per stage and one column per `unit` of time. F: forward; B and W:
// gradients of inputs and of weights; D: both; S and T: vocabulary passes. '-' continues a pass,
// '.' is idle. Small letters are chunk 1. With more than two chunks a second row names the chunk of
// each pass.
std::string draw(const Timeline& timeline, double unit = 1);

}  // namespace sim::schedule
