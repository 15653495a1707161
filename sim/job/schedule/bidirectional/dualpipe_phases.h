// dualpipe_phases.h — the eight phases that DualPipe and DualPipeV share. A rank has two chunks; F
// and f are their forward passes, D and d their backward passes, which may be split into B and W.
// With r the rank's place among R ranks that go one way, and n microbatches for the rank to run
// through each chunk:
//
//     1  2(R - r - 1) times  F
//     2  r + 1 times         F f
//     3  R - r - 1 times     b w f
//     4  n - 2R + r + 1      F beside d, then f beside D
//     5  R - r - 1 times     d, then f beside D
//     6  r + 1 times         d D, from the middle on without the weight gradients
//     7  R - r - 1 times     W B
//     8  r + 1 times         W
//
// "Beside" is one pass to the outside: both inputs are asked for first, and the messages between
// experts of one half travel while the other half computes.
//
// DeepSeek-AI, "DeepSeek-V3 Technical Report" (arXiv:2412.19437), section 3.2.1 and figure 5;
// deepseek-ai/DualPipe, dualpipe.py and dualpipev.py, step().
#pragma once

#include "sim/job/schedule/schedule.h"

namespace sim::schedule {

struct DualPipePhases {
  int rank, ranks;        // r and R
  int microbatches;       // n
  int first_chunk = 0;    // which of the rank's chunks is F
  int first_of[2] = {};   // number of the first microbatch of each chunk
  bool joins_all = true;  // false: the first pair of phase 4 runs one after the other
};

Order dualpipe_order(const DualPipePhases& phases);

}  // namespace sim::schedule
