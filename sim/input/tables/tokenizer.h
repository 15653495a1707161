// tokenizer.h — vocabulary size of a tokenizer by its name (models/tokenizers.textproto).
//
// The readers of launch files call it, because many scripts name a tokenizer instead of a size.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sim/base/result.h"

namespace sim::input {

// The number of tokens; nothing if the table has no row for the name.
std::optional<std::int64_t> vocabulary_of(std::string_view tokenizer);

// The problems of a table file with that schema (tokenizer.proto).
Diagnostics tokenizer_problems(const std::string& path);

}  // namespace sim::input
