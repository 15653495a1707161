// arithmetic.h — evaluates the whole-number arithmetic of $(( )) and (( )).
//
// The expander and the follower call it. Source: POSIX.1-2017, Shell Command Language, 2.6.4;
// 64-bit two's complement, as Bash.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace sim::shell {

// The value of an expression; nothing if it is invalid or depends on an unknown variable.
// `value_of`: text of a variable, nothing if unknown. The text may itself be an expression.
using Lookup = std::function<std::optional<std::string>(const std::string& name)>;
std::optional<std::int64_t> arithmetic(std::string_view expression, const Lookup& value_of);

}  // namespace sim::shell
