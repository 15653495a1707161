// measured.h — what a trace says that a GPU did: its kernels by stream, cut into steps.
//
// Steps are the profiler's own annotations (ProfilerStep#n) where they are there: a kernel belongs
// to the step in which the CPU launched it. Else the kernels' names repeat: the shortest period
// after which nine of ten names come again is a step. Else the whole trace is one.
//
// Under PyTorch's "fake" process group collectives return at once, but a gather copies the rank's
// shard into the places of the others (FakeProcessGroup.hpp): n - 1 copies on a stream where
// nothing else is. They are taken as a gather whose time says nothing of a network.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/calibrate/readers/kernel_family.h"
#include "sim/calibrate/readers/trace_events.h"

namespace sim::calibrate {

constexpr std::int64_t unknown_time = std::numeric_limits<std::int64_t>::min();

struct MeasuredKernel {
  KernelFamily family = KernelFamily::other;
  int stream = -1;
  std::string_view name;
  std::int64_t start_ns = 0, duration_ns = 0;  // since the first kernel of the trace
  std::int64_t launch_ns = unknown_time;       // when the CPU launched it
  std::string_view group;                      // process group of a collective, "" if unknown
  int ranks = 0;                               // of that group; 0: unknown
  std::int64_t bytes = 0;                      // of a collective's whole array; 0: unknown
  int copies = 0;  // of a copy that stands for a collective: how many copies do
  bool stand_in() const { return copies > 0; }
  std::int64_t end_ns() const { return start_ns + duration_ns; }
};

struct MeasuredStep {
  std::string name;                       // "ProfilerStep#5"
  std::vector<std::uint32_t> kernels;     // of the trace, in order of their start
  std::int64_t begin_ns = 0, end_ns = 0;  // of its kernels
  std::int64_t length_ns = 0;  // to the begin of the next one; of the last to its own end
};

struct MeasuredTrace {
  std::string path, device;
  int rank = -1, world = 0;             // -1, 0: the trace does not say
  bool fake = false;                    // its process group is PyTorch's "fake" one
  std::int64_t zero_ns = 0;             // of the first kernel, by the clock of its rank
  std::vector<MeasuredKernel> kernels;  // in order of their start
  std::vector<MeasuredStep> steps;
  std::string found;             // how steps were found, in words
  std::shared_ptr<Texts> texts;  // of names
};

MeasuredTrace measured_trace(const TraceFile& file, const std::string& path);

}  // namespace sim::calibrate
