#include "sim/study/campaign/lifetime.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace sim::campaign {
namespace {

double exponential_cumulative(const Lifetime& life, double age) {
  return age / life.mean;
}
double exponential_inverse(const Lifetime& life, double hazard) {
  return hazard * life.mean;
}

// H(t) = (t / eta)^k, with mean eta Gamma(1 + 1/k).
double weibull_scale(const Lifetime& life) {
  return life.mean / std::tgamma(1 + 1 / life.shape);
}
double weibull_cumulative(const Lifetime& life, double age) {
  return std::pow(age / weibull_scale(life), life.shape);
}
double weibull_inverse(const Lifetime& life, double hazard) {
  return weibull_scale(life) * std::pow(hazard, 1 / life.shape);
}

// h(t) = (1 + (early - 1) e^(-t / burn_in)) / mean.
double infant_cumulative(const Lifetime& life, double age) {
  return (age + (life.early - 1) * life.burn_in * -std::expm1(-age / life.burn_in)) / life.mean;
}
double infant_inverse(const Lifetime& life, double hazard) {
  // H is concave and between t / mean and early t / mean, so bisection converges.
  double low = hazard * life.mean / life.early, high = hazard * life.mean;
  for (int i = 0; i < 200 && high - low > 1e-12 * high; ++i) {
    const double middle = 0.5 * (low + high);
    (infant_cumulative(life, middle) < hazard ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

double fixed_cumulative(const Lifetime& life, double age) {
  return age < life.mean ? 0 : std::numeric_limits<double>::infinity();
}
double fixed_inverse(const Lifetime& life, double) {
  return life.mean;
}

constexpr std::array<Law, 4> law_table = {{
    {"exponential", "memoryless: an old part is as good as a new one",
     "Kokolis et al., arXiv:2410.21680: what it takes large clusters to have",
     exponential_cumulative, exponential_inverse, true},
    {"weibull", "hazard (k/eta) (t/eta)^(k-1): k below 1 for HPC systems, above 1 for wear",
     "Schroeder and Gibson, DSN 2006: k of 0.7 to 0.8 fits failures of HPC nodes",
     weibull_cumulative, weibull_inverse, false},
    {"infant", "new parts fail more often, and the excess decays: burn-in",
     "the falling side of the bathtub curve (Klutke, Kiessler, Wortman, IEEE Trans. Rel. 52, 2003)",
     infant_cumulative, infant_inverse, false},
    {"fixed", "always the same length: for repairs", "by definition", fixed_cumulative,
     fixed_inverse, false},
}};

}  // namespace

std::span<const Law> laws() {
  return law_table;
}

const Law* find_law(std::string_view name) {
  const auto found = std::ranges::find(law_table, name, &Law::name);
  return found == law_table.end() ? nullptr : &*found;
}

std::string problem(const Lifetime& life) {
  if (life.law == nullptr) return "has no law";
  if (!(life.mean >= 0) || !std::isfinite(life.mean)) return "has a mean that is not a time";
  if (life.law->name == "weibull" && !(life.shape >= 0.1 && life.shape <= 20))
    return fmt::format("has the shape {}; one from 0.1 to 20 is a lifetime", life.shape);
  if (life.law->name == "infant" && !(life.early >= 1 && life.early <= 1e4))
    return fmt::format("has the early factor {}; new parts fail 1 to 10000 times as often",
                       life.early);
  if (life.law->name == "infant" && !(life.burn_in > 0)) return "has no burn-in time";
  return "";
}

double exponential(Random& random) {
  return -std::log(random.uniform());
}

double next_failure(const Lifetime& life, double age, double parts, Random& random) {
  const double step = exponential(random) / parts;
  if (life.law->memoryless) return age + step * life.mean;
  return std::max(age, life.law->inverse(life, life.law->cumulative(life, age) + step));
}

double draw(const Lifetime& life, Random& random) {
  return next_failure(life, 0, 1, random);
}

}  // namespace sim::campaign
