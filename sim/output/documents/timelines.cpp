#include "sim/output/documents/timelines.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace sim::output {
namespace {

Json pass_columns(const answer::Answer& answer, const PassTimeline& passes) {
  std::vector<int> classes, stages, microbatches, chunks;
  std::vector<std::string> kinds;
  std::vector<double> begins, ends;
  for (std::size_t c = 0; c < answer.run.classes.size(); ++c)
    for (const PassTimeline::Span& span : passes.of(c)) {
      classes.push_back(static_cast<int>(c));
      stages.push_back(answer.run.classes[c].stage);
      kinds.emplace_back(program::name(span.pass));
      microbatches.push_back(span.microbatch);
      chunks.push_back(span.chunk);
      begins.push_back(static_cast<double>(span.begin.ps) * 1e-12);
      ends.push_back(static_cast<double>(span.end.ps) * 1e-12);
    }
  return {
      {"rank_class", classes}, {"stage", stages},   {"pass", kinds}, {"microbatch", microbatches},
      {"chunk", chunks},       {"begin_s", begins}, {"end_s", ends}};
}

Json memory_columns(const engine::ClassReport& who, std::size_t number,
                    const MemoryTimeline::Class& own) {
  Json json = {{"rank_class", number}, {"stage", who.stage}, {"cp_rank", who.cp_rank}};
  std::vector<double> times;
  std::vector<std::int64_t> allocated, reserved;
  for (const MemoryTimeline::Interval& interval : own.intervals) {
    times.push_back(seconds(own.width) * static_cast<double>(times.size()));
    allocated.push_back(interval.most.allocated);
    reserved.push_back(interval.most.reserved);
  }
  json["time_s"] = times;
  json["allocated_bytes"] = allocated;
  json["reserved_bytes"] = reserved;
  for (int c = 0; c < program::category_count; ++c) {
    std::vector<std::int64_t> held;
    for (const MemoryTimeline::Interval& interval : own.intervals)
      held.push_back(interval.most.split[static_cast<std::size_t>(c)]);
    json["by_category"][key_of(program::name(static_cast<program::Category>(c)))] = held;
  }
  return json;
}

}  // namespace

Json timelines(const answer::Answer& answer, const PassTimeline& passes,
               const MemoryTimeline& memory) {
  Json all = {{"passes", pass_columns(answer, passes)}, {"memory", Json::array()}};
  for (std::size_t c = 0; c < std::min(memory.size(), answer.run.classes.size()); ++c)
    all["memory"].push_back(memory_columns(answer.run.classes[c], c, memory.of(c)));
  return all;
}

}  // namespace sim::output
