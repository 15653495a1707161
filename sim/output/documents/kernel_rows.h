// kernel_rows.h — the tables of `rehearse run --kernels`: kernels, collectives and pipeline
// messages of the last step, of one rank of each stage.
//
// A row holds the operations of one name in one kind of pass, as in the table of
// `calibrate TRACE --plan`. Rows are sorted by time.
#pragma once

#include <memory>
#include <vector>

#include "sim/answer/answer.h"
#include "sim/answer/step_operations.h"
#include "sim/output/document.h"

namespace sim::output {

// Observes a replay, and makes tables of it. One rank class of each stage is recorded: that of the
// stage's first rank.
class KernelTables {
 public:
  // `arrival`: time between the arrivals of the ranks of a collective or message, which its time
  // holds (cluster/device/profile.h). The tables show it as waiting.
  KernelTables(std::shared_ptr<const program::Job> job, Duration arrival);

  engine::Observer& observer() { return recorder_; }
  // For text, tables of each stage with the longest rows; for programs, "kernels" and
  // "collectives" with all rows. REQUIRES: the observed run fits.
  std::vector<Block> blocks(const answer::Answer& answer) const;

 private:
  std::shared_ptr<const program::Job> job_;
  Duration arrival_;
  std::vector<int> classes_;  // by stage
  answer::StepRecorder recorder_;
};

}  // namespace sim::output
