// lifetime.h — how long a part lasts: the catalog of laws, each as its cumulative hazard.
//
// With the cumulative hazard H, a part of age a fails at the age t where H(t) = H(a) + E and E is
// exponential of mean 1; and the next of n like parts fails where H(t) = H(a) + E / n. So one
// exponential number draws from any law, and a fleet costs as much as it has failures.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "sim/base/random.h"

namespace sim::campaign {

struct Law;

struct Lifetime {
  const Law* law = nullptr;
  double mean = 0;     // seconds; of `infant` the mean after burn-in
  double shape = 1;    // weibull: below 1 the old live on, above 1 they wear out
  double early = 1;    // infant: the hazard of a new part over that of an old one
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
// nullptr: no law has that name.
const Law* find_law(std::string_view name);

// Every rule that the lifetime breaks.
std::string problem(const Lifetime& life);

// Exponential of mean 1.
double exponential(Random& random);

// Age at which the next of `parts` parts of this age fails.
double next_failure(const Lifetime& life, double age, double parts, Random& random);
// A length drawn from the law, from age 0.
double draw(const Lifetime& life, Random& random);

}  // namespace sim::campaign
