// lines.h — logs, line by line.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/calibrate/readers/measurement.h"

namespace sim::calibrate {

// Every line without its end; what is longer than 64 KiB is cut.
void for_lines(std::string_view bytes, const std::function<void(std::string_view)>& line);
// Words between blanks, at most 64.
std::vector<std::string_view> split_words(std::string_view line);
std::string_view trimmed(std::string_view text);
// Without mpirun's "[1,0]<stdout>:" or srun's "12: ", and without blanks in front.
std::string_view without_prefix(std::string_view line);
// Without the escape sequences that colour a terminal.
std::string without_colours(std::string_view line);
// The number right after `label` and blanks, of "label: 1,234.5 ms"; 0 when there is none.
double number_after(std::string_view line, std::string_view label);
// The same without its fraction; 0 too of what is more than 10^15, which is no count.
std::int64_t count_after(std::string_view line, std::string_view label);
// "2024-08-15" where a line has a date, else "".
std::string date_in(std::string_view line);
// What the steps say together, the first few left out; "" of none.
std::string summary(const std::vector<StepSample>& steps);

}  // namespace sim::calibrate
