#include "sim/job/mesh/axes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "sim/base/text.h"

namespace sim::mesh {
namespace {

constexpr std::array<std::string_view, axis_count> axis_names = {"tp", "cp", "ep", "dp", "pp"};

// The distance of two ranks that differ by one along `axis`.
std::int64_t stride(Axis axis, const Degrees& degrees, const Order& order, Fold fold) {
  std::int64_t step = 1;
  for (const Axis a : order) {
    if (a == axis) break;
    step *= degrees.of(a, fold);
  }
  return step;
}

}  // namespace

int Degrees::of(Axis axis, Fold fold) const {
  const bool experts = fold == Fold::experts;
  switch (axis) {
    case Axis::tp:
      return experts ? etp : tp;
    case Axis::cp:
      return experts ? 1 : cp;
    case Axis::ep:
      return experts ? ep : 1;
    case Axis::dp:
      return experts ? edp() : dp;
    case Axis::pp:
      break;
  }
  return pp;
}

Parsed<Order> parse_order(std::string_view text) {
  Order order{};
  std::array<bool, axis_count> used{};
  std::size_t filled = 0;
  const std::vector<std::string> known(axis_names.begin(), axis_names.end());
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('-', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    const auto found = std::ranges::find(axis_names, word);
    if (found == axis_names.end()) {
      return "\"" + std::string(word.substr(0, 40)) + "\" is not a dimension (tp, cp, ep, dp, pp)" +
             did_you_mean(word.substr(0, 40), known);
    }
    const auto index = static_cast<std::size_t>(found - axis_names.begin());
    if (used[index]) return "\"" + std::string(word) + "\" appears twice in the rank order";
    used[index] = true;
    order[filled++] = static_cast<Axis>(index);
    begin = end + 1;
  }
  for (std::size_t i = 0; i < axis_count; ++i) {
    if (!used[i]) order[filled++] = static_cast<Axis>(i);
  }
  return order;
}

std::string problem(const Degrees& degrees, const Order& order) {
  const std::int64_t stage = degrees.world() / degrees.pp;
  const std::int64_t expert = std::int64_t{degrees.etp} * degrees.ep;
  if (stage % expert != 0)
    return fmt::format(
        "etp x ep = {} x {} does not divide the tp x cp x dp = {} ranks of a stage; the experts' "
        "degrees must",
        degrees.etp, degrees.ep, stage);
  // Without experts the second mesh is never used.
  if (expert > 1 && degrees.pp > 1 &&
      stride(Axis::pp, degrees, order, Fold::attention) !=
          stride(Axis::pp, degrees, order, Fold::experts))
    return "the rank order puts pp before axes that attention and experts count differently; put "
           "pp last";
  return "";
}

Groups groups_along(Axes varies, const Degrees& degrees, const Order& order, Fold fold) {
  assert(degrees.world() <= (std::int64_t{1} << 24));
  // The ranks of the group that starts at 0: digits are counted with the fastest first.
  std::vector<int> offsets = {0};
  std::vector<int> starts = {0};
  for (const Axis axis : order) {
    const auto step = static_cast<int>(stride(axis, degrees, order, fold));
    std::vector<int>& ranks = varies.has(axis) ? offsets : starts;
    const std::size_t before = ranks.size();
    for (int digit = 1; digit < degrees.of(axis, fold); ++digit) {
      for (std::size_t i = 0; i < before; ++i) ranks.push_back(ranks[i] + digit * step);
    }
  }
  Groups all;
  all.ranks.reserve(starts.size());
  for (const int start : starts) {
    std::vector<int>& group = all.ranks.emplace_back(offsets);
    for (int& rank : group) rank += start;
  }
  return all;
}

int place_of(int rank, Axis axis, const Degrees& degrees, const Order& order, Fold fold) {
  return static_cast<int>(rank / stride(axis, degrees, order, fold) % degrees.of(axis, fold));
}

}  // namespace sim::mesh
