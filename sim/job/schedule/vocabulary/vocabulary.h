// vocabulary.h — 1F1B with embedding and output layer split over all stages, so that all stages
// have the same work. Every stage runs two passes for each microbatch: S (logits of its rows of the
// vocabulary) and T (their gradients).
//
//     two barriers   S; sums of all stages; T; gradients of all stages; backward of the last part
//     one barrier    S does all except the weight gradient; sums and gradients of all stages in one
//                    round; backward of the last part; T at any time
//     together       S and T in one, all stages at the same time
//
// The implementation runs S of a microbatch and T of the one before in a single pass.
//
// Yeung et al., "Balancing Pipeline Parallelism with Vocabulary Parallelism" (arXiv:2411.05288),
// section 4; orders of sail-sg/VocabularyParallelism, vocab_parallel_schedule.py and
// interlaced_schedule.py.
#pragma once

#include "sim/job/schedule/schedule.h"

namespace sim::schedule {

// `extra` forwards beyond 1F1B's warm-up, one for each barrier.
Order vocabulary_order(const PipelineShape& shape, int stage, int extra);

}  // namespace sim::schedule
