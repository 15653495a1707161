// variants.h — compares variants of a campaign under the same seeds.
//
// Invariant: variants with the same parts and failure rates see the same failures of a seed, so
// differences are not noise (job.h, invariant 3).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/input/plan/whatif.h"
#include "sim/study/campaign/run.h"

namespace sim::campaign {

// A variable of `--vary`; a new one is a row of the table.
struct Variable {
  std::string_view name;
  std::string_view summary;
  // Sets the value. Returns "" or the problem.
  std::string (*set)(Setup& setup, const std::string& value);
};
std::span<const Variable> variables();

// Returns "" or the message that no variable has this name, with the nearest one.
std::string unknown(const std::string& name);
// Returns "" or why "name=value" is invalid for every campaign.
std::string malformed(const std::string& setting);
// Returns "" or why one of the variables that vary changes nothing in this campaign.
std::string without_effect(const Setup& setup, const std::vector<std::string>& varied);
// Applies "name=value". Returns "" or the problem.
std::string set(Setup& setup, const std::string& setting);

struct Row {
  std::string name;                   // "answer=wait repair=4h"
  std::vector<std::string> settings;  // one per variable
  std::string problem;                // why it is impossible; "": it ran
  Summary summary;
  // Tokens per paid GPU relative to the undisturbed job; spares are paid.
  double per_gpu = 0;
  double tokens_per_gpu_hour = 0;  // per paid GPU hour; 0: unknown
  double tokens_per_money = 0;     // in the currency of the price; 0: unknown
};

// Runs every combination. Empty: interrupted.
std::vector<Row> compare(const Setup& setup, const std::vector<input::Variant>& variants,
                         Steps& steps, const Seeds& seeds, const std::function<bool()>& go_on);

output::Json to_json(const Row& row);
// The table of variants. If answers to failures vary, also the best answer and where it changes.
std::string text(const std::vector<Row>& rows);

}  // namespace sim::campaign
