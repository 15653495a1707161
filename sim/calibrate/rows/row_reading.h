// row_reading.h — what the parts of a row become on the way to its plan: settings from its columns,
// under which the statements of its framework hold.
#pragma once

#include <fmt/format.h>

#include "sim/calibrate/rows/row_text.h"
#include "sim/input/resolve/resolve.h"

namespace sim::calibrate {

// What a row's columns say, as settings of a plan, and what had to be assumed to read them.
struct Reading {
  const Row& row;
  const nlohmann::json& extra;
  std::vector<input::Setting> settings = {};
  std::vector<input::Assumption> assumptions = {};

  template <class T>
  void say(std::string_view field, const T& value) {
    settings.push_back({fmt::format("{}={}", field, value), ""});
  }
  bool says(std::string_view field) const;
  void assume(std::string_view field, std::string text) {
    assumptions.push_back({std::string(field), std::move(text)});
  }
};

// The network; "" or why it cannot be.
std::string read_architecture(Reading& reading);

// The schedule and its chunks; "" or why it cannot be.
std::string read_schedule(Reading& reading);
// What the framework left open of them. REQUIRES: degrees and network of out.plan stand.
std::string settle_schedule(Reading& reading, RowPlan& out);

// Why the row's time is none of its GPU; "": it may be. REQUIRES: the plan stands.
std::string above_peak(const Row& row, const program::Plan& plan, const input::Machine& machine);

}  // namespace sim::calibrate
