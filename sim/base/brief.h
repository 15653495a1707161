// brief.h — bounds what a message quotes of an input, whose cells and words may have any length.
#pragma once

#include <string>
#include <string_view>

namespace sim {

// The first 200 bytes of a text, at most, and "..." for the rest; whole characters of UTF-8.
std::string brief(std::string_view text);

// A message whose quoted parts are brief: '...' or "...".
std::string with_brief_quotes(std::string_view message);

}  // namespace sim
