// answers.h — items answered on all cores into a record file (records.h): what a long command keeps
// that is no sweep of a grid. An answer is the end of its record; the record begins with the id.
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

// `answer(i)` in a worker: what the record of item i says beside its id; `failed(i, why)` in the
// parent instead, where the worker died.
struct AnswerCalls {
  std::function<output::Json(std::size_t item)> answer;
  std::function<output::Json(std::size_t item, const std::string& why)> failed;
  std::function<bool(std::size_t done)> go_on;
};

// REQUIRES: ids are distinct, 16 hex digits each.
Kept keep_answers(const std::string& folder, RecordFile::Mode mode,
                  const std::vector<std::string>& ids, int workers, const AnswerCalls& calls);

// 16 hex digits of what an answer depends on.
std::string identity(const std::string& text);

}  // namespace sim::study
