// arithmetic.h — the whole-number arithmetic of $(( )) and (( )).
//
// Source: POSIX.1-2017, Shell Command Language, 2.6.4; 64-bit two's complement, as Bash.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace sim::shell {

// `value_of` gives the text of a variable, nothing when it is unknown. Nothing: unknown, or no
// expression. A variable's own text may be an expression.
using Lookup = std::function<std::optional<std::string>(const std::string& name)>;
std::optional<std::int64_t> arithmetic(std::string_view expression, const Lookup& value_of);

}  // namespace sim::shell
