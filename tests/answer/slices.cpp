// slices.cpp — lengths of slices: the dynamic programme against all ways to cut a sequence.
#include "sim/answer/slices.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <limits>

#include "sim/base/random.h"

using namespace sim;
using namespace sim::answer;

namespace {

// Every way to cut n units: a cut, or none, behind each.
double least_of_all(const SlicePipeline& pipeline, const SliceTime& time) {
  double least = std::numeric_limits<double>::infinity();
  for (unsigned cuts = 0; cuts < 1u << (pipeline.units - 1); ++cuts) {
    std::vector<int> lengths{1};
    for (int i = 0; i + 1 < pipeline.units; ++i) {
      if (cuts >> i & 1)
        lengths.push_back(1);
      else
        ++lengths.back();
    }
    least = std::min(least, slices_time(pipeline, time, lengths));
  }
  return least;
}

}  // namespace

TEST_CASE("answer: no way to cut a sequence is faster than the one that is found") {
  Random random(3);
  for (int i = 0; i < 60; ++i) {
    const SlicePipeline pipeline{1 + static_cast<int>(random.next() % 11),
                                 1 + static_cast<int>(random.next() % 12),
                                 1 + static_cast<int>(random.next() % 4)};
    // Integer costs: a fixed one, one per unit, and one per pair of units.
    const double fixed = static_cast<double>(random.next() % 20);
    const double each = static_cast<double>(1 + random.next() % 9);
    const double pair = static_cast<double>(random.next() % 5);
    const SliceTime time = [=](int length, int before) {
      return fixed + each * length + pair * (length * before + length * (length + 1) / 2);
    };
    CAPTURE(i, pipeline.units, pipeline.stages, fixed, each, pair);
    const std::vector<int> found = balance_slices(pipeline, time);
    CHECK(slices_time(pipeline, time, found) == least_of_all(pipeline, time));
  }
}

TEST_CASE("answer: one stage leaves sequences whole, and later slices are no longer than earlier") {
  const SliceTime time = [](int length, int before) {
    return 3.0 + length + 0.25 * length * (before + 0.5 * length);
  };
  CHECK(balance_slices({12, 1, 2}, time) == std::vector<int>{12});
  const std::vector<int> found = balance_slices({24, 32, 1}, time);
  CHECK(found.size() > 4);
  CHECK(found.front() > found.back());
  CHECK(std::ranges::is_sorted(found, std::greater<>()));
}
