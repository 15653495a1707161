// csv.h — lines of comma-separated values (RFC 4180, with '\n').
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sim::output {

// The text, quoted if it contains a comma, a quote or a line break. A text that a spreadsheet would
// run as a formula (it begins with =, +, - or @ and is no number) gets an apostrophe before it.
std::string csv_field(std::string_view text);

// Fields joined by commas, with '\n' at the end.
std::string csv_line(const std::vector<std::string>& fields);

}  // namespace sim::output
