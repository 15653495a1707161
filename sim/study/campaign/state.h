// state.h — how much a checkpoint holds, and how long its ways are.
//
// A checkpoint holds what a restart needs of every parameter: the weights, their fp32 copy, two
// moments (Megatron-LM's distributed optimizer: 2 + 4 + 4 + 4 bytes). The ranks write it together,
// each its share. A way is as slow as its narrowest part:
//
//     write = max(all / storage, a node's share / its NICs, a rank's share / its writer)
//
// Asynchronous: the job stands while the share of a rank moves to the host over PCIe; the rest
// happens behind. Overlapped with the next step, which shares PCIe with it, it stands only for what
// that step is too short for (torchtitan's pinned staging).
//
// What is copied behind takes its time on links that the step uses as well: on PCIe where it is
// overlapped, on the NICs on its way to storage. The step's own traffic can wait for no more than
// that time, and only in the share of it in which it is on the link; all of it is charged, once a
// save.
//
// In memory: the share goes to other nodes over the fabric (Wang et al., "Gemini", SOSP 2023), each
// node to its neighbours, all at once; the network says how long that takes.
#pragma once

#include "sim/answer/evaluate.h"
#include "sim/input/plan/campaign.h"
#include "sim/study/campaign/reshard.h"
#include "sim/study/campaign/spec.h"

namespace sim::campaign {

// Bytes of a checkpoint of the whole job.
double state_bytes(const program::Plan& plan);
// The same by parts.
double state_parameters(const program::Plan& plan);
ParameterBytes parameter_bytes(const program::Plan& plan);

struct Ways {
  double bytes = 0;   // of the whole job
  double host = 0;    // seconds: a rank's share to host memory, with nothing beside it
  double pcie = 0;    // share of a step in which its own traffic is on PCIe
  double nics = 0;    // the same, of the NICs
  double fabric = 0;  // seconds: every rank's share to a neighbouring node
};

// Every rank sends so many bytes to the same GPU of the next node, all at once: seconds.
double fabric_seconds(const program::Plan& plan, answer::Site& site, double bytes_of_rank);

// `step`: seconds, for the traffic that shares PCIe with the copy.
Ways ways_of(const program::ValidPlan& plan, answer::Site& site, double step);

// What is not given follows from the ways. `interval` stays as it is.
Tier tier_of(const input::CheckpointFields& from, const Ways& ways, const program::Plan& plan,
             const answer::Site& site, double step);

}  // namespace sim::campaign
