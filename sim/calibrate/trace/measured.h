// measured.h — the kernels of a trace by stream, cut into steps. It is the input of match.h.
//
// Steps are the profiler's annotations (ProfilerStep#n), if present: a kernel belongs to the step
// in which the CPU launched it. Otherwise a step is the shortest period after which 90 % of the
// kernel names repeat. Otherwise the whole trace is one step.
//
// Under PyTorch's "fake" process group collectives return at once. A gather copies the rank's shard
// into the slots of the others (FakeProcessGroup.hpp): n - 1 copies on a stream without other
// kernels. These copies count as a gather; their time is not a network's.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/calibrate/readers/kernel_family.h"
#include "sim/calibrate/readers/measurement.h"
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
  int copies = 0;  // number of copies that replace one collective; 0: not a replacement
  bool stand_in() const { return copies > 0; }
  std::int64_t end_ns() const { return start_ns + duration_ns; }
};

struct MeasuredStep {
  std::string name;                       // "ProfilerStep#5"
  std::vector<std::uint32_t> kernels;     // indices in the trace, in order of start
  std::int64_t begin_ns = 0, end_ns = 0;  // of its kernels
  std::int64_t length_ns = 0;  // to the begin of the next step; last step: to its own end
};

struct MeasuredTrace {
  std::string path, device;
  int rank = -1, world = 0;             // -1, 0: not in the trace
  bool fake = false;                    // the process group is PyTorch's "fake" one
  std::int64_t zero_ns = 0;             // start of the first kernel by the rank's clock
  std::vector<MeasuredKernel> kernels;  // in order of start
  std::vector<MeasuredStep> steps;
  std::string found;                 // how steps were found, as text
  bool end_to_end = false;           // the source has durations only; a step's length means nothing
  std::vector<KernelSample> shaped;  // products and attention whose shapes the profiler recorded
  std::shared_ptr<Texts> texts;      // owns the names
};

MeasuredTrace measured_trace(const TraceFile& file, const std::string& path);

}  // namespace sim::calibrate
