// grid_words.h — reads the words of a command line as a grid: "model=llama-3.1-8b tp=1,2,4".
//
// grid_of_words (grid.h) calls it.
#pragma once

#include <string>
#include <vector>

#include "sim/base/result.h"
#include "sim/input/schema/grid.pb.h"
#include "sim/input/text/textproto.h"

namespace sim::input {

// Fills `grid` with one base and one family: a key with one value is set, a key with several
// varies. Commas inside quotes or brackets do not separate values (parse_vary). Returns the errors;
// their places are the words. REQUIRES: `grid` is empty and does not move while `source` is in use.
Diagnostics read_words(const std::vector<std::string>& words, rehearse::v1::Grid& grid,
                       Source& source);

}  // namespace sim::input
