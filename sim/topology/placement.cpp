#include "sim/topology/placement.h"

#include <algorithm>
#include <cassert>

#include "sim/core/text.h"

namespace sim::topology {
namespace {

constexpr std::array<std::string_view, dimension_count> dimension_names = {"tp", "cp", "ep", "dp",
                                                                           "pp"};

// How far apart two ranks are that differ by one along `dimension`.
std::int64_t stride(Dimension dimension, const Degrees& degrees, const RankOrder& order) {
  std::int64_t step = 1;
  for (const Dimension d : order) {
    if (d == dimension) break;
    step *= degrees.of(d);
  }
  return step;
}

}  // namespace

std::string_view name(GroupKind kind) {
  constexpr std::array<std::string_view, group_kind_count> names = {
      "tp", "cp", "dp", "dp_cp", "pp", "embedding", "world"};
  return names[static_cast<std::size_t>(kind)];
}

Parsed<RankOrder> parse_rank_order(std::string_view text) {
  RankOrder order{};
  std::array<bool, dimension_count> used{};
  std::size_t filled = 0;
  const std::vector<std::string> known(dimension_names.begin(), dimension_names.end());
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('-', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    const auto found = std::ranges::find(dimension_names, word);
    if (found == dimension_names.end()) {
      return "\"" + std::string(word.substr(0, 40)) + "\" is not a dimension (tp, cp, ep, dp, pp)" +
             did_you_mean(word.substr(0, 40), known);
    }
    const auto index = static_cast<std::size_t>(found - dimension_names.begin());
    if (used[index]) return "\"" + std::string(word) + "\" appears twice in the rank order";
    used[index] = true;
    order[filled++] = static_cast<Dimension>(index);
    begin = end + 1;
  }
  for (std::size_t i = 0; i < dimension_count; ++i) {
    if (!used[i]) order[filled++] = static_cast<Dimension>(i);
  }
  return order;
}

RankGroups groups_along(std::vector<Dimension> varies, const Degrees& degrees,
                        const RankOrder& order) {
  assert(degrees.world() <= (std::int64_t{1} << 24));
  // Ranks of the group that starts at 0: digits counted with the fastest first.
  std::vector<int> offsets = {0};
  std::vector<int> starts = {0};
  for (const Dimension d : order) {
    const auto step = static_cast<int>(stride(d, degrees, order));
    std::vector<int>& ranks = std::ranges::count(varies, d) > 0 ? offsets : starts;
    const std::size_t before = ranks.size();
    for (int digit = 1; digit < degrees.of(d); ++digit) {
      for (std::size_t i = 0; i < before; ++i) ranks.push_back(ranks[i] + digit * step);
    }
  }
  RankGroups all;
  all.reserve(starts.size());
  for (const int start : starts) {
    std::vector<int>& group = all.emplace_back(offsets);
    for (int& rank : group) rank += start;
  }
  return all;
}

RankGroups groups(GroupKind kind, const Degrees& degrees, const RankOrder& order) {
  using enum Dimension;
  switch (kind) {
    case GroupKind::tp:
      return groups_along({tp}, degrees, order);
    case GroupKind::cp:
      return groups_along({cp}, degrees, order);
    case GroupKind::dp:
      return groups_along({dp, ep}, degrees, order);
    case GroupKind::dp_cp:
      return groups_along({dp, ep, cp}, degrees, order);
    case GroupKind::pp:
      return groups_along({pp}, degrees, order);
    case GroupKind::world:
      return groups_along({tp, cp, ep, dp, pp}, degrees, order);
    case GroupKind::embedding:
      break;
  }
  RankGroups all = groups_along({pp}, degrees, order);
  for (std::vector<int>& group : all) {
    if (group.size() > 1) group = {group.front(), group.back()};
  }
  return all;
}

RankGroups stage_pairs(int from, int to, const Degrees& degrees, const RankOrder& order) {
  assert(from >= 0 && from < degrees.pp);
  assert(to >= 0 && to < degrees.pp);
  RankGroups all = groups_along({Dimension::pp}, degrees, order);
  for (std::vector<int>& group : all) {
    group = {group[static_cast<std::size_t>(from)], group[static_cast<std::size_t>(to)]};
  }
  return all;
}

int place_of(int rank, Dimension dimension, const Degrees& degrees, const RankOrder& order) {
  return static_cast<int>(rank / stride(dimension, degrees, order) % degrees.of(dimension));
}

}  // namespace sim::topology
