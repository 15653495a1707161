// state.h — the size of a checkpoint, and the times to write and load it.
//
// A checkpoint holds the state that a restart needs for every parameter: the weights, their fp32
// copy, two moments (Megatron-LM's distributed optimizer: 2 + 4 + 4 + 4 bytes). All ranks write it
// together, each its share. The slowest part of the path decides:
//
//    write = max(all / storage, a node's share / its NICs, a rank's share / its writer)
//
// Asynchronous: the job waits while a rank's share moves to the host over PCIe; the rest happens in
// the background. The move may overlap with the next step, which also uses PCIe (torchtitan's
// pinned staging). Then the job waits only for the time by which the move is longer than the step.
//
// A background copy uses links that the step uses too: PCIe if it is overlapped, NICs on the path
// to storage. The wait of the step's own traffic is at most the duration of the copy times the
// share of time in which the step uses the link. This upper bound is added once per save.
//
// In memory: each node sends its share to neighbouring nodes over the network, all at once (Wang et
// al., "Gemini", SOSP 2023). The network model gives the duration.
#pragma once

#include "sim/answer/evaluate.h"
#include "sim/input/plan/campaign.h"
#include "sim/study/campaign/reshard.h"
#include "sim/study/campaign/spec.h"

namespace sim::campaign {

// Bytes of a checkpoint of the whole job: parameters x bytes per parameter.
double state_bytes(const program::Plan& plan);
// The two factors: the number of parameters, and the bytes per parameter.
double state_parameters(const program::Plan& plan);
ParameterBytes parameter_bytes(const program::Plan& plan);

struct Ways {
  double bytes = 0;   // of the whole job
  double host = 0;    // seconds of a rank's share to host memory, without other traffic
  double pcie = 0;    // share of a step in which its own traffic uses PCIe
  double nics = 0;    // the same for the NICs
  double fabric = 0;  // seconds of every rank's share to a neighbouring node
};

// Seconds in which every rank sends `bytes_of_rank` to the same GPU of the next node, all at once.
double fabric_seconds(const program::Plan& plan, answer::Site& site, double bytes_of_rank);

// `step` is in seconds; it gives the share of PCIe and NICs that the step's own traffic uses.
Ways ways_of(const program::ValidPlan& plan, answer::Site& site, double step);

// A checkpoint tier; missing times follow from `ways`. `interval` keeps its value.
Tier tier_of(const input::CheckpointFields& from, const Ways& ways, const program::Plan& plan,
             const answer::Site& site, double step);

}  // namespace sim::campaign
