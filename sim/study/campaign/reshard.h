// reshard.h — bytes of state that each rank receives when a job continues with another plan or
// fewer replicas.
//
// The state is a unit square: layers from top to bottom, a layer's tensor-parallel shards from left
// to right. A rank holds a rectangle of weights: its stage's layers, its shard. Its data-parallel x
// context-parallel group divides the fp32 weights and moments of that rectangle into bands, one per
// rank (Megatron-LM's distributed optimizer). State already on the same GPU is not received again.
//
// Approximations: stages hold equal, consecutive layers, even if they are interleaved. Experts are
// treated as layers. Bands are equal.
#pragma once

#include <vector>

#include "sim/study/campaign/steps.h"

namespace sim::campaign {

// Bytes per parameter: held by every data-parallel rank, and divided among them.
struct ParameterBytes {
  double replicated = 0, divided = 0;
};

struct Received {
  double most = 0;  // bytes of the rank that receives most
  double all = 0;   // bytes of all ranks
};

// `gpu_before[r]` is the former rank of the GPU of rank r; -1: the GPU has no state.
Received received(const Degrees& before, const Degrees& after, const std::vector<int>& gpu_before,
                  double parameters, const ParameterBytes& bytes);

// The former rank of each GPU after `lost` GPUs in the middle of the job are gone; later ones move
// up. A growing job adds empty GPUs at the end.
std::vector<int> gpus_after_loss(int before, int after, int lost);

}  // namespace sim::campaign
