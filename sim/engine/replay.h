// replay.h — runs the device programs of a job: streams, collectives, allocator.
//
// The room `answer` calls it for every plan: first price() and outside_memory(), then run(). Two
// engines implement run(), with the same results.
//   reference  (reference/) executes every operation as an event of a queue, in the order of
//              simulated time
//   fast       (fast/) computes the start of each operation from its dependencies, rank class by
//              rank class, and skips microbatches that provably repeat
// Both give the same picoseconds and the same bytes; tests/engine/differential.cpp compares them.
//
// Meaning of a program. Times are those of one rank class.
//   kernel      is issued at the CPU clock. It starts when its stream is free and the SMs are free
//               (one kernel at a time). With a single hardware queue, all earlier launches must
//               have started, too.
//   collective  runs on the stream of its communicator, after the earlier work of the issuing
//               stream. It starts when every rank class of the group has reached it.
//   exchange    is a set of messages. Each message starts when both sides have reached it. The
//               exchange ends with its last message.
//   alloc/free  happen at the CPU clock, in the order of issue. A freed block that was recorded on
//               another stream waits for that stream.
#pragma once

#include <array>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "sim/base/units.h"
#include "sim/cluster/device/gpu.h"
#include "sim/cluster/device/profile.h"
#include "sim/cluster/network/network.h"
#include "sim/engine/loader.h"
#include "sim/engine/observer.h"
#include "sim/engine/report.h"
#include "sim/program/build/build.h"
#include "sim/program/ir/program.h"
#include "sim/program/plan/plan.h"

namespace sim::engine {

// The durations of the operations of a rank class, by the indices of its program. `overlapped`:
// while a kernel and a collective run at the same time and slow each other down.
struct ClassTimes {
  std::vector<Duration> kernel, kernel_overlapped;      // by operation
  std::vector<Duration> transfer, transfer_overlapped;  // by transfer
  std::vector<std::vector<Duration>> message;           // by exchange, by message
};

// All durations of a job on one machine.
struct Times {
  std::vector<ClassTimes> classes;
  // CPU time to issue one kernel, collective, exchange or wait; of an allocation from the cache; of
  // a free.
  Duration launch{}, launch_collective{}, launch_exchange{}, event{}, allocation{}, release{};
  Duration device_malloc{}, device_malloc_per_gib{}, device_free{};  // cudaMalloc, cudaFree
  Duration synchronize{};  // from the last GPU instruction until the CPU continues
  std::array<Duration, static_cast<std::size_t>(program::HostWork::count_)> host{};
  bool single_queue = true;  // CUDA_DEVICE_MAX_CONNECTIONS=1
  // Entries of a hardware queue: launches that may wait for the GPU before the CPU waits; 0: no
  // limit. A collective or exchange takes queue_entries_per_collective of them.
  std::int64_t launch_queue = 0;
  std::int64_t queue_entries_per_collective = 1;
  LoaderTimes loader;
};

// The memory of the devices.
struct Memory {
  Bytes total{};  // of the device
  // The range of unexplained memory (outside the allocator, explained by no source): the capacity
  // may be lower by `less` or higher by `more`.
  Bytes less{}, more{};
  std::vector<std::vector<Outside>> outside;  // by class
  std::string options;                        // PYTORCH_CUDA_ALLOC_CONF, valid
};

enum class Method : std::uint8_t { fast, reference };

struct Coupling;

// How to run a job. `fast:` marks options that only the fast engine reads.
struct Options {
  Method method = Method::fast;
  // Steps to replay after set-up, at least 2; the report describes the last. The first is a warm-up
  // of few microbatches that creates the optimizer state (Plan::warm_up_microbatches).
  int steps = 2;
  // Further steps are replayed, at most up to this number, until one is steady (rank/steadiness.h).
  // With no more than `steps`, exactly `steps` are replayed.
  int most_steps = 8;
  Observer* observer = nullptr;  // if set, the fast engine takes no shortcuts
  bool shortcuts = true;         // fast: skip microbatches that repeat
  // bounded and none: only the fast engine. Without shortcuts, bounded is exact.
  MemoryDetail memory = MemoryDetail::exact;
  // fast: number of threads that replay the memory of the rank classes, once times repeat.
  int threads = 1;
  // fast: stop at the first class that runs out of memory, that leaves less of its capacity
  // unreserved than `least_free`, or that gives cached memory back to the device more often than
  // `most_retries`. The report then says ended_early, and its times are not valid.
  bool until_out = false;
  Bytes least_free{std::numeric_limits<std::int64_t>::min()};
  std::int64_t most_retries = std::numeric_limits<std::int64_t>::max();
  // fast: false: the replay also stops after the first out-of-memory event if the tensors of its
  // class exceed its memory even with the least unexplained memory, so no allocator could save the
  // plan. The report then says ended_early, and its peaks are lower bounds (rank/tensor_peak.h).
  bool peaks_if_out = true;
  // All transfers of the step share one network (coupling.h). REQUIRES: method is reference.
  const Coupling* coupling = nullptr;
  bool couple = false;  // request to the caller of run(): make a coupling, use the reference engine
};

// The facts of a machine that influence the memory of a program: workspaces and number of SMs.
program::Environment environment(const device::Gpu& gpu, const device::Profile& profile);

// A kind of GPU, with its efficiencies.
struct GpuKind {
  device::Gpu gpu;
  device::Profile profile;
};

// The durations of every operation, transfer and message of every class of a job on one machine.
// `others`: GPU kinds 1, 2, ... of the cluster (cluster/topology/cluster.h). A class is as fast as
// its slowest GPU and has the memory of its smallest.
Times price(const program::Job& job, const device::Gpu& gpu, const device::Profile& profile,
            network::Network& network, std::span<const GpuKind> others = {});
// Device memory, and the memory outside the caching allocator by class: CUDA context, libraries,
// NCCL communicators, unexplained memory.
Memory outside_memory(const program::Job& job, const program::Plan& plan, const device::Gpu& gpu,
                      const device::Profile& profile, network::Network& network,
                      std::span<const GpuKind> others = {});

// Replays a job with the engine of `options.method`.
RunReport run(const program::Job& job, const Times& times, const Memory& memory,
              const Options& options = {});

}  // namespace sim::engine
