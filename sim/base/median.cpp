#include "sim/base/median.h"

#include <boost/math/statistics/univariate_statistics.hpp>

namespace sim {

double median(std::vector<double> values) {
  return values.empty() ? 0 : boost::math::statistics::median(values);
}

}  // namespace sim
