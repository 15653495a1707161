#include "sim/program/plan/layer_partition.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include "sim/base/text.h"
#include "sim/job/schedule/placement.h"

namespace sim::program {
namespace {

// The longest layout, in characters, once repetitions are expanded.
constexpr std::size_t longest_layout = 1 << 16;

int first_less(const Plan& plan) {
  return plan.pipeline.layer_split == LayerSplit::weighted ? plan.pipeline.embedding_layers : 0;
}
int last_less(const Plan& plan) {
  return plan.pipeline.layer_split == LayerSplit::weighted ? plan.pipeline.head_layers : 0;
}

// Layers of one chunk of a stage. Stages without a number of their own share the remaining layers
// evenly.
int sized_part(const Plan& plan, int stage) {
  int of_stage = stage == 0                  ? plan.pipeline.first_stage_layers
                 : stage == plan.mesh.pp - 1 ? plan.pipeline.last_stage_layers
                                             : 0;
  if (of_stage == 0) {
    const int others = plan.mesh.pp - (plan.pipeline.first_stage_layers != 0) -
                       (plan.pipeline.last_stage_layers != 0);
    of_stage = (static_cast<int>(plan.architecture.layers) - plan.pipeline.first_stage_layers -
                plan.pipeline.last_stage_layers) /
               others;
  }
  return of_stage / (count_parts(plan) / plan.mesh.pp);
}

int padded_part(const Plan& plan, int part) {
  const int layers = static_cast<int>(plan.architecture.layers), parts = count_parts(plan);
  const int each = (layers + parts - 1) / parts;
  const int padding = each * parts - layers;  // less than the parts
  if (part == parts - 1) return each - (padding > 0 ? 1 : 0);
  return each - (part < padding - 1 ? 1 : 0);
}

int weighted_part(const Plan& plan, int part) {
  const int parts = count_parts(plan);
  const int all = static_cast<int>(plan.architecture.layers) + plan.pipeline.embedding_layers +
                  plan.pipeline.head_layers;
  return all / parts + (part < all % parts ? 1 : 0) - (part == 0 ? first_less(plan) : 0) -
         (part == parts - 1 ? last_less(plan) : 0);
}

// Expands the repetitions of a layout.
class LayoutReader {
 public:
  explicit LayoutReader(std::string_view text) : text_(text) {}

  Layout read() {
    std::string all = sequence();
    if (problem_.empty() && at_ < text_.size()) problem_ = "a ')' that closes nothing";
    if (problem_.empty()) check(all);
    if (!problem_.empty()) return {{}, 0, problem_};
    Layout layout{{0}, 0, ""};
    for (const char c : all) {
      if (c == '|') layout.layers.push_back(0);
      if (c == 't') ++layout.layers.back();
      if (c == 'm') ++layout.predicted;
    }
    return layout;
  }

