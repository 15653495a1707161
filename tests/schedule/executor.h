// executor.h — runs a schedule with unit passes and free transfers, for the tests.
//
// A stage runs its steps strictly in order, each as soon as its inputs are there: the forward of
// part j needs the forward of part j - 1, the backward of part j needs that of part j + 1 and its
// own forward, a weight pass needs its own backward. Part j = chunk x stages + stage.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "sim/schedule/schedule.h"

namespace sim::schedule {

struct Timeline {
  bool deadlock = false;
  int makespan = 0;                                    // in unit passes
  std::vector<std::vector<std::optional<Step>>> rows;  // [stage][time]
};

inline Timeline execute(const Schedule& schedule, Shape shape) {
  const int parts = shape.stages * shape.chunks;
  // done[pass][part][microbatch]: the time it ended, or -1.
  std::vector<std::vector<int>> done(
      3, std::vector<int>(static_cast<std::size_t>(parts * shape.microbatches), -1));
  const auto at = [&](Pass pass, int part, int microbatch) -> int& {
    return done[static_cast<std::size_t>(pass)]
               [static_cast<std::size_t>(part * shape.microbatches + microbatch)];
  };
  const auto ended = [&](Pass pass, int part, int microbatch, int now) {
    const int time = at(pass, part, microbatch);
    return time >= 0 && time <= now;
  };
  Timeline out;
  std::vector<Order> orders;
  for (int s = 0; s < shape.stages; ++s) orders.push_back(schedule.order(shape, s));
  std::vector<std::size_t> next(orders.size(), 0);
  out.rows.resize(orders.size());

  for (int now = 0;; ++now) {
    bool finished = true;
    bool moved = false;
    for (int s = 0; s < shape.stages; ++s) {
      const auto stage = static_cast<std::size_t>(s);
      if (next[stage] == orders[stage].size()) continue;
      finished = false;
      const Step step = orders[stage][next[stage]];
      const int part = step.chunk * shape.stages + s;
      bool ready = false;
      switch (step.pass) {
        case Pass::forward:
          ready = part == 0 || ended(Pass::forward, part - 1, step.microbatch, now);
          break;
        case Pass::backward:
          ready = ended(Pass::forward, part, step.microbatch, now) &&
                  (part == parts - 1 || ended(Pass::backward, part + 1, step.microbatch, now));
          break;
        case Pass::weight:
          ready = ended(Pass::backward, part, step.microbatch, now);
          break;
      }
      if (!ready) continue;
      out.rows[stage].resize(static_cast<std::size_t>(now) + 1);
      out.rows[stage].back() = step;
      at(step.pass, part, step.microbatch) = now + 1;
      ++next[stage];
      moved = true;
      out.makespan = now + 1;
    }
    if (finished) break;
    if (!moved) {
      out.deadlock = true;  // unit passes: an idle instant everywhere stays idle
      break;
    }
  }
  for (auto& row : out.rows) row.resize(static_cast<std::size_t>(out.makespan));
  return out;
}

// One row per stage, one column per unit of time: '.' idle, a.. forward, A.. backward of the same
// microbatch, 0.. its weight pass. With several chunks a second row names the chunk.
inline std::string draw(const Schedule& schedule, Shape shape) {
  std::string out = "\n";
  for (const auto& row : execute(schedule, shape).rows) {
    std::string letters, chunks;
    for (const auto& step : row) {
      const char base = !step                          ? '.'
                        : step->pass == Pass::forward  ? 'a'
                        : step->pass == Pass::backward ? 'A'
                                                       : '0';
      letters += static_cast<char>(base + (step ? step->microbatch : 0));
      chunks += step ? static_cast<char>('0' + step->chunk) : ' ';
    }
    out += letters + "\n";
    if (shape.chunks > 1) out += chunks.substr(0, chunks.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

}  // namespace sim::schedule
