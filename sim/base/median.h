// median.h — the median of a sample.
//
// Readers of logs, comparisons and tables of errors call it.
#pragma once

#include <vector>

namespace sim {

// Of an even number of values, the mean of the two in the middle; 0 of none.
double median(std::vector<double> values);

}  // namespace sim
