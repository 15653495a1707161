// record.h — one point of a sweep as a flat record: a line of results.jsonl, a row of results.csv.
//
// Invariants
// (1) A CSV cell is the text of the record's value. A missing value, such as the step time of a run
//     that does not fit, is null in JSON and empty in CSV.
// (2) A record has no wall-clock time, host or path.
#pragma once

#include <string>
#include <vector>

#include "sim/output/json.h"

namespace sim::output {

struct Column;

// The outcome of a point without a memory replay.
inline constexpr const char* not_asked = "not asked";

// The name of a record's point, and its settings as words: "model=llama-2-7b tp=4 ...".
struct PointName {
  std::string id, point, family, settings = "";
  bool counts_all_attention = false;  // grid.proto: `throughput: paper`
};

// The column with the throughput that tables and charts of these records show: tflops_gpu_megatron,
// or tflops_gpu_paper if all of their grids ask for it.
std::string throughput_column(const std::vector<Json>& records);

// A record with outcome `fits` or `oom`; for `oom` the peaks are the needed bytes. Without a memory
// replay the outcome is `not asked` and there are no peaks.
Json record(const PointName& name, const answer::Answer& answer);
// A record with outcome `impossible` (the plan breaks a rule) or `failed` (a bug of the simulator),
// with the reason.
Json record(const PointName& name, const std::string& outcome, const std::string& reason,
            const program::Plan& plan, const std::string& cluster);

// The columns of results.csv in order: the keys of a record, with units.
const std::vector<Column>& record_columns();
// The column that a price adds to records, "cost_per_million_tokens"; results.csv does not have it.
const Column& cost_column();
// Adds the cost of a million tokens to a record that has a throughput.
void add_cost(Json& record, double price_per_gpu_hour);
// Whether a record of these has a cost.
bool have_cost(const std::vector<Json>& records);
// Why a JSON value is not a record; "" if it is one.
std::string record_problem(const Json& value);

// Begin of the reason of a failed point whose worker was killed, not crashed.
inline constexpr std::string_view killed_from_outside = "killed from outside";
bool was_killed(const Json& record);
// `columns`: of record_columns, in the order of the row.
std::string csv_header(const std::vector<Column>& columns = record_columns());
std::string csv_row(const Json& record, const std::vector<Column>& columns = record_columns());

}  // namespace sim::output
