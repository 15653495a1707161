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

bool sized(const Plan& plan) {
  return plan.pipeline.first_stage_layers != 0 || plan.pipeline.last_stage_layers != 0;
}
bool counts_ends(const Plan& plan) {
  return plan.pipeline.account_for_embedding || plan.pipeline.account_for_loss;
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

void sized_problems(const Plan& plan, std::vector<Problem>& problems) {
  const std::int64_t layers = plan.architecture.layers;
  const int own = (plan.pipeline.first_stage_layers != 0) + (plan.pipeline.last_stage_layers != 0);
  const std::int64_t taken =
      std::int64_t{plan.pipeline.first_stage_layers} + plan.pipeline.last_stage_layers;
  const std::int64_t others = plan.mesh.pp - own;
  const bool fits =
      plan.pipeline.first_stage_layers >= 0 && plan.pipeline.last_stage_layers >= 0 &&
      others >= 0 && plan.mesh.pp > 1 &&
      (others == 0 ? taken == layers : taken < layers && (layers - taken) % others == 0);
  if (!fits) {
    problems.push_back({"first_stage_layers",
                        fmt::format("first_stage_layers {} and last_stage_layers {} leave {} "
                                    "layers for {} other stages; they must share them evenly, or "
                                    "write layer_split: padded, weighted or balanced instead",
                                    plan.pipeline.first_stage_layers,
                                    plan.pipeline.last_stage_layers, layers - taken, others)});
    return;
  }
  for (const std::int64_t n :
       {std::int64_t{plan.pipeline.first_stage_layers},
        std::int64_t{plan.pipeline.last_stage_layers}, others == 0 ? 0 : (layers - taken) / others})
    if (n % (count_parts(plan) / plan.mesh.pp) != 0)
      problems.push_back({"virtual_stages",
                          fmt::format("virtual_stages {} does not divide the {} layers of a stage",
                                      plan.pipeline.virtual_stages, n)});
}

void counted_problems(const Plan& plan, std::vector<Problem>& problems) {
  const std::int64_t layers = plan.architecture.layers;
  const std::int64_t parts = count_parts(plan);
  const std::int64_t all =
      layers + plan.pipeline.account_for_embedding + plan.pipeline.account_for_loss;
  // A chunk may hold only the embedding or only the head; a stage may not.
  const int least = plan.pipeline.virtual_stages > 1 ? 1 : 2;
  if (all % parts != 0 || all / parts < least)
    problems.push_back(
        {"pp",
         fmt::format(
             "{} layers, the embedding and the head counted as asked for are {}; that is not a "
             "multiple (at least {}) of pp x virtual_stages = {}; layer_split: weighted needs none",
             layers, all, least, parts)});
}

void even_problems(const Plan& plan, std::vector<Problem>& problems) {
  const std::int64_t layers = plan.architecture.layers;
  const std::int64_t per_stage = count_parts(plan) / plan.mesh.pp;
  if (layers % plan.mesh.pp != 0) {
    problems.push_back({"pp", fmt::format("pp {} does not divide the {} layers; pp may be {}",
                                          plan.mesh.pp, layers, divisors(layers))});
  } else if (layers / plan.mesh.pp % per_stage != 0) {
    problems.push_back(
        {"virtual_stages",
         fmt::format("virtual_stages {} does not divide the {} layers of a stage; it may be {}",
                     plan.pipeline.virtual_stages, layers / plan.mesh.pp,
                     divisors(layers / plan.mesh.pp))});
  }
}

// Checks a split given part by part: the layers add up, no part is negative, no stage is empty.
void dealt_problems(const Plan& plan, std::vector<Problem>& problems) {
  const int parts = count_parts(plan);
  if (!plan.pipeline.layers_of_parts.empty() &&
      plan.pipeline.layers_of_parts.size() != static_cast<std::size_t>(parts)) {
    problems.push_back(
        {"pipeline_layout", fmt::format("layers are listed for {} parts; pp x virtual_stages is {}",
                                        plan.pipeline.layers_of_parts.size(), parts)});
    return;
  }
  std::int64_t sum = 0;
  std::vector<std::int64_t> of_stage(static_cast<std::size_t>(plan.mesh.pp), 0);
  const schedule::Schedule& schedule = *schedule::find(plan.pipeline.schedule);
  const schedule::Shape shape = pipeline_shape(plan, 1);
  for (int part = 0; part < parts; ++part) {
    const int layers = part_layers(plan, part);
    if (layers < 0)
      return problems.push_back(
          {"layer_split",
           fmt::format("part {} of the model would have {} layers; fewer stages, or embedding and "
                       "head counted as fewer layers, would do",
                       part, layers)});
    sum += layers;
    of_stage[static_cast<std::size_t>(
        schedule::place_of(schedule.placement, shape, part, 0).stage)] += layers;
  }
  if (sum != plan.architecture.layers)
    problems.push_back(
        {"pipeline_layout", fmt::format("the parts have {} layers together; the model has {}", sum,
                                        plan.architecture.layers)});
  // A stage may hold only the embedding or only the head.
  for (const int end : {0, parts - 1})
    ++of_stage[static_cast<std::size_t>(
        schedule::place_of(schedule.placement, shape, end, 0).stage)];
  if (const auto empty = std::ranges::find(of_stage, 0); empty != of_stage.end())
    problems.push_back({"pp", fmt::format("stage {} would have no layer; write a smaller pp",
                                          empty - of_stage.begin())});
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
  if (!sized(plan)) return layers / parts;
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

std::vector<Problem> part_problems(const Plan& plan) {
  std::vector<Problem> problems;
  const schedule::Schedule* schedule = schedule::find(plan.pipeline.schedule);
  const bool fixed = schedule && schedule->placement != schedule::Placement::round_robin;
  // Other rules report these problems.
  if (!schedule || (fixed && plan.pipeline.virtual_stages != 2)) return problems;
  const int said =
      sized(plan) + counts_ends(plan) +
      (plan.pipeline.layer_split != LayerSplit::even || !plan.pipeline.layers_of_parts.empty()) +
      (plan.pipeline.layer_split != LayerSplit::even &&
       plan.pipeline.layer_split != LayerSplit::balanced && !plan.pipeline.layers_of_parts.empty());
  if (said > 1)
    problems.push_back(
        {"layer_split",
         "first_stage_layers or last_stage_layers, account_for_embedding or account_for_loss, "
         "layer_split and pipeline_layout all say how layers are split; write one of them"});
  else if (counts_ends(plan))
    counted_problems(plan, problems);
  else if (sized(plan))
    sized_problems(plan, problems);
  else if (said > 0)
    dealt_problems(plan, problems);
  else
    even_problems(plan, problems);
  return problems;
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