 private:
  std::string sequence() {
    std::string out;
    while (problem_.empty() && at_ < text_.size() && text_[at_] != ')') out += item();
    if (out.size() > longest_layout) problem_ = "more stages and layers than a model can have";
    return out;
  }
  std::string item() {
    const char c = text_[at_++];
    if (c == ',' || c == ' ') return "";
    std::string one(1, c);
    if (c == '(') {
      if (++depth_ > 16) problem_ = "parentheses within more than 16 others";
      if (!problem_.empty()) return "";
      one = sequence();
      --depth_;
      if (problem_.empty() && at_ == text_.size()) problem_ = "a '(' that is not closed";
      ++at_;
    } else if (std::string_view("EtmL|").find(c) == std::string_view::npos) {
      problem_ = fmt::format("'{}'; a layout is made of E t m L | ( ) * and numbers", c);
      return "";
    }
    return repeated(one);
  }
  std::string repeated(const std::string& one) {
    if (!problem_.empty() || at_ >= text_.size() || text_[at_] != '*') return one;
    std::size_t times = 0, digits = 0;
    for (++at_; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_, ++digits)
      times = std::min(times * 10 + static_cast<std::size_t>(text_[at_] - '0'), longest_layout);
    if (digits == 0) problem_ = "a '*' without a number";
    if (times * one.size() > longest_layout)
      problem_ = "more stages and layers than a model can have";
    std::string out;
    for (std::size_t i = 0; i < times && problem_.empty(); ++i) out += one;
    return out;
  }
  void check(const std::string& all) {
    const auto embedding = all.find('E'), head = all.find('L');
    if (embedding != 0 || all.find('E', 1) != std::string::npos)
      problem_ = "an embedding elsewhere than at the very begin; write one E there";
    else if (head == std::string::npos || head + 1 != all.size())
      problem_ = "a loss elsewhere than at the very end; write one L there";
    else if (const auto m = all.find('m'); all.find_first_not_of("mL", m) < all.size())
      problem_ = "an m elsewhere than right before the loss; write it there";
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::string problem_;
};

}  // namespace

bool has_sized_ends(const Plan& plan) {
  return plan.pipeline.first_stage_layers != 0 || plan.pipeline.last_stage_layers != 0;
}

bool counts_ends(const Plan& plan) {
  return plan.pipeline.account_for_embedding || plan.pipeline.account_for_loss;
}

int count_parts(const Plan& plan) {
  const schedule::Schedule* schedule = schedule::find(plan.pipeline.schedule);
  assert(schedule);
  return schedule::parts(schedule->placement, pipeline_shape(plan, 1));
}

int part_layers(const Plan& plan, int part) {
  if (!plan.pipeline.layers_of_parts.empty())
    return plan.pipeline.layers_of_parts[static_cast<std::size_t>(part)];
  if (plan.pipeline.layer_split == LayerSplit::padded ||
      plan.pipeline.layer_split == LayerSplit::balanced)
    return padded_part(plan, part);
  if (plan.pipeline.layer_split == LayerSplit::weighted) return weighted_part(plan, part);
  const int layers = static_cast<int>(plan.architecture.layers);
  const int parts = count_parts(plan);
  if (counts_ends(plan))
    return (layers + plan.pipeline.account_for_embedding + plan.pipeline.account_for_loss) / parts -
           (part == 0 && plan.pipeline.account_for_embedding) -
           (part == parts - 1 && plan.pipeline.account_for_loss);
  if (!has_sized_ends(plan)) return layers / parts;
  const schedule::Schedule& schedule = *schedule::find(plan.pipeline.schedule);
  return sized_part(plan,
                    schedule::place_of(schedule.placement, pipeline_shape(plan, 1), part, 0).stage);
}

std::vector<int> layers_of_parts(const Plan& plan) {
  std::vector<int> layers(static_cast<std::size_t>(count_parts(plan)));
  for (std::size_t part = 0; part < layers.size(); ++part)
    layers[part] = part_layers(plan, static_cast<int>(part));
  return layers;
}

std::string divisors(std::int64_t n) {
  std::vector<std::string> found;
  for (std::int64_t d = 1; d <= n && found.size() < 13; ++d)
    if (n % d == 0) found.push_back(std::to_string(d));
  if (found.size() < 13) return listed(found, "or");
  found.back() = "...";
  return fmt::format("{}", fmt::join(found, ", "));
}

Layout read_layout(std::string_view text) {
  return LayoutReader(text).read();
}

std::string layout_text(const std::vector<int>& layers, std::int64_t predicted) {
  std::string text = "E";
  for (std::size_t part = 0; part < layers.size(); ++part) {
    if (part > 0) text += '|';
    if (layers[part] > 0) text += layers[part] == 1 ? "t" : fmt::format("t*{}", layers[part]);
  }
  if (predicted > 0) text += predicted == 1 ? "m" : fmt::format("m*{}", predicted);
  return text + "L";
}

}  // namespace sim::program
