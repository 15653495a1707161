// leave_out.h — `rehearse validate --leave-out`: predicts each group of rows by a fit to the rest.
#pragma once

#include <string>
#include <vector>

#include "sim/command/common/command.h"
#include "sim/command/common/shard.h"
#include "sim/input/tables/runs_csv.h"

namespace sim::command {

struct LeaveOutWanted {
  std::string column;     // source, gpu, framework, model, half, or a column of the tables
  std::string folder;     // of the records, from which an interrupted command continues
  std::string csv;        // predictions of the left-out rows; "": none
  std::string residuals;  // residuals of the left-out rows; "": none
  std::string words;      // the command line, for the residuals file
};

// Exit code of the command.
int run_leave_out(const std::vector<input::RunsRow>& rows, const LeaveOutWanted& wanted,
                  const Share& share, const Globals& globals);

}  // namespace sim::command
