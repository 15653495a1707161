// clock.h — time of campaigns in whole nanoseconds.
//
// Invariant: sums are exact. A step is simulated in picoseconds, which end after 106 days;
// nanoseconds span 292 years. The duration of a step is rounded once, when it enters a Spec.
#pragma once

#include <algorithm>
#include <cmath>
#include <compare>
#include <cstdint>

namespace sim::campaign {

// Span is a length of time, Moment a point on the clock. The difference of two moments is a Span.
struct Span {
  std::int64_t ns = 0;

  friend constexpr auto operator<=>(Span, Span) = default;
  friend constexpr Span operator+(Span a, Span b) { return {a.ns + b.ns}; }
  friend constexpr Span operator-(Span a, Span b) { return {a.ns - b.ns}; }
  friend constexpr Span operator*(std::int64_t n, Span s) { return {n * s.ns}; }
  constexpr Span& operator+=(Span s) { return ns += s.ns, *this; }
  constexpr Span& operator-=(Span s) { return ns -= s.ns, *this; }
};

struct Moment {
  std::int64_t ns = 0;

  friend constexpr auto operator<=>(Moment, Moment) = default;
  friend constexpr Moment operator+(Moment t, Span s) { return {t.ns + s.ns}; }
  friend constexpr Span operator-(Moment a, Moment b) { return {a.ns - b.ns}; }
};

// Rounds to the nearest nanosecond, at most a century.
inline Span span(double seconds) {
  return {std::llround(std::clamp(seconds, 0.0, 3.2e9) * 1e9)};
}
constexpr double seconds(Span s) {
  return static_cast<double>(s.ns) * 1e-9;
}
constexpr double seconds_per_day = 86400;

}  // namespace sim::campaign
