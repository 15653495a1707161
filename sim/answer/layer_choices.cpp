#include "sim/answer/layer_choices.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

#include "sim/answer/block_times.h"
#include "sim/answer/priced.h"
#include "sim/answer/resolve_balanced.h"
#include "sim/program/ir/rank.h"

namespace sim::answer {
namespace {

using program::LayerChoice;
using program::PassKind;
using program::Plan;
using Choices = std::vector<LayerChoice>;

// A partial choice: the choices of all layers from some layer up.
struct PartialChoice {
  ChoiceCost cost;
  double forward = 0, backward = 0;  // since the nearest swap above or the last layer
  LayerChoice choice = LayerChoice::keep;
  std::int32_t above = -1;  // index of the partial choice that it extends
};

bool no_worse(const PartialChoice& a, const PartialChoice& b) {
  return a.cost.bytes <= b.cost.bytes && a.cost.seconds <= b.cost.seconds &&
         a.forward >= b.forward && a.backward >= b.backward;
}

// Removes partial choices that another one dominates.
void thin_out(std::vector<PartialChoice>& ways) {
  std::ranges::sort(ways, [](const PartialChoice& a, const PartialChoice& b) {
    if (a.cost.bytes != b.cost.bytes) return a.cost.bytes < b.cost.bytes;
    if (a.cost.seconds != b.cost.seconds) return a.cost.seconds < b.cost.seconds;
    if (a.forward != b.forward) return a.forward > b.forward;
    return a.backward > b.backward;
  });
  std::vector<PartialChoice> left;
  for (const PartialChoice& way : ways)
    if (std::ranges::none_of(left,
                             [&](const PartialChoice& other) { return no_worse(other, way); }))
      left.push_back(way);
  ways = std::move(left);
}

PartialChoice one_more(const PartialChoice& above, const LayerCost& layer, LayerChoice choice) {
  PartialChoice way = above;
  way.choice = choice;
  const double again = choice == LayerChoice::recompute ? layer.again : 0;
  if (choice == LayerChoice::swap) {
    way.cost.seconds += std::max(0.0, layer.copy - above.forward);
    way.cost.seconds += std::max(0.0, layer.copy - above.backward);
    way.forward = way.backward = 0;
  } else {
    way.cost.bytes += choice == LayerChoice::keep ? layer.kept : layer.input;
    way.cost.seconds += again;
  }
  way.forward += layer.forward;
  way.backward += layer.backward + again;
  return way;
}

std::vector<LayerChoice> choices_of(int layer, int layers) {
  if (layer + 1 == layers) return {LayerChoice::keep, LayerChoice::recompute};
  return {LayerChoice::keep, LayerChoice::swap, LayerChoice::recompute};
}

}  // namespace

ChoiceCost cost_of(const std::vector<LayerCost>& layers, const Choices& choices) {
  PartialChoice way;
  for (std::size_t i = layers.size(); i-- > 0;) way = one_more(way, layers[i], choices[i]);
  return way.cost;
}

Choices choose(const std::vector<LayerCost>& layers, double budget) {
  const int n = static_cast<int>(layers.size());
  double longest = 0;  // longest copy: more time hides nothing more
  for (const LayerCost& layer : layers) longest = std::max(longest, layer.copy);
  std::vector<std::vector<PartialChoice>> ways(layers.size() + 1);
  ways.back().emplace_back();
  for (int i = n - 1; i >= 0; --i) {
    const auto at = static_cast<std::size_t>(i);
    for (std::size_t above = 0; above < ways[at + 1].size(); ++above)
      for (const LayerChoice choice : choices_of(i, n)) {
        PartialChoice way = one_more(ways[at + 1][above], layers[at], choice);
        if (way.cost.bytes > budget) continue;
        way.above = static_cast<std::int32_t>(above);
        way.forward = std::min(way.forward, longest);
        way.backward = std::min(way.backward, longest);
        ways[at].push_back(way);
      }
    thin_out(ways[at]);
  }
  const auto faster = [](const PartialChoice& a, const PartialChoice& b) {
    return a.cost.seconds != b.cost.seconds ? a.cost.seconds < b.cost.seconds
                                            : a.cost.bytes < b.cost.bytes;
  };
  if (ways.front().empty()) return {};
  const PartialChoice* way = &*std::ranges::min_element(ways.front(), faster);
  Choices choices;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    choices.push_back(way->choice);
    way = &ways[i + 1][static_cast<std::size_t>(way->above)];
  }
  return choices;
}

