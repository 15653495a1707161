// clock.h — time over weeks: whole nanoseconds.
//
// Invariant: sums are exact, as on the picosecond clock of a step, which ends after 106 days; this
// one spans 292 years. A step's duration is rounded to a nanosecond once, where it enters.
#pragma once

#include <algorithm>
#include <cmath>
#include <compare>
#include <cstdint>

namespace sim::campaign {

// A length of time; a Moment is a point on the clock, and moments subtract to a Span.
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

// Rounded to the nearest nanosecond; longer than a century is a century, which no campaign reaches.
inline Span span(double seconds) {
  return {std::llround(std::clamp(seconds, 0.0, 3.2e9) * 1e9)};
}
constexpr double seconds(Span s) {
  return static_cast<double>(s.ns) * 1e-9;
}
constexpr double seconds_per_day = 86400;

}  // namespace sim::campaign
