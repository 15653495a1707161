// json.h — answers as JSON: stable, versioned, every key with its unit, every rate with its
// convention. Key order is fixed; doubles print the shortest text that reads back the same.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "sim/answer/answer.h"
#include "sim/answer/interval.h"

namespace sim::output {

using Json = nlohmann::ordered_json;

// {"schema": "rehearse/<command>/<version>", "version": ..., "result": result}
Json document(const std::string& command, Json result);
std::string version();

// Every field of the plan and of its architecture: the canonical form, also for hashing.
Json to_json(const program::Plan& plan);
Json to_json(const engine::Place& place);
// What `run --json` prints of an answer (run_text.h).
Json to_json(const answer::Answer& answer);
// 90 % intervals, with the runs behind each: {"step_time_s": {"lo90": ..., "hi90": ..., ...}, ...}
Json intervals_json(const answer::Intervals& intervals);

// A name as a key: small letters, '_' for blanks, no commas ("pipeline fill, drain").
std::string key_of(std::string_view name);

// Rounded to `digits` after the point, for results that people read in tables.
double rounded(double value, int digits);

// One line without blanks.
std::string line(const Json& json);

}  // namespace sim::output
