// answers.h — answers items on all cores into a record file (records.h), for long commands other
// than sweeps. A record begins with the item's id, and its answer follows.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/output/json.h"
#include "sim/study/sweep/pool.h"
#include "sim/study/sweep/records.h"

namespace sim::study {

struct Kept {
  RecordProblem problem = RecordProblem::none;
  std::string message;
  bool complete = false;
};

// Calls of keep_answers(). `answer(i)` runs in a worker and returns the record of item i without
// its id. `failed(i, why)` runs in the parent instead if the worker died.
struct AnswerCalls {
  std::function<output::Json(std::size_t item)> answer;
  std::function<output::Json(std::size_t item, const std::string& why)> failed;
  std::function<bool(std::size_t done)> go_on;
};

// Answers all items that have no record yet. REQUIRES: ids are distinct and have 16 hex digits.
Kept keep_answers(const std::string& folder, RecordFile::Mode mode,
                  const std::vector<std::string>& ids, int workers, const AnswerCalls& calls);

// Hash, as 16 hex digits, of a text with everything that an answer depends on.
std::string identity(const std::string& text);

}  // namespace sim::study
