// axes.h — the axes of a job and where a rank stands on each of them.
//
// A rank is a mixed-radix number; its digits are its places along the axes, from the fastest to
// the slowest in the order that the job asks for. With "tp-cp-ep-dp-pp", tp 2 dp 2 pp 2:
//
//     rank     0 1 2 3 4 5 6 7          tp groups  {0,1} {2,3} {4,5} {6,7}
//     tp       0 1 0 1 0 1 0 1          dp groups  {0,2} {1,3} {4,6} {5,7}
//     dp       0 0 1 1 0 0 1 1          pp groups  {0,4} {1,5} {2,6} {3,7}
//     pp       0 0 0 0 1 1 1 1
//
// The same ranks are counted out twice: attention's parameters lie on tp x cp x dp x pp, those of
// experts on etp x ep x edp x pp ("folding"). Both use one order; in the experts' count the digit
// tp is etp wide, cp is 1 wide, and dp is as wide as is left.
//
// Invariants: the groups of a set of axes partition the ranks; inside a group the digits that vary
// ascend, the fastest first; groups are ordered by their first rank.
//
// Source: NVIDIA/Megatron-LM core 0.8 and 0.14, megatron/core/parallel_state.py (RankGenerator,
// generate_masked_orthogonal_rank_groups, initialize_model_parallel); Narayanan et al., SC 2021
// (arXiv:2104.04473) section 3.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/quantity.h"

namespace sim::mesh {

enum class Axis : std::uint8_t { tp, cp, ep, dp, pp };
constexpr int axis_count = 5;

// A set of axes, a bit each.
struct Axes {
  constexpr Axes() = default;
  constexpr Axes(std::initializer_list<Axis> axes) {
    for (const Axis axis : axes)
      bits |= static_cast<std::uint8_t>(1u << static_cast<unsigned>(axis));
  }
  constexpr bool has(Axis axis) const { return bits >> static_cast<unsigned>(axis) & 1u; }
  std::uint8_t bits = 0;
};

// Which parameters the ranks are counted out for.
enum class Fold : std::uint8_t { attention, experts };

struct Degrees {
  int tp = 1, cp = 1, dp = 1, pp = 1;  // attention's; their product is the world
  int ep = 1, etp = 1;                 // the experts'
  int replicas = 1;   // copies of the parameters: dp x cp / replicas neighbours share one
  int secondary = 1;  // of the ranks that share one copy, so many neighbours hold a second one
  int ulysses = 1;  // of the cp ranks, so many neighbours are one level of a context of two levels
  int columns = 1;  // of the tp ranks, so many neighbours hold the columns of one row of a weight

  std::int64_t world() const { return std::int64_t{tp} * cp * dp * pp; }
  // Data-parallel ranks of an expert's parameters. REQUIRES: problem(*this) is empty.
  int edp() const { return static_cast<int>(world() / (std::int64_t{etp} * ep * pp)); }
  int of(Axis axis, Fold fold = Fold::attention) const;
};

// Axes from the fastest to the slowest; a permutation of all of them.
using Order = std::array<Axis, axis_count>;
constexpr Order megatron_order = {Axis::tp, Axis::cp, Axis::ep, Axis::dp, Axis::pp};

// "tp-cp-dp-pp", "tp-pp-dp": axes that are not named become the slowest ones; give them degree 1.
// Refused with a message: a name twice, an unknown name, an empty name.
Parsed<Order> parse_order(std::string_view text);

// Why the two counts do not fit each other, with the degrees that would; "": they do, or there are
// no experts. Pipelines must be the same ranks in both.
std::string problem(const Degrees& degrees, const Order& order = megatron_order);

// Ranks of every group of one kind (all tensor-parallel groups, ...).
struct Groups {
  std::vector<std::vector<int>> ranks;  // groups of equal size, no rank twice
  friend bool operator==(const Groups&, const Groups&) = default;
};

// Ranks that differ only along `varies`. REQUIRES: degrees >= 1, world <= 2^24.
Groups groups_along(Axes varies, const Degrees& degrees, const Order& order = megatron_order,
                    Fold fold = Fold::attention);

// Place of a rank along one axis.
int place_of(int rank, Axis axis, const Degrees& degrees, const Order& order = megatron_order,
             Fold fold = Fold::attention);

}  // namespace sim::mesh
