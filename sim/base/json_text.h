// json_text.h — what the JSON library's exceptions say, in words for people.
#pragma once

#include <string_view>

namespace sim {

// "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while parsing
// value - invalid literal" -> "parsing value - invalid literal"; without a place in the text what
// stands behind the bracket.
inline std::string_view json_text(std::string_view what) {
  for (const std::string_view mark : {": syntax error while ", "] "})
    if (const std::size_t at = what.find(mark); at != std::string_view::npos)
      return what.substr(at + mark.size());
  return what;
}

}  // namespace sim
