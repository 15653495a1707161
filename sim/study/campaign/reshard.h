// reshard.h — what of the state every rank must receive when a job goes on in another plan, or with
// fewer replicas.
//
// The state is a unit square: layers from top to bottom, a layer's tensor-parallel shards from left
// to right. A rank holds a rectangle of the weights (its stage's layers, its shard of them) and, of
// that rectangle, a band of the fp32 weights and moments, which the ranks of its data-parallel and
// context-parallel group divide (Megatron-LM's distributed optimizer). What it held before on the
// same GPU need not come again.
//
// Approximations: stages hold equal runs of neighbouring layers, also where they are interleaved;
// experts are taken as layers are; bands are even.
#pragma once

#include <vector>

#include "sim/study/campaign/steps.h"

namespace sim::campaign {

// Of a parameter: bytes that every data-parallel rank holds, and bytes that they divide.
struct ParameterBytes {
  double replicated = 0, divided = 0;
};

struct Received {
  double most = 0;  // bytes that the rank receives that receives most
  double all = 0;   // of all ranks
};

// `gpu_before[r]`: the rank that the GPU of rank r was before, -1: it has nothing.
Received received(const Degrees& before, const Degrees& after, const std::vector<int>& gpu_before,
                  double parameters, const ParameterBytes& bytes);

// `lost` GPUs in the middle of the job are gone; those after them move up. A job that grows fills
// its last ranks with GPUs that hold nothing.
std::vector<int> gpus_after_loss(int before, int after, int lost);

}  // namespace sim::campaign
