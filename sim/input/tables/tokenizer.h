// tokenizer.h — the size of a vocabulary from the name of its tokenizer
// (models/tokenizers.textproto).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sim/base/result.h"

namespace sim::input {

// Nothing when no row of the table knows the name.
std::optional<std::int64_t> vocabulary_of(std::string_view tokenizer);

// What is wrong with a table of that form.
Diagnostics tokenizer_problems(const std::string& path);

}  // namespace sim::input
