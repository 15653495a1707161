// kinds.h — what a text-format file is meant to be, by the fields that only its kind has.
#pragma once

#include <string>
#include <string_view>

namespace sim::config {

// "plan" (if nothing else), "grid", "cluster", "profile", "campaign", "failures", "search",
// "framework", "codec", "tokenizers", "residuals" or "variants".
std::string kind_of_text(std::string_view text);

// What a file is that is read into this message: "plan" of "Plan", "variants" of "Whatif".
std::string kind_of_message(std::string_view name);

// Why a file that was read as a `wanted` is none: "is a grid, not a plan; `rehearse sweep` runs
// it". "" where it is meant to be one, or nothing sure can be said.
std::string kind_problem(std::string_view text, std::string_view wanted);

}  // namespace sim::config
