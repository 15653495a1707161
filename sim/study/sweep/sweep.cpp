#include "sim/study/sweep/sweep.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <cassert>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "sim/base/version.h"
#include "sim/output/output.h"
#include "sim/output/record.h"
#include "sim/study/sweep/pool.h"

namespace sim::study {

namespace {

using output::Json;

std::string joined(const std::vector<std::string>& problems) {
  return fmt::format("{}", fmt::join(problems, "; "));
}

output::PointName named(const std::string& id, const Point& point) {
  return {id, point.name, point.family, fmt::format("{}", fmt::join(point.settings, " ")),
          point.counts_all_attention};
}

std::string refused(const std::string& id, const Point& point, const std::string& outcome,
                    const std::string& reason) {
  return output::line(output::record(named(id, point), outcome, reason, point.plan, point.cluster));
}

std::string impossible(const std::string& id, const Point& point) {
  return refused(id, point, "impossible", joined(point.problems));
}

std::string answered(const std::string& id, const Point& point, const SweepCalls& calls) {
  return output::line(output::record(named(id, point), calls.evaluate(point)));
}

std::string write_csv(const std::string& folder, const std::vector<Json>& records) {
  std::string csv = output::csv_header();
  for (const Json& record : records) csv += output::csv_row(record);
  return output::write_file(folder + "/results.csv", csv);
}

// Whether this version can read a record of an earlier run.
bool readable(std::string_view line) {
  const Json record = Json::parse(line, nullptr, false);
  return !record.is_discarded() && output::record_problem(record).empty();
}

class Sweep {
 public:
  Sweep(const Points& points, const SweepSettings& settings, const SweepCalls& calls)
      : points_(points), settings_(settings), calls_(calls) {
    ids_ = point_ids(points_);
    counts_.total = points_.count;
  }

  SweepResult run() {
    SweepResult result;
    RecordProblem problem = file_.open(settings_.folder, settings_.mode, ids_, readable);
    if (problem != RecordProblem::none) return failure(problem);
    result.foreign = file_.foreign();
    result.damaged = file_.damaged();
    result.dropped_bytes = file_.dropped_bytes();
    std::vector<std::size_t> open_points;
    for (std::size_t i = 0; i < points_.count; ++i) {
      if (const std::string* line = file_.find(ids_[i]); line != nullptr) {
        ++result.reused;
        count(*line);
        continue;
      }
      const Point point = points_.at(i);
      if (point.problems.empty()) {
        open_points.push_back(i);
      } else if (!keep(i, impossible(ids_[i], point))) {
        break;
      }
    }
    if (problem_ == RecordProblem::none) {
      result.complete = run_pool(open_points, settings_.workers, pool_calls(), settings_.ranks);
    }
    if (problem_ != RecordProblem::none) return failure(problem_);
    if (!result.complete) return result;
    if (problem = finish(result); problem != RecordProblem::none) return failure(problem);
    return result;
  }

  void help() { run_pool({}, settings_.workers, pool_calls(), settings_.ranks); }

 private:
  SweepResult failure(RecordProblem problem) const {
    SweepResult result;
    result.problem = problem;
    result.message = message_.empty() ? file_.message() : message_;
    return result;
  }

  void count(const std::string& line) {
    ++counts_.done;
    if (line.find("\"outcome\":\"fits\"") != std::string::npos) ++counts_.fits;
    if (line.find("\"outcome\":\"oom\"") != std::string::npos) ++counts_.oom;
  }

  // Workers may answer after a record could not be written: the first problem stays.
  bool keep(std::size_t i, const std::string& line) {
    if (problem_ != RecordProblem::none) return false;
    problem_ = file_.append(ids_[i], line);
    if (problem_ == RecordProblem::none) count(line);
    return problem_ == RecordProblem::none;
  }

