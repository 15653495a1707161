// random.h — numbers that look random and are the same everywhere: SplitMix64 and what is made of
// it.
//
// Invariant: the n-th number of a seed never changes. The standard library's distributions differ
// between its implementations, so none is used.
//
// Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014; Box and
// Muller, Ann. Math. Stat. 29 (1958).
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace sim {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  // In (0, 1), 53 bits.
  double uniform() { return (static_cast<double>(next() >> 11) + 0.5) * 0x1p-53; }
  // Of mean 0 and deviation 1.
  double normal() {
    const double radius = std::sqrt(-2 * std::log(uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

 private:
  std::uint64_t state_;
};

}  // namespace sim
