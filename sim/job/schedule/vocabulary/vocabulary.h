// vocabulary.h — 1F1B with embedding and output layer cut over all stages, so that no stage has
// more to do than the others. For each microbatch every stage runs an output pass S (logits of its
// rows of the vocabulary) and T (their gradients).
//
//     two barriers   S; sums of all stages; T; gradients of all stages; backward of the last part
//     one barrier    S does all but the weight gradient; sums and gradients of all stages in one
//                    round; backward of the last part; T whenever
//     together       S and T in one, all stages at the same time
//
// S of a microbatch and T of the one before are one pass of the implementation.
//
// Yeung et al., "Balancing Pipeline Parallelism with Vocabulary Parallelism" (arXiv:2411.05288),
// section 4; orders of sail-sg/VocabularyParallelism, vocab_parallel_schedule.py and
// interlaced_schedule.py.
#pragma once

#include "sim/job/schedule/schedule.h"

namespace sim::schedule {

// `extra` forwards beyond 1F1B's warm-up, one for each barrier.
Order vocabulary_order(const Shape& shape, int stage, int extra);

}  // namespace sim::schedule
