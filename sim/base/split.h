// split.h — the parts of a list that people type: "dgx-h100,dgx-a100".
//
// Options of the commands and settings of a search call it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sim {

// The parts between separators, also empty ones; an empty text has one empty part.
inline std::vector<std::string> split(std::string_view text, char separator = ',') {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

}  // namespace sim
