// state.h — how much a checkpoint holds, and how long its ways are.
//
// A checkpoint holds what a restart needs of every parameter: the weights, their fp32 copy, two
// moments (Megatron-LM's distributed optimizer: 2 + 4 + 4 + 4 bytes). The ranks write it together,
// each its share. A way is as slow as its narrowest part:
//
//     write = max(all / storage, a node's share / its NICs, a rank's share / its writer)
//
// Asynchronous: the job stands while the share of a rank moves to the host over PCIe, which the
// step's own traffic shares; the rest happens behind. Overlapped with the next step, it stands only
// for what that step is too short for (torchtitan's pinned staging).
//
// In memory: the share goes to other nodes over the fabric (Wang et al., "Gemini", SOSP 2023), each
// node to its neighbours, all at once; the network says how long that takes.
#pragma once

#include "sim/campaign/spec.h"
#include "sim/config/campaign.h"
#include "sim/search/evaluate.h"

namespace sim::campaign {

// Bytes of a checkpoint of the whole job.
double state_bytes(const workload::Plan& plan);

struct Ways {
  double bytes = 0;      // of the whole job
  double host = 0;       // seconds: a rank's share to host memory
  double pcie_left = 1;  // share of PCIe that the step leaves to it
  double fabric = 0;     // seconds: every rank's share to a neighbouring node
};

// `step`: seconds, for the traffic that shares PCIe with the copy.
Ways ways_of(const workload::Plan& plan, search::Site& site, double step);

// What is not given follows from the ways. `interval` stays as it is.
Tier tier_of(const config::CheckpointFields& from, const Ways& ways, const workload::Plan& plan,
             const search::Site& site, double step);

}  // namespace sim::campaign
