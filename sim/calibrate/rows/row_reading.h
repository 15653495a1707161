// row_reading.h — the intermediate form between a row and its plan: settings and assumptions. The
// function plan_of() fills it. Each function below reads one part of the row.
#pragma once

#include <fmt/format.h>

#include "sim/calibrate/rows/row_text.h"
#include "sim/input/resolve/resolve.h"

namespace sim::calibrate {

// Settings that the columns of a row state, and assumptions that were needed to read them.
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

// Reads the network. Returns "" or the reason why it is not supported.
std::string read_architecture(Reading& reading);

// Reads the schedule and its chunks. Returns "" or the reason why they are not supported.
std::string read_schedule(Reading& reading);
// Completes schedule and stages. REQUIRES: degrees and architecture of out.plan are set.
std::string settle_schedule(Reading& reading, RowPlan& out);

// Reason why the row's time is below the physical minimum of its GPU; "" if it is possible.
// REQUIRES: the plan is complete.
std::string above_peak(const Row& row, const program::Plan& plan, const input::Machine& machine);

}  // namespace sim::calibrate
