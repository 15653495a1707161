// plain_number.h — numbers for readers without an exponent: 25,400,000 and 10,170 and 0.4321.
//
// The texts of `run`, `plan`, `whatif` and `campaign` call it for money, energy and tokens.
#pragma once

#include <string>

namespace sim {

// The value rounded to `digits` significant digits, with a comma between thousands. Values below
// 1e-4 keep an exponent.
std::string plain_number(double value, int digits = 4);

}  // namespace sim
