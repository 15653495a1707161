// measurement.h — what sources of measurements say, in one form: kernels with their shapes,
// collectives with their sizes, host costs, whole steps.
//
// Invariants
//  (1) Every duration and size is finite and positive; of a step, 0 is what was not printed.
//  (2) What a reader leaves out it counts, with the reason.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/units.h"
#include "sim/cluster/collective/collective.h"
#include "sim/job/mesh/axes.h"
#include "sim/model/operation.h"

namespace sim::calibrate {

// One kernel, or several that were timed together.
struct KernelSample {
  std::string group;   // "gemm forward", "attention backward", "norm"
  std::string source;  // who measured
  std::string gpu;
  std::string implementation;  // of attention: "flash-attention-2"; "": whatever the profile has
  std::vector<model::Operation> operations;
  double seconds = 0;
  std::int64_t count = 1;  // how often it was measured; `seconds` is their median
  bool in_run = false;     // in a training step: at the rate that a long run sustains
};

struct CollectiveSample {
  collective::Kind kind = collective::Kind::all_reduce;
  std::string source, gpu;
  std::string algorithm;     // that was forced: "Ring"; "": NCCL's choice
  int ranks = 0, nodes = 1;  // 0 nodes: the source does not say
  Bytes bytes{};             // whole array, as nccl-tests counts
  double seconds = 0;
  // NICs of a node, bits per second of each; 0: those of the cluster that is calibrated.
  int nics = 0;
  double nic_bits_per_second = 0;
  bool host_timed = false;  // contains launches and copies
  // Who communicated at the same time, by rank; without it, one group on neighbouring GPUs.
  std::optional<mesh::Groups> groups;
  std::int64_t count = 1;  // how often it was measured
};

// One kind of cost on the CPU.
struct HostSample {
  std::string path;  // of the profile's field: "host.kernel"
  std::string source;
  double seconds = 0;  // the median
  std::int64_t count = 0;
};

// A training step of a log.
struct StepSample {
  std::string source;
  std::int64_t iteration = 0;
  double seconds = 0;
  double tflops_gpu = 0;    // as printed; 0: not printed
  double tokens_s_gpu = 0;  // as printed
  double reserved_gib = 0, allocated_gib = 0;
};

struct Measurements {
  std::string device;  // as the source names it; "": it does not
  std::string date;    // of the measurement, "2026-08-15"; "": not stated
  std::vector<KernelSample> kernels;
  std::vector<CollectiveSample> collectives;
  std::vector<HostSample> host;
  std::vector<StepSample> steps;
  std::vector<std::string> facts;              // what else the source says, in words
  std::map<std::string, std::int64_t> passed;  // reason -> how many were left out

  void add(Measurements other);
};

}  // namespace sim::calibrate
