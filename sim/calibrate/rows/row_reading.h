// row_reading.h — the intermediate form between a row and its plan file: settings and assumptions.
// The function plan_of() fills it. Each function below reads some columns of the row.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "sim/calibrate/rows/row_text.h"
#include "sim/input/resolve/resolve.h"

namespace sim::calibrate {

// Settings that the columns of a row state, and assumptions that were needed to read them.
struct Reading {
  const Row& row;
  std::vector<std::string> settings = {};  // "key=value", of the plan or of its cluster
  std::vector<std::string> defaults = {};  // the same, weaker than every setting
  std::vector<input::Assumption> assumptions = {};
  std::string unsupported = {};  // the first reason why the row cannot be represented

  template <class T>
  void say(std::string_view field, const T& value) {
    settings.push_back(fmt::format("{}={}", field, value));
  }
  // The value of the last setting of a field; "" if there is none.
  std::string said(std::string_view field) const;
  bool says(std::string_view field) const { return !said(field).empty(); }
  void assume(std::string_view field, std::string text) {
    assumptions.push_back({std::string(field), std::move(text)});
  }
  void refuse(std::string why) {
    if (unsupported.empty()) unsupported = std::move(why);
  }
  bool is_mixture() const;
};

// The network: dimensions, experts, and a model file of the same name for rows with experts.
void read_network(Reading& reading);
// Precision, sharding, recomputation, attention.
void read_precision(Reading& reading);
void read_sharding(Reading& reading);
void read_recomputation(Reading& reading);
// Keys of the column `extra` that a launch script or a plan has.
void read_flags(Reading& reading);
// The column `settings`: "key=value; key=value", in the words of a plan file.
void read_settings(Reading& reading);
// Degrees, GPUs and batch. After all other columns.
void read_degrees(Reading& reading);
// The schedule, its chunks and its uneven stages. REQUIRES: degrees and network are read.
void read_schedule(Reading& reading);

// "every 2nd layer": 2; 0 if the text names no interval.
int layer_interval(const std::string& text);

// Reason why the row's time is below the physical minimum of its GPU; "" if it is possible.
// REQUIRES: the plan is complete.
std::string above_peak(const Row& row, const program::Plan& plan, const input::Machine& machine);

}  // namespace sim::calibrate
