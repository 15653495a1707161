// random.h — a random number generator with the same numbers on every machine: SplitMix64.
//
// The data loader model, drawn router loads, drawn node placements and drawn failures use it.
//
// Invariant: the n-th number of a seed never changes. The distributions of the C++ standard library
// differ between implementations, so none is used.
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

  // All 2^64 values are equally likely.
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  // Uniform in the open interval (0, 1), with 53 random bits.
  double uniform() { return (static_cast<double>(next() >> 11) + 0.5) * 0x1p-53; }
  // Normal distribution with mean 0 and standard deviation 1 (Box and Muller).
  double normal() {
    const double radius = std::sqrt(-2 * std::log(uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

 private:
  std::uint64_t state_;
};

}  // namespace sim
