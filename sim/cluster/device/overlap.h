// overlap.h — the slow-down of a kernel and a collective that run at the same time.
//
// NCCL runs one thread block per channel, and each block occupies an SM (NVIDIA/nccl issue 689). A
// compute-bound kernel keeps (1 - channels / SMs) of the GPU, times the share that cache, HBM and
// power leave (OverlapProfile::compute). A memory-bound kernel loses only bandwidth. Published
// averages: compute slows by 18.9 % on average and 40 % at most on 4 x A100 and 4 x H100 (arXiv
// 2507.03114, abstract).
#pragma once

#include "sim/cluster/device/gpu.h"
#include "sim/cluster/device/profile.h"
#include "sim/model/operation.h"

namespace sim::device {

// Rate of a kernel beside a collective on `channels` SMs, relative to running alone; (0, 1].
// REQUIRES: 0 <= channels < gpu.sms.
double kernel_rate(model::OperationKind kind, const Gpu& gpu, const Profile& profile, int channels);

// Rate of a collective beside compute, relative to running alone; (0, 1].
double collective_rate(const Profile& profile, bool across_nodes);

}  // namespace sim::device
