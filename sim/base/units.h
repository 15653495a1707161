// units.h — the quantities of the simulator: Time, Duration, Bytes and Bandwidth.
//
// Every number with a unit has a type of its own. All rooms use these types.
//
// Invariants
//  (1) Simulated time is an integer count of picoseconds. Addition is exact and associative, so the
//      order of events never depends on how a sum was grouped.
//  (2) Decimal and binary prefixes never mix: GB is 1e9 bytes, GiB is 2^30.
//  (3) Only the named functions at the bottom of this file convert between types. Each states its
//      rounding.
//
// Range: 64-bit picoseconds span 106 days. Longer times, such as goodput over a training run, need
// a coarser clock.
#pragma once

#include <cassert>
#include <cmath>
#include <compare>
#include <cstdint>
#include <limits>

namespace sim {

// A length of time, in picoseconds. It may be negative.
struct Duration {
  std::int64_t ps = 0;

  friend constexpr auto operator<=>(Duration, Duration) = default;
  friend constexpr Duration operator+(Duration a, Duration b) { return {a.ps + b.ps}; }
  friend constexpr Duration operator-(Duration a, Duration b) { return {a.ps - b.ps}; }
  friend constexpr Duration operator*(std::int64_t n, Duration d) { return {n * d.ps}; }
  constexpr Duration& operator+=(Duration d) { return ps += d.ps, *this; }
  constexpr Duration& operator-=(Duration d) { return ps -= d.ps, *this; }
};

// A point on the simulated clock, in picoseconds. Two Times subtract to a Duration; they never add.
struct Time {
  std::int64_t ps = 0;

  friend constexpr auto operator<=>(Time, Time) = default;
  friend constexpr Time operator+(Time t, Duration d) { return {t.ps + d.ps}; }
  friend constexpr Duration operator-(Time a, Time b) { return {a.ps - b.ps}; }
};

struct Bytes {
  std::int64_t n = 0;

  friend constexpr auto operator<=>(Bytes, Bytes) = default;
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return {a.n + b.n}; }
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return {a.n - b.n}; }
  constexpr Bytes& operator+=(Bytes b) { return n += b.n, *this; }
  constexpr Bytes& operator-=(Bytes b) { return n -= b.n, *this; }
  friend constexpr Bytes operator*(std::int64_t k, Bytes b) { return {k * b.n}; }
};

struct Bandwidth {
  std::int64_t bytes_per_second = 0;
  friend constexpr auto operator<=>(Bandwidth, Bandwidth) = default;
};

namespace literals {
constexpr Duration operator""_ps(unsigned long long v) {
  return {static_cast<std::int64_t>(v)};
}
constexpr Duration operator""_ns(unsigned long long v) {
  return {static_cast<std::int64_t>(v) * 1'000};
}
constexpr Duration operator""_us(unsigned long long v) {
  return {static_cast<std::int64_t>(v) * 1'000'000};
}
constexpr Bytes operator""_B(unsigned long long v) {
  return {static_cast<std::int64_t>(v)};
}
constexpr Bytes operator""_MiB(unsigned long long v) {
  return {static_cast<std::int64_t>(v) << 20};
}
constexpr Bandwidth operator""_GBps(unsigned long long v) {
  return {static_cast<std::int64_t>(v) * 1'000'000'000};
}
constexpr Bandwidth operator""_Gbps(unsigned long long v) {
  return {static_cast<std::int64_t>(v) * 125'000'000};
}
}  // namespace literals

// Time to move `size` bytes at `rate`, rounded up to a whole picosecond: no transfer ends early.
// REQUIRES: size >= 0, rate > 0, and the result fits into 64 bits.
constexpr Duration transfer_time(Bytes size, Bandwidth rate) {
  assert(size.n >= 0);
  assert(rate.bytes_per_second > 0);
  constexpr __int128 ps_per_second = 1'000'000'000'000;
  const __int128 numerator = static_cast<__int128>(size.n) * ps_per_second;
  const __int128 ps = (numerator + rate.bytes_per_second - 1) / rate.bytes_per_second;
  assert(ps <= std::numeric_limits<std::int64_t>::max());
  return {static_cast<std::int64_t>(ps)};
}

// Seconds as a double, for rates and for output. Relative error at most 2^-52.
constexpr double seconds(Duration d) {
  return static_cast<double>(d.ps) * 1e-12;
}

// A time in seconds from a model, rounded up to a whole picosecond.
// REQUIRES: 0 <= s < 9.2e6.
inline Duration from_seconds(double s) {
  assert(s >= 0.0);
  assert(s < 9.2e6);
  return {static_cast<std::int64_t>(std::ceil(s * 1e12))};
}

// GB/s as a double, for output.
constexpr double gb_per_second(Bandwidth rate) {
  return static_cast<double>(rate.bytes_per_second) / 1e9;
}

// GiB as a double, for output.
constexpr double gib(Bytes b) {
  return static_cast<double>(b.n) / (1024.0 * 1024.0 * 1024.0);
}

}  // namespace sim
