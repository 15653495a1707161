#include "sim/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

namespace sim {

namespace {

// The edit distance, or `limit` if the distance is not less. It stops early when the lengths differ
// by `limit` or when every entry of a table row has reached it.
int distance_below(std::string_view a, std::string_view b, int limit) {
  const std::size_t apart = a.size() > b.size() ? a.size() - b.size() : b.size() - a.size();
  if (apart >= static_cast<std::size_t>(limit)) return limit;
  std::vector<int> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 0; i < a.size(); ++i) {
    int diagonal = std::exchange(row[0], static_cast<int>(i) + 1);
    int least = row[0];
    for (std::size_t j = 0; j < b.size(); ++j) {
      const int substituted = diagonal + (a[i] != b[j] ? 1 : 0);
      diagonal = std::exchange(row[j + 1], std::min({substituted, row[j] + 1, row[j + 1] + 1}));
      least = std::min(least, row[j + 1]);
    }
    if (least >= limit) return limit;
  }
  return std::min(row.back(), limit);
}

}  // namespace

int edit_distance(std::string_view a, std::string_view b) {
  return distance_below(a, b, std::numeric_limits<int>::max());
}

std::string nearest(std::string_view given, std::span<const std::string> names) {
  std::string best;
  int best_distance = static_cast<int>(given.size()) / 2 + 1;
  for (const std::string& name : names) {
    const int distance = distance_below(given, name, best_distance);
    if (distance < best_distance) {
      best_distance = distance;
      best = name;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view given, std::span<const std::string> names) {
  // An incomplete name, "interleaved", unless one or two letters of a long name are wrong.
  constexpr std::size_t least_given = 3, most_listed = 3, letters_of_typo = 4;
  const std::string name = nearest(given, names);
  const bool is_typo =
      !name.empty() &&
      static_cast<std::size_t>(edit_distance(given, name)) * letters_of_typo <= given.size();
  std::vector<std::string> begins;
  if (given.size() >= least_given && !is_typo)
    for (const std::string& one : names)
      if (one.starts_with(given)) begins.push_back("'" + one + "'");
  if (!begins.empty() && begins.size() <= most_listed)
    return fmt::format("; did you mean {}?", listed(begins, "or"));
  return name.empty() ? "" : fmt::format("; did you mean '{}'?", name);
}

std::string listed(std::span<const std::string> names, std::string_view word) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 < names.size() ? ", " : fmt::format(" {} ", word);
    text += names[i];
  }
  return text;
}

std::string counted(std::int64_t number, std::string_view one) {
  return fmt::format("{} {}{}", number, one, number == 1 ? "" : "s");
}

std::string nearest_multiples(std::int64_t value, std::int64_t step) {
  const std::int64_t below = value / step * step;
  if (below == 0) return fmt::format("{}", step);
  return fmt::format("{} or {}", below, below + step);
}

std::string shortest(double value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

std::string human(Bytes bytes) {
  const double n = static_cast<double>(bytes.n);
  if (std::abs(n) >= 1024.0 * 1024 * 1024) return fmt::format("{:.2f} GiB", gib(bytes));
  if (std::abs(n) >= 1024.0 * 1024) return fmt::format("{:.1f} MiB", n / (1024.0 * 1024));
  if (std::abs(n) >= 1024.0) return fmt::format("{:.1f} KiB", n / 1024.0);
  return fmt::format("{} B", bytes.n);
}

std::string human(Duration duration) {
  const double s = seconds(duration);
  if (std::abs(s) >= 1.0) return fmt::format("{:.2f} s", s);
  if (std::abs(s) >= 1e-3) return fmt::format("{:.2f} ms", s * 1e3);
  return fmt::format("{:.2f} us", s * 1e6);
}

}  // namespace sim
