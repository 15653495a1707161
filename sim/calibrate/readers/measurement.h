// measurement.h — measurements in one form for all sources: kernels with shapes, collectives with
// sizes, CPU costs, whole steps. Readers fill it; fits and comparisons read it.
//
// Invariants
// (1) Durations and sizes are finite and positive. In a step, 0 means: not printed.
// (2) A reader counts everything that it leaves out, with the reason.
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

// One kernel, or several kernels timed together.
struct KernelSample {
  std::string group;   // "gemm forward", "attention backward", "norm"
  std::string source;  // name of the source
  std::string gpu;
  std::string implementation;  // of attention: "flash-attention-2"; "": the profile's first
  std::vector<model::Operation> operations;
  double seconds = 0;
  std::int64_t count = 1;  // number of measurements; `seconds` is their median
  bool in_run = false;     // measured in a training step, at the sustained rate of a long run
};

struct CollectiveSample {
  collective::Kind kind = collective::Kind::all_reduce;
  std::string source, gpu;
  std::string algorithm;     // forced by the source: "Ring"; "": NCCL's choice
  int ranks = 0, nodes = 1;  // nodes 0: not stated
  Bytes bytes{};             // of the whole array, as nccl-tests counts
  double seconds = 0;
  // NICs per node and bits per second of each; 0: those of the calibrated cluster.
  int nics = 0;
  double nic_bits_per_second = 0;
  bool host_timed = false;  // timed on the CPU: contains launches and copies
  bool waits = false;       // of a run: contains waiting for other ranks (waits_for_peers)
  // Groups that communicated at the same time. Without a value: one group on neighbouring GPUs.
  std::optional<mesh::Groups> groups;
  std::int64_t count = 1;  // number of measurements
};

// One kind of CPU cost.
struct HostSample {
  std::string path;  // path of the profile's field: "host.kernel"
  std::string source;
  double seconds = 0;  // median
  std::int64_t count = 0;
};

// A number of a profile that a source measured by itself, without a profiler beside it.
struct FieldSample {
  std::string path;  // "host.event", "memory.context"
  std::string source;
  double value = 0;  // seconds, bytes or a fraction, as in the profile
};

// One training step of a log.
struct StepSample {
  std::string source;
  std::int64_t iteration = 0;
  double seconds = 0;
  double tflops_gpu = 0;  // as printed; 0: not printed
  // tflops_gpu counts recomputed forward passes (Megatron-DeepSpeed).
  bool counts_recomputation = false;
  double tokens_s_gpu = 0;  // as printed
  std::int64_t global_batch = 0;
  double reserved_gib = 0, allocated_gib = 0;
};

// A setting of the run that a log prints.
struct PrintedSetting {
  std::string field;  // of a plan: "tp"
  std::int64_t value = 0;
  std::string where;  // "train.log:3"
};

struct Measurements {
  std::string device;  // as the source names it; "": not named
  std::string date;    // of the measurement, "2026-08-15"; "": not stated
  std::vector<KernelSample> kernels;
  std::vector<CollectiveSample> collectives;
  std::vector<HostSample> host;
  std::vector<FieldSample> fields;
  std::vector<StepSample> steps;
  std::vector<PrintedSetting> settings;        // of the run that a log is of
  std::vector<std::string> facts;              // other facts from the source, as text
  std::map<std::string, std::int64_t> passed;  // reason -> number left out
  std::vector<std::string> doubts;  // reasons not to fit a profile of training steps to them

  void add(Measurements other);
};

}  // namespace sim::calibrate
