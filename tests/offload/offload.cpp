// Optimizers on the CPU: closed forms, and bounds over all small shapes.
#include "sim/offload/offload.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <string>

using namespace sim;
using namespace sim::offload;

namespace {

// Round numbers: a byte takes 1 s to the rank and 0.25 s of the node's memory.
Rates rates() {
  Rates r;
  r.cores = 1;
  r.memory = 4;
  r.ranks = 1;
  r.pcie_up = 16;
  r.pcie_down = 12;
  r.blocking_flush = 0.5;
  r.gpu_update = 1;
  return r;
}

constexpr Traffic round_numbers{40, 20, 12};

std::vector<Task> timed_step(const Method& method, const Shape& shape, const Rates& r) {
  return timed(method.step(shape), r);
}

void each_shape(const std::function<void(const Method&, const Shape&)>& visit) {
  for (const Method& method : catalog())
    for (const std::int64_t parameters : {1, 7, 12, 60})
      for (const std::int64_t group : {1, 4, 5, 100})
        for (const double fraction : {0.0, 0.5, 1.0})
          for (const int stride : {0, 1, 2, 3, 7}) {
            const Shape shape{parameters, group, fraction, stride, {}, round_numbers};
            if (method.problem(shape).empty()) visit(method, shape);
          }
}

double seconds_of(Time t) {
  return seconds(t - Time{});
}

}  // namespace

TEST_CASE("offload: tasks of a queue follow each other and wait for those they name") {
  const std::vector<Task> tasks = {
      {Queue::pcie_up, "a", from_seconds(5), {}, {}},
      {Queue::cpu, "b", from_seconds(3), {}, {}},
      {Queue::cpu, "c", from_seconds(3), {}, {0}},
      {Queue::pcie_up, "d", from_seconds(1), {}, {}},
  };
  const Timeline t = run(tasks);
  CHECK(seconds_of(t.start[1]) == 0);
  CHECK(seconds_of(t.start[2]) == 5);
  CHECK(seconds_of(t.start[3]) == 5);
  CHECK(seconds_of(t.last) == 8);
}

TEST_CASE("offload: what draws on memory takes turns at it") {
  // Two copies of 4 s that each ask 3 s of memory: the second starts when memory is free.
  const std::vector<Task> tasks = {
      {Queue::pcie_up, "up", from_seconds(4), from_seconds(3), {}},
      {Queue::pcie_down, "down", from_seconds(4), from_seconds(3), {}}};
  const Timeline t = run(tasks);
  CHECK(seconds_of(t.start[1]) == 3);
  CHECK(seconds_of(t.last) == 7);
}

TEST_CASE("offload: every parameter is updated once, by every method and for all small shapes") {
  int shapes = 0;
  each_shape([&](const Method& method, const Shape& shape) {
    ++shapes;
    const Rates r = rates();
    constexpr double bytes = 40;
    double updated = 0;
    for (const Task& task : timed_step(method, shape, r)) {
      if (task.label != "update") continue;
      const double each =
          task.queue == Queue::gpu ? 1 / r.gpu_update : bytes / r.cores + bytes / r.memory;
      updated += seconds(task.length) / each;
    }
    if (std::abs(updated - static_cast<double>(shape.parameters)) > 1e-6)
      FAIL(method.name << ": " << updated << " of " << shape.parameters);
  });
  CHECK(shapes > 100);
}

TEST_CASE("offload: no step is shorter than any queue's work or the turns at memory") {
  each_shape([&](const Method& method, const Shape& shape) {
    const Timeline t = run(timed_step(method, shape, rates()));
    for (const Duration busy : t.busy)
      if (busy > t.last - Time{}) FAIL(method.name);
    if (t.memory > t.last - Time{}) FAIL(method.name);
  });
}

TEST_CASE("offload: ZeRO-3 on the CPU takes its bytes over the cores and over the memory") {
  const Shape shape{60, 4, 1, 0, {}, round_numbers};
  CHECK(seconds_of(run(timed_step(*find("zero-3"), shape, rates())).last) ==
        60 * (60.0 + 60.0 / 4));
}

TEST_CASE("offload: ranks of a node share its memory, not their own ways to it") {
  const Shape shape{60, 4, 1, 0, {}, round_numbers};
  Rates four = rates();
  four.ranks = 4;
  CHECK(seconds_of(run(timed_step(*find("zero-3"), shape, four)).last) == 60 * (60.0 + 60.0));
}

