// replay.h — runs the device programs of a job: streams, rendezvous, allocator.
#pragma once

#include <vector>

#include "sim/core/units.h"
#include "sim/device/gpu.h"
#include "sim/device/profile.h"
#include "sim/network/network.h"
#include "sim/replay/observer.h"
#include "sim/replay/report.h"
#include "sim/workload/plan.h"
#include "sim/workload/program.h"

namespace sim::replay {

// Everything a rank class needs to know about time, from profile and network. Indices are those of
// the class's program.
struct ClassTimes {
  std::vector<Duration> kernel, kernel_overlapped;      // per operation
  std::vector<Duration> transfer, transfer_overlapped;  // per transfer
  std::vector<std::vector<Duration>> message;           // per exchange, per message
};

struct Times {
  std::vector<ClassTimes> classes;
  Duration launch{};             // CPU time to issue one kernel
  Duration launch_collective{};  // ... one collective or exchange
  Duration allocation{};         // ... one caching-allocator hit
  Duration device_malloc{}, device_free{};
  Duration synchronize{};  // CPU time after the GPU became idle
  Duration host[static_cast<int>(workload::HostWork::count_)]{};
  bool single_queue = true;  // CUDA_DEVICE_MAX_CONNECTIONS=1
};

struct Memory {
  Bytes total{};                              // what the device has
  std::vector<std::vector<Outside>> outside;  // per class
  std::string options;                        // PYTORCH_CUDA_ALLOC_CONF
};

enum class Method { fast, reference };

struct Options {
  Method method = Method::fast;
  int steps = 3;                 // replayed after set-up; the last is reported
  Observer* observer = nullptr;  // switches the shortcuts of the fast path off
};

// Prices a job on a machine: every operation, transfer and message of every class.
Times price(const workload::Job& job, const device::Gpu& gpu, const device::Profile& profile,
            network::Network& network);
Memory outside_memory(const workload::Job& job, const workload::Plan& plan, const device::Gpu& gpu,
                      const device::Profile& profile, network::Network& network);

RunReport run(const workload::Job& job, const Times& times, const Memory& memory,
              const Options& options = {});

}  // namespace sim::replay
