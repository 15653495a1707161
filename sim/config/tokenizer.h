// tokenizer.h — the size of a vocabulary from the name of its tokenizer
// (models/tokenizers.textproto).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace sim::config {

// Nothing when no row of the table knows the name.
std::optional<std::int64_t> vocabulary_of(std::string_view tokenizer);

}  // namespace sim::config
