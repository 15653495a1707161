// json.h — answers as JSON, with a versioned schema. Keys have units, rates have their convention,
// key order is fixed. Doubles print the shortest text that reads back as the same value.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "sim/answer/answer.h"
#include "sim/answer/interval.h"

namespace sim::output {

using Json = nlohmann::ordered_json;

// A document: {"schema": "rehearse/<command>/<version>", "version": ..., "result": result}
Json document(const std::string& command, Json result);
std::string version();

// Every field of the plan and its architecture. This canonical form is also hashed.
Json to_json(const program::Plan& plan);
Json to_json(const engine::ProgramLocation& place);
// The result of `run --json` (run_text.h).
Json to_json(const answer::Answer& answer);
// 90 % intervals with the runs that they come from: {"step_time_s": {"lo90": ..., "hi90": ...,
// ...}, ...}
Json intervals_json(const answer::Intervals& intervals);

// A name as a key: lower case, '_' for blanks, no commas ("pipeline fill, drain").
std::string key_of(std::string_view name);

// Rounded to `digits` digits after the point, for tables.
double rounded(double value, int digits);

// JSON in one line without blanks.
std::string line(const Json& json);

}  // namespace sim::output
