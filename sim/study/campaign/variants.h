// variants.h — the same campaign under changed conditions, side by side, under the same seeds.
//
// Invariant: the failures of a seed are the same in every variant whose parts and rates are the
// same, so that differences are not noise (job.h, invariant 3).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/input/plan/whatif.h"
#include "sim/study/campaign/run.h"

namespace sim::campaign {

// What `--vary` knows; adding one is a row.
struct Variable {
  std::string_view name;
  std::string_view summary;
  // "" or what is wrong with the value.
  std::string (*set)(Setup& setup, const std::string& value);
};
std::span<const Variable> variables();

// "", or that there is none of this name, with the nearest one.
std::string unknown(const std::string& name);
// "", or why no campaign can have "name=value", whatever its other settings are.
std::string malformed(const std::string& setting);
// Applies "name=value"; "" or what is wrong.
std::string set(Setup& setup, const std::string& setting);

struct Row {
  std::string name;                   // "answer=wait repair=4h"
  std::vector<std::string> settings;  // one per variable
  std::string problem;                // why it is impossible; "": it ran
  Summary summary;
  // Tokens that a GPU that is paid for trains, of those of the undisturbed job; spares are paid.
  double per_gpu = 0;
  double tokens_per_gpu_hour = 0;  // that is paid for; 0: not known
  double tokens_per_money = 0;     // in the currency of the price; 0: not known
};

// Every combination. Empty: interrupted.
std::vector<Row> compare(const Setup& setup, const std::vector<input::Variant>& variants,
                         Steps& steps, const Seeds& seeds, const std::function<bool()>& go_on);

output::Json to_json(const Row& row);
// The table; where answers are compared, also which is best and where that changes.
std::string text(const std::vector<Row>& rows);

}  // namespace sim::campaign
