// offload.cpp — optimizers on the CPU: the work of a step, over all small shapes. The replay's
// times are tested in tests/program/deepspeed_zero3_test.cpp.
#include "sim/job/offload/offload.h"

#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <string>

using namespace sim;
using namespace sim::offload;

namespace {

constexpr Traffic round_numbers{40, 20, 12};

void each_shape(const std::function<void(const Method&, const OptimizerShard&)>& visit) {
  for (const Method& method : catalog())
    for (const std::int64_t parameters : {1, 7, 12, 60})
      for (const std::int64_t group : {1, 4, 5, 100})
        for (const double fraction : {0.0, 0.5, 1.0})
          for (const int stride : {0, 1, 2, 3, 7}) {
            const OptimizerShard shape{parameters, group, fraction, stride, {}, round_numbers};
            if (method.problem(shape).empty()) visit(method, shape);
          }
}

// A sum over all pieces of a step on one queue.
struct Sum {
  std::int64_t updated = 0, bytes = 0, memory = 0;
};

std::map<Queue, Sum> sums(std::string_view method, const OptimizerShard& shape) {
  std::map<Queue, Sum> of;
  for (const Work& work : find(method)->step(shape)) {
    Sum& sum = of[work.queue];
    sum.updated += work.label == "update" ? work.parameters : 0;
    sum.bytes += work.bytes;
    sum.memory += work.memory;
  }
  return of;
}

}  // namespace

TEST_CASE("offload: every parameter is updated once, by every method and for all small shapes") {
  int shapes = 0;
  each_shape([&](const Method& method, const OptimizerShard& shape) {
    ++shapes;
    const auto of = sums(method.name, shape);
    std::int64_t updated = 0;
    for (const auto& [queue, sum] : of) updated += sum.updated;
    if (updated != shape.parameters) FAIL(method.name << ": " << updated);
    if (shape.fraction == 0 && (of.size() != 1 || of.begin()->first != Queue::gpu))
      FAIL(method.name << " works elsewhere than on the GPU");
  });
  CHECK(shapes > 100);
}

TEST_CASE("offload: a piece waits for earlier ones only, and only what it may draws on memory") {
  each_shape([&](const Method& method, const OptimizerShard& shape) {
    const std::vector<Work> step = method.step(shape);
    for (std::size_t i = 0; i < step.size(); ++i) {
      for (const std::size_t earlier : step[i].after)
        if (earlier >= i) FAIL(method.name << ": piece " << i << " waits for " << earlier);
      if (step[i].queue == Queue::gpu && step[i].memory != 0) FAIL(method.name);
    }
  });
}

TEST_CASE("offload: ZeRO-3 on the CPU draws an update and a blocking copy of each parameter") {
  auto of = sums("zero-3", {60, 4, 1, 0, {}, round_numbers});
  CHECK(of[Queue::cpu].memory == 60 * 40);
  CHECK(of[Queue::pcie_up].memory == 60 * 20);
  CHECK(of[Queue::pcie_up].bytes == 60 * 2);
  CHECK(of.count(Queue::gpu) + of.count(Queue::pcie_down) == 0);
}

TEST_CASE("offload: with every k-th sub-group on the GPU the CPU updates the others") {
  for (const int k : {2, 3, 5}) {
    CAPTURE(k);
    auto of = sums("deep", {60, 1, 1, k, {}, round_numbers});
    const int fetched = 60 / k;
    CHECK(of[Queue::gpu].updated == fetched);
    CHECK(of[Queue::cpu].memory == 40 * (60 - fetched));
    CHECK(of[Queue::pcie_down].bytes == 12 * fetched);
    CHECK(of[Queue::pcie_up].bytes == 12 * fetched + 2 * (60 - fetched));
    CHECK(of[Queue::pcie_up].memory + of[Queue::pcie_down].memory == 24 * fetched);
  }
}

TEST_CASE("offload: sub-groups are whole tensors, and the first of them lie on the CPU") {
  OptimizerShard shape{20, 5, 0.75, 2, {3, 3, 9, 1, 2, 1, 1}};
  CHECK(sub_groups(shape) == std::vector<std::int64_t>{6, 9, 5});
  // 0.75 of three groups is two. The second is updated on the GPU, so its gradients stay there.
  const Split parts = split(shape);
  CHECK(parts.on_cpu == std::vector<std::int64_t>{6, 9});
  CHECK(parts.remainder == 5);
  std::vector<StateDevice> places;
  for (const Home& home : home_device(shape)) places.push_back(home.place);
  CHECK(places == std::vector{StateDevice::cpu, StateDevice::cpu, StateDevice::fetched,
                              StateDevice::gpu, StateDevice::gpu, StateDevice::gpu,
                              StateDevice::gpu});
  shape.fraction = 1, shape.stride = 0;
  CHECK(split(shape).remainder == 0);
  shape.tensors.push_back(4);  // an unfinished group
  CHECK(sub_groups(shape) == std::vector<std::int64_t>{6, 9, 5, 4});
}

TEST_CASE("offload: tensors that are not trained are in no sub-group and have no state") {
  const OptimizerShard shape{20, 5, 1, 2, {0, 3, 0, 3, 9, 0, 1, 4, 0}};
  CHECK(sub_groups(shape) == std::vector<std::int64_t>{6, 9, 5});
  const std::vector<Home> where = home_device(shape);
  for (const std::size_t frozen : {0U, 2U, 5U, 8U}) CHECK(where[frozen].place == StateDevice::gpu);
  CHECK(where[3].group == 0);
  CHECK(where[4].place == StateDevice::fetched);
  CHECK(where[7].group == 2);
}

TEST_CASE("offload: an optimizer a tensor sends what one optimizer sends") {
  const OptimizerShard shape{60, 10, 1, 0, {}, round_numbers};
  auto one = sums("hybrid", shape), each = sums("hybrid-overlap", shape);
  for (const Queue queue : {Queue::cpu, Queue::pcie_up, Queue::pcie_down}) {
    CHECK(each[queue].bytes == one[queue].bytes);
    CHECK(each[queue].memory == one[queue].memory);
  }
  CHECK(one[Queue::pcie_down].bytes == 60 * 4);
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
