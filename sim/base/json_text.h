// json_text.h — the readable part of an exception message of the JSON library (nlohmann/json).
//
// Readers of JSON files call it before they show such a message. Example:
//   "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while parsing
//    value - invalid literal"
//   becomes "parsing value - invalid literal".
#pragma once

#include <string_view>

namespace sim {

// The text after "syntax error while". Messages without it: the text after the closing bracket.
// Neither found: the whole text. The result points into `what`.
inline std::string_view json_text(std::string_view what) {
  for (const std::string_view mark : {": syntax error while ", "] "})
    if (const std::size_t at = what.find(mark); at != std::string_view::npos)
      return what.substr(at + mark.size());
  return what;
}

}  // namespace sim
