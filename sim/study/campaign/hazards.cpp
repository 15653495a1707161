#include "sim/study/campaign/hazards.h"

#include <limits>

namespace sim::campaign {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

// Random streams of different seeds and kinds begin far apart in the sequence of SplitMix64.
std::uint64_t stream(std::uint64_t seed, std::uint64_t kind) {
  return Random(Random(seed).next() + 0x632be59bd9b4e019 * (kind + 1)).next();
}

int pick(Random& random, int count) {
  const unsigned __int128 wide =
      static_cast<unsigned __int128>(random.next()) * static_cast<unsigned>(count);
  return static_cast<int>(wide >> 64);
}

}  // namespace

Hazards::Hazards(const Spec& spec, int nodes, std::uint64_t seed)
    : spec_(spec), nodes_(nodes), fleets_(spec.kinds.size()) {
  for (std::size_t k = 0; k < fleets_.size(); ++k) {
    const FailureKind& kind = spec.kinds[k];
    Fleet& fleet = fleets_[k];
    fleet.random = Random(stream(seed, k));
    fleet.original = kind.parts;
    const bool fails = kind.parts > 0 && kind.life.law != nullptr && kind.life.mean > 0;
    fleet.first = fails ? next_failure(kind.life, 0, kind.parts, fleet.random) : never;
  }
}

bool Hazards::next(int index, Failure& failure) {
  const FailureKind& kind = spec_.kinds[static_cast<std::size_t>(index)];
  Fleet& fleet = fleets_[static_cast<std::size_t>(index)];
  const bool from_new = !fleet.replaced.empty() && fleet.replaced.top() < fleet.first;
  const double when = from_new ? fleet.replaced.top() : fleet.first;
  if (when > 3e9) return false;
  failure.when = Moment{span(when).ns};
  failure.kind = index;
  Random& random = fleet.random;
  failure.node = nodes_ > 0 && kind.takes != Takes::nothing ? pick(random, nodes_) : 0;
  if (kind.takes == Takes::group) failure.node -= failure.node % kind.group;
  failure.repair = kind.repair.law != nullptr ? span(draw(kind.repair, random)) : Span{};
  failure.found = kind.straggler ? span(draw(kind.found, random)) : Span{};

  if (kind.life.law->memoryless) {
    fleet.first = next_failure(kind.life, when, kind.parts, random);
    return true;
  }
  if (from_new) {
    fleet.replaced.pop();
  } else {
    fleet.age = when;
    fleet.original -= 1;
    fleet.first =
        fleet.original >= 1 ? next_failure(kind.life, fleet.age, fleet.original, random) : never;
  }
  fleet.replaced.push(when + draw(kind.life, random));
  return true;
}

}  // namespace sim::campaign
