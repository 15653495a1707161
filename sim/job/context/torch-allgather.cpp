// torch-allgather.cpp — the default of PyTorch's context_parallel: the same steps as with
// rotate_method alltoall, but keys and values are gathered once, beside the first step.
#include "sim/job/context/context.h"

namespace sim::context {

std::vector<AttentionStep> torch_all_to_all_forward(const AttentionShape& shape, int rank);

std::vector<AttentionStep> torch_all_gather_forward(const AttentionShape& shape, int rank) {
  std::vector<AttentionStep> steps = torch_all_to_all_forward(shape, rank);
  for (AttentionStep& step : steps) step.beside.clear();
  if (shape.ranks > 1)
    steps.front().beside = {{"key and value gather", collective::Kind::all_gather, Level::all,
                             shape.sequence * shape.pair_bytes(shape.groups)}};
  return steps;
}

}  // namespace sim::context