namespace {

Plan with_choices(const Plan& plan, Choices choices) {
  Plan resolved = plan;
  resolved.policy.choices = std::move(choices);
  return resolved;
}

int longest_chunk(const Plan& plan) {
  int most = 0;
  for (int stage = 0; stage < plan.mesh.pp; ++stage)
    for (int chunk = 0; chunk < plan.pipeline.virtual_stages; ++chunk)
      most = std::max(most, plan.chunk_layers(stage, chunk));
  return most;
}

// Time and bytes of a layer's copy to the CPU in a pass.
struct Copied {
  double seconds = 0, bytes = 0;
};
Copied copied(const program::Program& program, const engine::ClassTimes& times,
              const program::Call& call) {
  Copied copy;
  for (const program::Instruction& i : program.blocks[call.block].code)
    if (i.op == program::Op::kernel && i.stream == program::Stream::pcie_down) {
      copy.seconds += seconds(times.kernel[i.index]);
      copy.bytes += static_cast<double>(program.operations[i.index].bytes.n);
    }
  return copy;
}

// Costs of the layers of the longest chunk. Builds the programs with all possible swaps, so that
// they contain the copies.
std::vector<LayerCost> layer_costs(const Plan& plan, const Site& site) {
  const int n = longest_chunk(plan);
  Choices choices(static_cast<std::size_t>(n), LayerChoice::swap);
  choices.back() = LayerChoice::keep;
  const program::Job job = job_of(program::valid(with_choices(plan, choices)), site);
  const engine::Times times = price_of(job, site);
  std::vector<LayerCost> layers(static_cast<std::size_t>(n));
  for (std::size_t c = 0; c < job.classes.size(); ++c) {
    const program::Program& program = job.classes[c];
    for (const auto& [of, pattern] : usual_templates(program)) {
      if (of.first != PassKind::forward && of.first != PassKind::backward) continue;
      if (plan.chunk_layers(program.stage, of.second) != n) continue;
      int first = std::numeric_limits<int>::max();
      for (const program::Call& call : program.templates[pattern].calls)
        if (call.layer >= 0) first = std::min(first, call.layer);
      std::vector<double> sums(layers.size(), 0);
      for (const program::Call& call : program.templates[pattern].calls) {
        if (call.layer < 0) continue;
        const auto at = static_cast<std::size_t>(call.layer - first);
        sums[at] += seconds(block_time(program.blocks[call.block], times.classes[c]));
        const Copied copy = copied(program, times.classes[c], call);
        layers[at].copy = std::max(layers[at].copy, copy.seconds);
        layers[at].kept = std::max(layers[at].kept, copy.bytes);
      }
      for (std::size_t i = 0; i < layers.size(); ++i) {
        double& time = of.first == PassKind::forward ? layers[i].forward : layers[i].backward;
        time = std::max(time, sums[i]);
      }
    }
  }
  for (LayerCost& layer : layers) {
    layer.again = layer.forward;
    layer.input = static_cast<double>(program::Dimensions(plan).residual());
  }
  // The last layer cannot be swapped; it has the same costs as the layer before it.
  if (n > 1) {
    layers.back().kept = layers[layers.size() - 2].kept;
    layers.back().copy = layers[layers.size() - 2].copy;
  }
  return layers;
}

}  // namespace

CheckedPlan chosen(const CheckedPlan& asked) {
  const Plan& plan = asked.plan();
  if (!plan.policy.plans_choices || !plan.policy.choices.empty()) return asked;
  Site& site = asked.site();
  const auto with = [&](Choices choices) {
    return check(with_choices(plan, std::move(choices)), site);
  };
  const auto layers_of_chunk = static_cast<std::size_t>(longest_chunk(plan));
  const Result<CheckedPlan> all = with(Choices(layers_of_chunk));
  if (all && evaluate_once(*all).run.fits()) return *all;
  const Choices recomputed(layers_of_chunk, LayerChoice::recompute);
  // The last layer of a chunk is never swapped.
  if (layers_of_chunk == 1) return *with(recomputed);
  const std::vector<LayerCost> layers = layer_costs(plan, site);
  double least = 0, most = 0;  // bounds of the budget in bytes
  for (const LayerCost& layer : layers) most += layer.kept;
  least = std::min(layers.back().kept, layers.back().input);
  // Swaps may exceed the host memory; recomputation alone does not.
  const Result<CheckedPlan> smallest = with(choose(layers, least));
  if (!smallest) return *with(recomputed);
  Fastest fastest(*smallest);
  if (!fastest.replay(*smallest).run.fits()) return *smallest;
  constexpr int halvings = 8;
  for (int i = 0; i < halvings; ++i) {
    const double middle = (least + most) / 2;
    const Choices choices = choose(layers, middle);
    const double bytes = cost_of(layers, choices).bytes;
    const Result<CheckedPlan> one = with(choices);
    if (one && fastest.replay(*one).run.fits())
      least = middle;
    else
      most = std::min(middle, bytes);
  }
  return fastest.plan();
}

}  // namespace sim::answer
