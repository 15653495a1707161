#include "sim/program/plan/layer_choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace sim::program {
namespace {

constexpr std::array<std::string_view, 3> words{"keep", "swap", "recompute"};
constexpr std::size_t most_layers = 1 << 16;

// The number after a star; 0: not a valid number of layers.
std::size_t times(std::string_view text) {
  std::size_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  return error == std::errc{} && end == text.data() + text.size() && n <= most_layers ? n : 0;
}

}  // namespace

LayerChoices read_layer_choices(std::string_view text) {
  LayerChoices out;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(item.size() + 1, text.size()));
    const std::size_t star = std::min(item.find('*'), item.size());
    const auto word = std::ranges::find(words, item.substr(0, star));
    const std::size_t n = star < item.size() ? times(item.substr(star + 1)) : 1;
    if (word == words.end() || n == 0 || out.choices.size() + n > most_layers) {
      out.problem = fmt::format(
          "'{}' is no choice of a layer; write keep, swap or recompute, with *n for n layers",
          item.substr(0, 40));
      return out;
    }
    out.choices.insert(out.choices.end(), n, static_cast<LayerChoice>(word - words.begin()));
  }
  return out;
}

std::string text_of(std::span<const LayerChoice> choices) {
  std::string text;
  for (std::size_t i = 0; i < choices.size();) {
    std::size_t end = i;
    while (end < choices.size() && choices[end] == choices[i]) ++end;
    if (!text.empty()) text += ',';
    text += words[static_cast<std::size_t>(choices[i])];
    if (end - i > 1) text += fmt::format("*{}", end - i);
    i = end;
  }
  return text;
}

}  // namespace sim::program
