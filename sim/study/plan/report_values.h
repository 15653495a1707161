// report_values.h — values of a search report that its text and its JSON share.
#pragma once

#include "sim/study/plan/document.h"

namespace sim::planner {

inline double gib_of(std::int64_t bytes) {
  return gib(Bytes{bytes});
}

inline double seconds_of(const Replayed& one) {
  return static_cast<double>(one.step_ps) * 1e-12;
}

inline double cost_per_million(const SearchReport& said, const Replayed& one) {
  return answer::run_cost(said.cost, one.tokens_s_gpu, 1).per_million_tokens;
}

inline int gpus_of(const SearchReport& said, const Replayed& one) {
  return said.space.bases()[said.space.cores()[one.core].base].gpus;
}

inline program::Plan plan_of(const SearchReport& said, const Replayed& one) {
  return said.space.plan(said.space.cores()[one.core], one.variant);
}

// The programs that start a plan of the space.
inline std::vector<std::string> programs_of(const SearchReport& said, const Replayed& one) {
  const Base& base = said.space.bases()[said.space.cores()[one.core].base];
  return launch_programs(plan_of(said, one), said.model, base.file.machine);
}

inline double gain_of(const SearchReport& said, const Lifted& one) {
  return one.tokens_s_gpu / said.outcome.best.front().tokens_s_gpu - 1;
}

}  // namespace sim::planner
