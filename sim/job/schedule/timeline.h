// timeline.h — runs the orders of a schedule against given times of passes, and draws them. No
// memory, no network, no CPU: the picture that papers print. The replay does the real thing.
//
// A stage runs its steps strictly in order, each as soon as its inputs are there: the forward pass
// of part j needs that of part j - 1, the gradients of part j need those of part j + 1 and its own
// forward pass, a weight pass needs its own input pass. A message takes `transfer` and occupies
// nobody. A slice takes its share of a pass.
#pragma once

#include <string>
#include <vector>

#include "sim/job/schedule/schedule.h"

namespace sim::schedule {

struct Timed {
  Step step;
  double start, end;
};

struct Timeline {
  bool deadlock = false;
  double makespan = 0;                   // from the first start to the last end
  double span = 0;                       // the longest time of one stage, from its start to its end
  std::vector<std::vector<Timed>> rows;  // by stage
  std::vector<double> busy;              // by stage
  std::vector<int> live;  // by stage: most tasks between forward and last backward pass

  // Idle share of the stages' time until the last of them is done, in percent.
  double bubble_percent() const;
};

// REQUIRES: schedule.problem(shape) is empty, `orders` are its orders.
Timeline run(const Schedule& schedule, const Shape& shape, const std::vector<Order>& orders);
Timeline run(const Schedule& schedule, const Shape& shape);

// Activations of `live` tasks in those of a whole stage: a p-th of the model, a whole sequence.
double in_stages(const Schedule& schedule, const Shape& shape, int live);

// "F3", small letters for chunk 1; "F3:2" for chunk 2, "F3.1" for slice 1.
std::string name(const Step& step);

// One row per stage, one column per `unit` of time: F forward, B and W gradients of inputs and of
// weights, D both, S and T vocabulary passes, '-' where one goes on, '.' idle. Small letters are
// chunk 1. With more than two chunks a second row names the chunk of each pass.
std::string draw(const Timeline& timeline, double unit = 1);

}  // namespace sim::schedule
