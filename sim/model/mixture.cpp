#include "sim/model/mixture.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace sim::model {
namespace {

constexpr std::int64_t most_repeats = 1 << 20;

// A recursive-descent parser for "[0,1]*3+([1]+[0]*2)*2", the Python syntax of --moe-layer-freq. It
// runs no Python code and bounds depth and repeats.
class PatternReader {
 public:
  explicit PatternReader(std::string_view text) : text_(text) {}

  bool read(std::vector<std::uint8_t>& into) {
    return sum(into, 0) && at_ == text_.size() && !into.empty();
  }

 private:
  using Layers = std::vector<std::uint8_t>;

  bool sum(Layers& into, int depth) {
    do {
      Layers term;
      if (!product(term, depth)) return false;
      into.insert(into.end(), term.begin(), term.end());
    } while (into.size() <= most_repeats && take('+'));
    return into.size() <= most_repeats;
  }

  bool product(Layers& into, int depth) {
    if (depth > 16) return false;
    if (take('(')) {
      if (!sum(into, depth + 1) || !take(')')) return false;
    } else if (!list(into)) {
      return false;
    }
    while (take('*')) {
      std::int64_t times = 0;
      if (!number(times) || times * static_cast<std::int64_t>(into.size()) > most_repeats)
        return false;
      const Layers once = into;
      into.clear();
      for (std::int64_t i = 0; i < times; ++i) into.insert(into.end(), once.begin(), once.end());
    }
    return true;
  }

  bool list(Layers& into) {
    if (!take('[')) return false;
    do {
      std::int64_t digit = 0;
      if (!number(digit) || digit > 1) return false;
      into.push_back(static_cast<std::uint8_t>(digit));
    } while (take(','));
    return take(']');
  }

  bool number(std::int64_t& value) {
    blanks();
    const auto [end, error] =
        std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc{} || value < 0 || value > most_repeats) return false;
    at_ = static_cast<std::size_t>(end - text_.data());
    return true;
  }

  bool take(char c) {
    blanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    blanks();
    return true;
  }
  void blanks() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

LayerPattern read_layer_pattern(std::string_view text, std::int64_t layers) {
  LayerPattern pattern;
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  if (error == std::errc{} && end == text.data() + text.size() && step >= 1) {
    for (std::int64_t i = 0; i < layers; ++i) pattern.mixture.push_back(i % step == 0);
    return pattern;
  }
  if (!PatternReader(text).read(pattern.mixture)) {
    pattern.mixture.clear();
    pattern.problem =
        fmt::format("\"{}\" says no layers; write 1 (all), 2 (every second one) or ([0]*1+[1]*{})",
                    text.substr(0, 60), std::max<std::int64_t>(layers - 1, 1));
  } else if (static_cast<std::int64_t>(pattern.mixture.size()) != layers) {
    pattern.problem = fmt::format("\"{}\" speaks of {} layers, the model has {}",
                                  text.substr(0, 60), pattern.mixture.size(), layers);
  }
  return pattern;
}

}  // namespace sim::model
