// layer_choices.cpp — what layers keep, swap or run again: the dynamic programme against all
// choices.
#include "sim/answer/layer_choices.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>

#include "sim/base/random.h"

using namespace sim;
using namespace sim::answer;
using program::LayerChoice;

namespace {

// Whole numbers, so that sums are exact in any order.
std::vector<LayerCost> drawn(Random& random, int layers) {
  const auto below = [&](int n) {
    return static_cast<double>(random.next() % static_cast<std::uint64_t>(n));
  };
  std::vector<LayerCost> costs;
  for (int i = 0; i < layers; ++i) {
    LayerCost one;
    one.forward = 1 + below(9);
    one.backward = 1 + below(19);
    one.again = one.forward;
    one.copy = below(30);
    one.input = 1 + below(4);
    one.kept = one.input + below(20);
    costs.push_back(one);
  }
  return costs;
}

// The least time of any choice within a budget, from the definition. A swapped layer waits for its
// copy; the layers up to the next swapped one hide it.
class Exhaustive {
 public:
  Exhaustive(const std::vector<LayerCost>& layers, double budget)
      : layers_(layers), budget_(budget), choices_(layers.size()) {}
  double least() {
    visit(0, 0);
    return least_;
  }

 private:
  void visit(std::size_t layer, double bytes) {
    if (bytes > budget_) return;
    if (layer == layers_.size()) {
      least_ = std::min(least_, seconds_of());
      return;
    }
    choices_[layer] = LayerChoice::keep;
    visit(layer + 1, bytes + layers_[layer].kept);
    choices_[layer] = LayerChoice::recompute;
    visit(layer + 1, bytes + layers_[layer].input);
    if (layer + 1 == layers_.size()) return;
    choices_[layer] = LayerChoice::swap;
    visit(layer + 1, bytes);
  }
  double seconds_of() const {
    double sum = 0;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      if (choices_[i] == LayerChoice::recompute) sum += layers_[i].again;
      if (choices_[i] != LayerChoice::swap) continue;
      double forward = 0, backward = 0;
      for (std::size_t k = i + 1; k < layers_.size(); ++k) {
        forward += layers_[k].forward;
        backward += layers_[k].backward;
        if (choices_[k] == LayerChoice::recompute) backward += layers_[k].again;
        if (choices_[k] == LayerChoice::swap) break;
      }
      sum += std::max(0.0, layers_[i].copy - forward) + std::max(0.0, layers_[i].copy - backward);
    }
    return sum;
  }

  const std::vector<LayerCost>& layers_;
  double budget_;
  std::vector<LayerChoice> choices_;
  double least_ = std::numeric_limits<double>::infinity();
};

}  // namespace

TEST_CASE("answer: no choice of 12 layers takes less time than the one that is found") {
  Random random(7);
  int possible = 0;
  for (int i = 0; i < 200; ++i) {
    const std::vector<LayerCost> layers = drawn(random, 12);
    double all = 0;
    for (const LayerCost& layer : layers) all += layer.kept;
    const double budget = all * static_cast<double>(1 + random.next() % 80) / 100;
    CAPTURE(i, budget);
    const double least = Exhaustive(layers, budget).least();
    const std::vector<LayerChoice> found = choose(layers, budget);
    if (found.empty()) {
      CHECK(least == std::numeric_limits<double>::infinity());
      continue;
    }
    ++possible;
    const ChoiceCost cost = cost_of(layers, found);
    CHECK(cost.seconds == least);
    CHECK(cost.bytes <= budget);
  }
  CHECK(possible > 150);
}

TEST_CASE("answer: layers never run again where copies hide") {
  std::vector<LayerCost> layers(
      6, {.forward = 2, .backward = 4, .again = 2, .copy = 2, .kept = 10, .input = 1});
  CHECK(cost_of(layers, std::vector<LayerChoice>(6, LayerChoice::keep)).bytes == 60);
  std::vector<LayerChoice> swapped(6, LayerChoice::swap);
  swapped.back() = LayerChoice::keep;
  CHECK(choose(layers, 10) == swapped);
  // Copies that take twice as long as a layer hide behind two.
  for (LayerCost& layer : layers) layer.copy = 4;
  const std::vector<LayerChoice> found = choose(layers, 40);
  CHECK(cost_of(layers, found).seconds == 0);
  CHECK(std::ranges::count(found, LayerChoice::swap) == 2);
  CHECK(choose(layers, 0).empty());
}

TEST_CASE("answer: many like layers have a choice soon") {
  const std::vector<LayerCost> layers(126, {.forward = 21.7,
                                            .backward = 43.1,
                                            .again = 21.7,
                                            .copy = 57.9,
                                            .kept = 570982416,
                                            .input = 67108864});
  const std::vector<LayerChoice> found = choose(layers, 60 * 570982416.0);
  REQUIRE(found.size() == layers.size());
  CHECK(cost_of(layers, found).bytes <= 60 * 570982416.0);
}
