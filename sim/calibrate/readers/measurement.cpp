#include "sim/calibrate/readers/measurement.h"

#include <iterator>

namespace sim::calibrate {

namespace {

template <class T>
void append(std::vector<T>& to, std::vector<T>& from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

}  // namespace

void Measurements::add(Measurements other) {
  if (device.empty()) device = other.device;
  if (date < other.date) date = other.date;
  append(kernels, other.kernels);
  append(collectives, other.collectives);
  append(host, other.host);
  append(fields, other.fields);
  append(steps, other.steps);
  append(settings, other.settings);
  append(facts, other.facts);
  append(doubts, other.doubts);
  for (const auto& [reason, count] : other.passed) passed[reason] += count;
}

}  // namespace sim::calibrate
