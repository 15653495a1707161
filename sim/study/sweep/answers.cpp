#include "sim/study/sweep/answers.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <nlohmann/json.hpp>

#include "sim/output/output.h"

namespace sim::study {

Kept keep_answers(const std::string& folder, RecordFile::Mode mode,
                  const std::vector<std::string>& ids, int workers, const AnswerCalls& calls) {
  Kept kept;
  RecordFile file;
  kept.problem = file.open(folder, mode, ids);
  std::vector<std::size_t> open_items;
  for (std::size_t i = 0; kept.problem == RecordProblem::none && i < ids.size(); ++i) {
    if (file.find(ids[i]) == nullptr) open_items.push_back(i);
  }
  std::size_t done = ids.size() - open_items.size();
  // Workers may answer after a record could not be written: the first problem stays.
  const auto store = [&](std::size_t i, const output::Json& answer) {
    if (kept.problem != RecordProblem::none) return false;
    output::Json record = {{"id", ids[i]}};
    record.update(answer);
    kept.problem = file.append(ids[i], output::line(record));
    ++done;
    return kept.problem == RecordProblem::none;
  };
  PoolCalls pool;
  pool.answer = [&](std::size_t i) { return output::line(calls.answer(i)); };
  pool.answered = [&](std::size_t i, const std::string& text) {
    return store(i, output::Json::parse(text));
  };
  pool.failed = [&](std::size_t i, const std::string& why) {
    return store(i, calls.failed(i, why));
  };
  pool.go_on = [&] { return calls.go_on(done); };
  if (kept.problem == RecordProblem::none) kept.complete = run_pool(open_items, workers, pool);
  if (kept.problem == RecordProblem::none && kept.complete) kept.problem = file.finish();
  if (kept.problem != RecordProblem::none) kept.complete = false;
  kept.message = file.message();
  return kept;
}

std::string identity(const std::string& text) {
  return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
}

}  // namespace sim::study
