// replay.h — runs the device programs of a job: streams, rendezvous, allocator.
//
// The same meaning, two engines. `reference` (reference.cpp) executes every operation as events on
// a queue, in the order of simulated time. `fast` (fast_engine.h) computes when each operation
// starts from what it waits for, rank class by rank class, and skips the microbatches that provably
// repeat. Both give the same picoseconds and the same bytes; a differential test says so.
//
// Meaning of a program (times are of one rank class)
//   kernel      issued at the CPU clock; starts when its stream, the SMs (one kernel at a time)
//   and,
//               with a single hardware queue, every earlier launch have started
//   collective  on its communicator's stream, after the issuing stream's work so far; runs when
//               every rank class of the group has got there
//   exchange    each message runs when both sides have got there; ends when all its messages have
//   alloc/free  at the CPU clock, in issue order; blocks recorded on another stream wait for it
#pragma once

#include <array>
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

// What a rank class needs to know about time, from profile and network, by the indices of its
// program.
struct ClassTimes {
  std::vector<Duration> kernel, kernel_overlapped;      // per operation
  std::vector<Duration> transfer, transfer_overlapped;  // per transfer
  std::vector<std::vector<Duration>> message;           // per exchange, per message
};

struct Times {
  std::vector<ClassTimes> classes;
  // CPU time to issue one kernel, collective, exchange, wait; to hit the allocator, to free.
  Duration launch{}, launch_collective{}, launch_exchange{}, event{}, allocation{}, release{};
  Duration device_malloc{}, device_malloc_per_gib{}, device_free{};
  Duration synchronize{};  // from the GPU's last instruction to the CPU going on
  std::array<Duration, static_cast<std::size_t>(program::HostWork::count_)> host{};
  bool single_queue = true;  // CUDA_DEVICE_MAX_CONNECTIONS=1
  // Launches that may wait for the GPU in a hardware queue before the CPU waits too; 0: no limit. A
  // collective or exchange takes so many of these places, at most all.
  std::int64_t launch_queue = 0;
  std::int64_t queue_entries_per_collective = 1;
  LoaderTimes loader;
};

struct Memory {
  Bytes total{};  // what the device has
  // The capacity may be so much smaller or larger: what is unaccounted has a range.
  Bytes less{}, more{};
  std::vector<std::vector<Outside>> outside;  // per class
  std::string options;                        // PYTORCH_CUDA_ALLOC_CONF, checked
};

enum class Method : std::uint8_t { fast, reference };

struct Coupling;

struct Options {
  Method method = Method::fast;
  // Replayed after set-up; the last is reported. The first is a warm-up of few microbatches that
  // creates the optimizer state (Plan::warm_up_microbatches); the others are whole. At least 2.
  int steps = 2;
  Observer* observer = nullptr;  // switches the shortcuts of the fast path off
  bool shortcuts = true;         // fast: skip what repeats
  // bounded and none: the fast engine alone; bounded is exact where the shortcuts are off.
  MemoryDetail memory = MemoryDetail::exact;
  // fast: classes share so many threads where their memory alone is replayed.
  int threads = 1;
  // fast: nothing is replayed behind the first class that runs out of memory; the report then only
  // says that one does.
  bool until_out = false;
  // All transfers of the step share one network (coupling.h); REQUIRES: method is reference.
  const Coupling* coupling = nullptr;
  bool couple = false;  // whoever prices the job makes the coupling, and takes the reference engine
};

// Facts of the machine that decide what a program allocates.
program::Environment environment(const device::Gpu& gpu, const device::Profile& profile);

// A kind of GPU and how efficient it is.
struct GpuKind {
  device::Gpu gpu;
  device::Profile profile;
};

// Prices a job on a machine: every operation, transfer and message of every class. `others`: kinds
// 1 ... of the cluster (cluster/topology/cluster.h); a class is as fast as the slowest of its GPUs
// and has the memory of the smallest.
Times price(const program::Job& job, const device::Gpu& gpu, const device::Profile& profile,
            network::Network& network, std::span<const GpuKind> others = {});
Memory outside_memory(const program::Job& job, const program::Plan& plan, const device::Gpu& gpu,
                      const device::Profile& profile, network::Network& network,
                      std::span<const GpuKind> others = {});

RunReport run(const program::Job& job, const Times& times, const Memory& memory,
              const Options& options = {});

}  // namespace sim::engine
