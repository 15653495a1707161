// losses.h — the losses of a plan that fits: memory that is nearly full or fragmented, and time
// that a change could save. `explain` and `run` print them; improve.h looks for changes against
// them.
//
// Thresholds: fragmentation above 15 % of the reserved bytes, and time above 10 % of the step.
// Smaller losses are not worth a change by themselves.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/answer/answer.h"

namespace sim::study {

enum class Cause : std::uint8_t {
  tight,    // a small change can reverse the outcome (answer/verdict.h)
  retries,  // the allocator gives its cache back in every step
  fragmentation,
  tensor_parallel,  // exposed communication, as the next three
  context_parallel,
  expert_parallel,
  data_parallel,
  fill_and_drain,
  unequal_stages,
  unequal_ranks,  // of a stage: experts with unlike numbers of tokens, unlike GPUs or sequences
  pipeline_messages,
  host,  // the GPU waits for launches
};
constexpr bool is_memory(Cause cause) {
  return cause <= Cause::fragmentation;
}

struct Loss {
  Cause cause = Cause::tight;
  double share = 0;  // of the step time, or of the reserved memory; 0: neither
  std::string text;  // "tensor-parallel communication that nothing hides: 4.20 s, 14.0 %"
};

// What a schedule that splits the backward pass costs in tensor-parallel communication; "" if the
// plan has none of it.
std::string split_backward_text(const program::Plan& plan);

// Losses of memory first, then of time, the largest first. Empty if the run does not fit or memory
// was not replayed.
std::vector<Loss> losses(const answer::Answer& answer);

}  // namespace sim::study
