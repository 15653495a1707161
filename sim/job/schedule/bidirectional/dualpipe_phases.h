// dualpipe_phases.h — the eight phases of DualPipe and DualPipeV. A rank has two chunks: F and f
// are their forward passes, D and d their backward passes, which may be split into B and W. Below,
// r is the rank's place among the R ranks of its direction, and n is the number of microbatches for
// each chunk:
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
// Two passes "beside" each other are one pass for other stages: both inputs are received first. The
// messages between experts of one pass travel while the other computes.
//
// DeepSeek-AI, "DeepSeek-V3 Technical Report" (arXiv:2412.19437), section 3.2.1 and figure 5;
// deepseek-ai/DualPipe, dualpipe.py and dualpipev.py, step().
#pragma once

#include "sim/job/schedule/schedule.h"

namespace sim::schedule {

struct DualPipePhases {
  int rank, ranks;        // r and R
  int microbatches;       // n
  int first_chunk = 0;    // the rank's chunk that the phases call F
  int first_of[2] = {};   // number of the first microbatch of each chunk
  bool joins_all = true;  // false: the first pair of phase 4 runs one pass after the other
};

Order dualpipe_order(const DualPipePhases& phases);

}  // namespace sim::schedule
