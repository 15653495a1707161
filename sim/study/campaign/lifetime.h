// lifetime.h — the catalog of lifetime distributions of parts, each with its cumulative hazard.
//
// For a cumulative hazard H, a part of age a fails at age t with H(t) = H(a) + E, where E is
// exponential with mean 1. The next of n equal parts fails at H(t) = H(a) + E / n. One exponential
// number thus samples any distribution, and a fleet costs one draw per failure.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "sim/base/random.h"

namespace sim::campaign {

struct Law;

struct Lifetime {
  const Law* law = nullptr;
  double mean = 0;     // seconds; for `infant` the mean after burn-in
  double shape = 1;    // weibull: below 1 the hazard falls with age, above 1 it rises
  double early = 1;    // infant: hazard of a new part relative to an old one
  double burn_in = 0;  // infant: seconds in which the excess falls to 1/e
};

struct Law {
  std::string_view name;
  std::string_view summary;
  std::string_view source;
  double (*cumulative)(const Lifetime& life, double age);
  double (*inverse)(const Lifetime& life, double hazard);
  bool memoryless;
};

std::span<const Law> laws();
// The distribution with that name; nullptr if none has it.
const Law* find_law(std::string_view name);

// The rules that the lifetime breaks, as text; "" if none.
std::string problem(const Lifetime& life);

// An exponential random number with mean 1.
double exponential(Random& random);

// Age at which the next of `parts` parts of age `age` fails.
double next_failure(const Lifetime& life, double age, double parts, Random& random);
// A random lifetime of a new part.
double draw(const Lifetime& life, Random& random);

}  // namespace sim::campaign