  PoolCalls pool_calls() {
    PoolCalls calls;
    calls.answer = [this](std::size_t i) {
      const Point point = points_.at(i);
      return answered(ids_[i], point, calls_);
    };
    calls.answered = [this](std::size_t i, const std::string& line) { return keep(i, line); };
    calls.failed = [this](std::size_t i, const std::string& why) {
      return keep(i, refused(ids_[i], points_.at(i), "failed", why));
    };
    calls.killed = calls.failed;  // --resume tries again
    calls.go_on = [this] { return calls_.go_on(counts_); };
    return calls;
  }

  RecordProblem finish(SweepResult& result) {
    const RecordProblem problem = file_.finish();
    if (problem != RecordProblem::none) return problem;
    for (const std::string& id : ids_) result.records.push_back(Json::parse(*file_.find(id)));
    message_ = write_csv(settings_.folder, result.records);
    return message_.empty() ? RecordProblem::none : RecordProblem::io;
  }

  const Points& points_;
  const SweepSettings& settings_;
  const SweepCalls& calls_;
  std::vector<std::string> ids_;
  RecordFile file_;
  SweepCounts counts_;
  RecordProblem problem_ = RecordProblem::none;
  std::string message_;
};

}  // namespace

std::string point_id(const Point& point) {
  Json all = {{"version", output::version_text},
              {"point", point.name},
              {"family", point.family},
              {"cluster", point.cluster},
              {"machine", point.machine_digest},
              {"problems", point.problems},
              {"plan", output::to_json(point.plan)}};
  if (point.memory != engine::MemoryDetail::exact)
    all["memory"] = std::string(engine::name(point.memory));
  if (point.peaks) all["peaks"] = true;
  if (point.counts_all_attention) all["throughput"] = "paper";
  const std::string text = output::line(all);
  return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
}

Points share_of(const Points& points, const Shard& shard) {
  return {share(shard, points.count),
          [at = points.at, shard](std::size_t i) { return at(item(shard, i)); }};
}

std::vector<std::string> point_ids(const Points& points) {
  std::vector<std::string> ids;
  for (std::size_t i = 0; i < points.count; ++i) ids.push_back(point_id(points.at(i)));
  return ids;
}

std::string write_results(const std::string& folder, const std::vector<std::string>& lines,
                          const std::vector<Json>& records) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return folder + ": " + error.message();
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  const std::string problem = output::write_file(folder + "/results.jsonl", text);
  return problem.empty() ? write_csv(folder, records) : problem;
}

std::vector<std::string> records_of(const Points& points, std::size_t first, std::size_t count,
                                    int workers, const SweepCalls& calls) {
  std::vector<std::string> lines(count);
  const auto line_of = [&](std::size_t i) {
    const Point point = points.at(first + i);
    const std::string id = point_id(point);
    return point.problems.empty() ? answered(id, point, calls) : impossible(id, point);
  };
  std::vector<std::size_t> items(count);
  std::iota(items.begin(), items.end(), std::size_t{0});
  SweepCounts counts{.total = count};
  if (workers == 1) {
    for (const std::size_t i : items) {
      if (!calls.go_on(counts)) return {};
      lines[i] = line_of(i);
      ++counts.done;
    }
    return lines;
  }
  PoolCalls pool;
  pool.answer = line_of;
  pool.answered = [&](std::size_t i, const std::string& line) {
    lines[i] = line;
    ++counts.done;
    return true;
  };
  pool.failed = [&](std::size_t i, const std::string& why) {
    const Point point = points.at(first + i);
    lines[i] = refused(point_id(point), point, "failed", why);
    ++counts.done;
    return true;
  };
  pool.killed = pool.failed;
  pool.go_on = [&] { return calls.go_on(counts); };
  return run_pool(items, workers, pool) ? lines : std::vector<std::string>{};
}

void help_sweep(const Points& points, const SweepSettings& settings, const SweepCalls& calls) {
  assert(settings.ranks != nullptr && settings.ranks->rank() > 0);
  Sweep(points, settings, calls).help();
}

SweepResult sweep(const Points& points, const SweepSettings& settings, const SweepCalls& calls) {
  assert(settings.workers >= 1);
  return Sweep(points, settings, calls).run();
}

}  // namespace sim::study
