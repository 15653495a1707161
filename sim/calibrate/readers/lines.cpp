#include "sim/calibrate/readers/lines.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/median.h"
#include "sim/calibrate/readers/reader.h"

namespace sim::calibrate {

namespace {

bool digit(char c) {
  return c >= '0' && c <= '9';
}

}  // namespace

void for_lines(std::string_view bytes, const std::function<void(std::string_view)>& line) {
  constexpr std::size_t longest = 1 << 16;
  while (!bytes.empty()) {
    const std::size_t end = bytes.find_first_of("\n\r");
    line(bytes.substr(0, std::min(end, longest)));
    if (end == std::string_view::npos) return;
    bytes.remove_prefix(end + 1);
  }
}

std::vector<std::string_view> split_words(std::string_view line) {
  std::vector<std::string_view> words;
  while (words.size() < 64) {
    const std::size_t from = line.find_first_not_of(" \t");
    if (from == std::string_view::npos) break;
    line.remove_prefix(from);
    const std::size_t end = line.find_first_of(" \t");
    words.push_back(line.substr(0, end));
    if (end == std::string_view::npos) break;
    line.remove_prefix(end);
  }
  return words;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t from = text.find_first_not_of(" \t");
  if (from == std::string_view::npos) return {};
  return text.substr(from, text.find_last_not_of(" \t") - from + 1);
}

std::string_view without_prefix(std::string_view line) {
  line = trimmed(line);
  if (line.starts_with('[')) {
    const std::size_t end = line.find(">:");
    if (end != std::string_view::npos && end < 64) line = trimmed(line.substr(end + 2));
  }
  // Prefix of srun -l: "12: ".
  const std::size_t digits = std::min(line.find_first_not_of("0123456789"), line.size());
  if (digits > 0 && digits < 8 && line.substr(digits).starts_with(": "))
    line = trimmed(line.substr(digits + 1));
  return line;
}

std::string without_colours(std::string_view line) {
  std::string out;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\x1b' && i + 1 < line.size() && line[i + 1] == '[') {
      while (i < line.size() && !((line[i] | 0x20) >= 'a' && (line[i] | 0x20) <= 'z')) ++i;
      continue;
    }
    out += line[i];
  }
  return out;
}

double number_after(std::string_view line, std::string_view label) {
  const std::size_t at = line.find(label);
  if (at == std::string_view::npos) return 0;
  std::string text;
  std::size_t i = at + label.size();
  while (i < line.size() && (line[i] == ' ' || line[i] == '=' || line[i] == ':')) ++i;
  for (; i < line.size() && text.size() < 40; ++i) {
    const char c = line[i];
    if (c == ',' && !text.empty() && i + 1 < line.size() && digit(line[i + 1])) continue;
    const bool exponent = (c == 'e' || c == 'E') && !text.empty();
    const bool sign = (c == '-' || c == '+') && !text.empty() && (text.back() | 0x20) == 'e';
    if (!digit(c) && c != '.' && !exponent && !sign) break;
    text += c;
  }
  while (!text.empty() && !digit(text.back()) && text.back() != '.') text.pop_back();
  return positive(text);
}

std::int64_t count_after(std::string_view line, std::string_view label) {
  const double value = number_after(line, label);
  return value <= 1e15 ? static_cast<std::int64_t>(value) : 0;
}

std::string date_in(std::string_view line) {
  for (std::size_t i = 0; i + 10 <= std::min<std::size_t>(line.size(), 200); ++i) {
    const std::string_view text = line.substr(i, 10);
    bool good = text.starts_with("20") && text[4] == '-' && text[7] == '-';
    for (const std::size_t d : {2u, 3u, 5u, 6u, 8u, 9u}) good = good && digit(text[d]);
    if (good) return std::string(text);
  }
  return "";
}

std::string summary(const std::vector<StepSample>& steps) {
  if (steps.empty()) return "";
  const std::size_t skipped = steps.size() > 10 ? 3 : 0;  // the first steps warm up
  std::vector<double> seconds, rates, tokens, reserved;
  for (std::size_t i = skipped; i < steps.size(); ++i) {
    const StepSample& s = steps[i];
    if (s.seconds > 0) seconds.push_back(s.seconds);
    if (s.tflops_gpu > 0) rates.push_back(s.tflops_gpu);
    if (s.tokens_s_gpu > 0) tokens.push_back(s.tokens_s_gpu);
    if (s.reserved_gib > 0) reserved.push_back(s.reserved_gib);
  }
  std::string text = fmt::format("{} steps", steps.size());
  if (!seconds.empty()) {
    std::sort(seconds.begin(), seconds.end());
    const auto at = [&](double share) {
      return seconds[static_cast<std::size_t>(share * static_cast<double>(seconds.size() - 1))];
    };
    text += fmt::format(": {:.4g} s a step (nine in ten within {:.4g}-{:.4g})", at(0.5), at(0.05),
                        at(0.95));
  }
  if (!rates.empty()) text += fmt::format(", {:.1f} TFLOP/s per GPU as printed", median(rates));
  if (!tokens.empty()) text += fmt::format(", {:.0f} tokens/s per GPU", median(tokens));
  if (!reserved.empty()) text += fmt::format(", {:.2f} GiB reserved", median(reserved));
  return text;
}

}  // namespace sim::calibrate
