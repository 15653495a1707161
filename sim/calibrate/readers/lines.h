// lines.h — helpers of the readers of logs: lines, words, and numbers after labels.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/calibrate/readers/measurement.h"

namespace sim::calibrate {

// Calls `line` for each line without its end. Lines longer than 64 KiB are cut.
void for_lines(std::string_view bytes, const std::function<void(std::string_view)>& line);
// Words of a line separated by blanks, at most 64.
std::vector<std::string_view> split_words(std::string_view line);
std::string_view trimmed(std::string_view text);
// The line without mpirun's "[1,0]<stdout>:" or srun's "12: ", and without leading blanks.
std::string_view without_prefix(std::string_view line);
// The line without the escape sequences of terminal colours.
std::string without_colours(std::string_view line);
// The number after `label` and blanks, as in "label: 1,234.5 ms"; 0 if there is none.
double number_after(std::string_view line, std::string_view label);
// The whole part of number_after(); 0 for values above 10^15, which no count has.
std::int64_t count_after(std::string_view line, std::string_view label);
// The date in a line, such as "2024-08-15"; "" if there is none.
std::string date_in(std::string_view line);
// Summary of the steps without the first few; "" if there are none.
std::string summary(const std::vector<StepSample>& steps);

}  // namespace sim::calibrate
