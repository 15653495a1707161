// kinds.h — what a text-format file is meant to be, by the fields that only its kind has.
#pragma once

#include <google/protobuf/descriptor.h>

#include <string>
#include <string_view>

namespace sim::input {

// "plan" (if nothing else), "grid", "cluster", "profile", "campaign", "failures", "search",
// "framework", "codec", "tokenizers", "residuals" or "variants".
std::string kind_of_text(std::string_view text);

// Why a file that was read into this message was not meant to be: "is a grid, not a plan; `rehearse
// sweep` runs it". "" where it was, or nothing sure can be said.
std::string kind_problem(std::string_view text, const google::protobuf::Descriptor& read_as);

}  // namespace sim::input
