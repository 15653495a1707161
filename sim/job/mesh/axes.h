// axes.h — the axes of a job, and the place of each rank on each axis.
//
// A rank is a mixed-radix number. Its digits are its places along the axes, from the fastest to the
// slowest in the order of the job. With "tp-cp-ep-dp-pp", tp 2 dp 2 pp 2:
//
//     rank     0 1 2 3 4 5 6 7          tp groups  {0,1} {2,3} {4,5} {6,7}
//     tp       0 1 0 1 0 1 0 1          dp groups  {0,2} {1,3} {4,6} {5,7}
//     dp       0 0 1 1 0 0 1 1          pp groups  {0,4} {1,5} {2,6} {3,7}
//     pp       0 0 0 0 1 1 1 1
//
// The same ranks form two meshes ("folding"). Attention's parameters use tp x cp x dp x pp, those
// of experts etp x ep x edp x pp. Both use one order. In the experts' mesh the digit tp has the
// width etp, cp has the width 1, and dp has the remaining width.
//
// Invariants: the groups of a set of axes partition the ranks. Inside a group the varying digits
// ascend, the fastest first. Groups are ordered by their first rank.
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

// A set of axes, one bit each.
struct Axes {
  constexpr Axes() = default;
  constexpr Axes(std::initializer_list<Axis> axes) {
    for (const Axis axis : axes)
      bits |= static_cast<std::uint8_t>(1u << static_cast<unsigned>(axis));
  }
  constexpr bool has(Axis axis) const { return bits >> static_cast<unsigned>(axis) & 1u; }
  std::uint8_t bits = 0;
};

// The two meshes of the same ranks, by the parameters that they place.
enum class Fold : std::uint8_t { attention, experts };

struct Degrees {
  int tp = 1, cp = 1, dp = 1, pp = 1;  // of attention; their product is the world size
  int ep = 1, etp = 1;                 // of experts
  int replicas = 1;  // copies of the parameters: dp x cp / replicas neighbours share one
  // Groups of this many neighbours, among the ranks that share one copy, hold a second copy.
  int secondary = 1;
  int ulysses = 1;  // of the cp ranks, groups of this many neighbours are the inner of two levels
  int columns = 1;  // of the tp ranks, groups of this many neighbours split the columns of a weight

  std::int64_t world() const { return std::int64_t{tp} * cp * dp * pp; }
  // Data-parallel ranks of an expert's parameters. REQUIRES: problem(*this) is empty.
  int edp() const { return static_cast<int>(world() / (std::int64_t{etp} * ep * pp)); }
  int of(Axis axis, Fold fold = Fold::attention) const;
};

// Axes from the fastest to the slowest; a permutation of all of them.
using Order = std::array<Axis, axis_count>;
constexpr Order megatron_order = {Axis::tp, Axis::cp, Axis::ep, Axis::dp, Axis::pp};

// Reads "tp-cp-dp-pp", "tp-pp-dp". Axes without a name become the slowest ones; their degree must
// be 1. Refused with a message: a name twice, an unknown name, an empty name.
Parsed<Order> parse_order(std::string_view text);

// The reason why the two meshes do not fit each other, with valid degrees; "": they fit, or there
// are no experts. Both meshes must put the same ranks into each pipeline.
std::string problem(const Degrees& degrees, const Order& order = megatron_order);

// The ranks of every group of one kind (all tensor-parallel groups, ...).
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
