// csv.h — lines of comma-separated values (RFC 4180, with '\n').
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sim::output {

// The text, quoted if it contains a comma, a quote or a line break.
std::string csv_field(std::string_view text);

// Fields joined by commas, with '\n' at the end.
std::string csv_line(const std::vector<std::string>& fields);

}  // namespace sim::output
