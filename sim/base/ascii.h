// ascii.h — compares and searches text without regard to letter case (ASCII only).
//
// Readers of tables, launch scripts and traces call it for words that people wrote. Bytes outside
// A-Z never change, and no locale is consulted.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace sim {

// The lower-case letter of A-Z; any other byte as it is.
inline char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

inline std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = lower(c);
  return result;
}

// Whether `word` occurs anywhere in `text`, in letters of either case. An empty word always does.
inline bool contains(std::string_view text, std::string_view word) {
  return std::search(text.begin(), text.end(), word.begin(), word.end(),
                     [](char a, char b) { return lower(a) == lower(b); }) != text.end();
}

// Whether `text` begins with `word`, in letters of either case.
inline bool starts_with(std::string_view text, std::string_view word) {
  return text.size() >= word.size() && contains(text.substr(0, word.size()), word);
}

}  // namespace sim
