// record.h — one point of a sweep as a flat record: a line of results.jsonl, a row of results.csv.
//
// Invariants
//  (1) A CSV cell is the text of the record's value; a value that does not exist (the step time of
//      a run that does not fit) is null there and empty here.
//  (2) A record holds no wall-clock time, host or path.
#pragma once

#include <string>
#include <vector>

#include "sim/output/json.h"

namespace sim::output {

struct Column;

// The outcome of a point whose memory was not replayed.
inline constexpr const char* not_asked = "not asked";

// What a record says besides its answer.
struct PointName {
  std::string id, point, family;
};

// outcome `fits` or `oom`; on `oom` the peaks are what the run would have needed. `not asked` where
// memory was not replayed: there are no peaks.
Json record(const PointName& name, const answer::Answer& answer);
// outcome `impossible` (a plan that breaks a rule) or `failed` (our bug), with the reason.
Json record(const PointName& name, const std::string& outcome, const std::string& reason,
            const program::Plan& plan, const std::string& cluster);

// The columns of results.csv, in its order: the keys of a record, with their units.
const std::vector<Column>& record_columns();
// What keeps a value that was read from being a record, "" when it is one.
std::string record_problem(const Json& value);

// What the reason of a failed point begins with when its worker did not crash but was killed.
inline constexpr std::string_view killed_from_outside = "killed from outside";
bool was_killed(const Json& record);
std::string csv_header();
std::string csv_row(const Json& record);

}  // namespace sim::output
