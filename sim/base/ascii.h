// ascii.h — words in texts that people wrote, in letters of either case (ASCII).
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace sim {

inline char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

inline std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = lower(c);
  return result;
}

inline bool contains(std::string_view text, std::string_view word) {
  return std::search(text.begin(), text.end(), word.begin(), word.end(),
                     [](char a, char b) { return lower(a) == lower(b); }) != text.end();
}

inline bool starts_with(std::string_view text, std::string_view word) {
  return text.size() >= word.size() && contains(text.substr(0, word.size()), word);
}

}  // namespace sim