TEST_CASE("offload: with every k-th sub-group on the GPU the CPU updates the others") {
  for (const int k : {2, 3, 5}) {
    const Timeline t = run(timed_step(*find("deep"), {60, 1, 1, k, {}, round_numbers}, rates()));
    const int fetched = 60 / k;
    // All of them wait for memory: 24 bytes of each that is fetched, 40 of the others.
    CHECK(seconds_of(t.last) == 1.25 * (fetched * 24 + (60 - fetched) * 40));
    CHECK(seconds(t.busy[static_cast<std::size_t>(Queue::gpu)]) == fetched);
  }
}

TEST_CASE("offload: sub-groups are whole tensors, and the first of them lie on the CPU") {
  Shape shape{20, 5, 0.75, 2, {3, 3, 9, 1, 2, 1, 1}};
  CHECK(sub_groups(shape) == std::vector<std::int64_t>{6, 9, 5});
  // 0.75 of three groups: two. The second is updated on the GPU, its gradients stay there.
  const Split parts = split(shape);
  CHECK(parts.away == std::vector<std::int64_t>{6, 9});
  CHECK(parts.rest == 5);
  CHECK(gradients_down(shape) == std::vector<std::int64_t>{3, 3, 0, 0, 0, 0, 0});
  shape.fraction = 1;
  CHECK(gradients_down(shape) == std::vector<std::int64_t>{3, 3, 0, 1, 2, 1, 1});
  shape.stride = 0;
  CHECK(gradients_down(shape) == shape.tensors);
  CHECK(split(shape).rest == 0);
  shape.fraction = 0.75, shape.stride = 2;
  std::vector<Place> places;
  for (const Home& home : homes(shape)) places.push_back(home.place);
  CHECK(places == std::vector{Place::cpu, Place::cpu, Place::fetched, Place::gpu, Place::gpu,
                              Place::gpu, Place::gpu});
  shape.fraction = 1, shape.stride = 0;
  shape.tensors.push_back(4);  // an open group
  CHECK(sub_groups(shape) == std::vector<std::int64_t>{6, 9, 5, 4});
}

TEST_CASE("offload: a smaller stride is faster while the CPU is what is waited for") {
  double before = 0;
  for (const int k : {2, 3, 4, 6, 10}) {
    const double now =
        seconds_of(run(timed_step(*find("deep"), {60, 1, 1, k, {}, round_numbers}, rates())).last);
    CHECK(now > before);
    before = now;
  }
}

TEST_CASE("offload: an optimizer a tensor overlaps its copies with the next one's update") {
  // A copy takes 8 s of PCIe and 5 s of memory, which the others need too.
  Rates r = rates();
  r.pcie_up = r.pcie_down = 0.5;
  const Shape shape{60, 10, 1, 0, {}, round_numbers};
  const double one = seconds_of(run(timed_step(*find("hybrid"), shape, r)).last);
  const double each = seconds_of(run(timed_step(*find("hybrid-overlap"), shape, r)).last);
  // All gradients first, the update, then all parameters up.
  CHECK(one == 60 * (8 + 1.25 * 40 + 8));
  CHECK(each < one);
  CHECK(each >= 60 * 1.25 * (4 + 40 + 4));
}

TEST_CASE("offload: gradients come down at PCIe's rate, or as blocking copies do") {
  CHECK(flush(*find("deep"), 15, rates()) == from_seconds(15 * 4.0 / 12));
  CHECK(flush(*find("zero-3-flush"), 15, rates()) == from_seconds(15 * 4.0 / 12));
  CHECK(flush(*find("zero-3"), 15, rates()) == from_seconds(15 / 0.5));
}

TEST_CASE("offload: impossible shapes say what is wrong") {
  CHECK(find("deep")->problem({10, 1, 1, 1, {}}).find("2 or more") != std::string::npos);
  CHECK(find("deep")->problem({10, 1, 1, 2, {}}).empty());
  CHECK(find("zero-3")->problem({10, 1, 1, 2, {}}).find("stride 0") != std::string::npos);
  CHECK(find("zero-3")->problem({0, 1, 1, 0, {}}) == "there are no parameters");
  CHECK(!find("zero-3")->problem({10, 0, 1, 0, {}}).empty());
  CHECK(!find("zero-3")->problem({std::int64_t{1} << 40, 1, 1, 0}).empty());
  CHECK(!find("hybrid")->problem({10, 1, 1.5, 0, {}}).empty());
  CHECK(find("nothing") == nullptr);
}
