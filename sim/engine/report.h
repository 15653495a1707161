// report.h — the result of a replay: times by account, memory with its peak, out-of-memory events.
//
// Both engines fill it, per rank class and for the run. `answer`, `output` and `study` read it.
//
// Invariants
//  (1) The accounts of a class are disjoint and sum exactly to the step time.
//  (2) peak_allocated <= peak_reserved <= reserved_most <= capacity, unless the class ran out of
//      memory.
#pragma once

#include <array>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/units.h"
#include "sim/program/ir/program.h"

namespace sim::engine {

// The uses of a step's time. `exposed`: communication that no computation hides, without the waits
// for ranks that come later.
enum class Account : std::uint8_t {
  compute,
  tp_exposed,
  cp_exposed,
  ep_exposed,
  dp_exposed,
  pp_fill_drain,  // wait while the pipeline fills or drains
  pp_imbalance,   // wait between unequal stages in the steady phase
  pp_transfer,    // exposed transfer of pipeline messages
  rank_wait,      // wait for the last rank of a collective of one stage
  optimizer,
  host,  // the GPU waits for the CPU
  data,  // the replica waits for its data loader
  other,
  count_,
};
constexpr int account_count = static_cast<int>(Account::count_);
std::string_view name(Account account);
using Accounts = std::array<Duration, account_count>;

// Allocated bytes by category of tensor.
using Split = std::array<std::int64_t, program::category_count>;

// A place in the program, for messages and traces.
struct ProgramLocation {
  int step = 0;  // from 1; 0: set-up
  int microbatch = -1;
  program::PassKind pass = program::PassKind::setup;
  int chunk = 0;
  int layer = -1;
  std::string block;
  std::string label;  // of the tensor or operation
};

struct Outside {     // device memory outside the caching allocator
  std::string what;  // "CUDA context", "NCCL tp communicator"
  Bytes bytes;
};

// The first out-of-memory event of a rank class.
struct OutOfMemory {
  int stage = 0, cp_rank = 0;
  Time when{};  // since the start of the job
  ProgramLocation place;
  Bytes requested{};  // by the tensor
  Bytes segment{};    // by the allocator from the driver
  Bytes device_free{};
  Bytes allocated{}, reserved{};
  // Reserved but not allocated, after the retry. Only `cached` can serve the request.
  Bytes cached{};              // free, in the sub-pool of the request
  Bytes cached_elsewhere{};    // free, in another pool or on another stream
  Bytes pending{};             // freed, but another stream still uses it
  Bytes largest_free_block{};  // of `cached`
  Split split{};
  int retries = 0;
  // The request would fit if `cached` and the free memory of the device were contiguous.
  bool request_fits_contiguous = false;
  // Fragmentation is the only cause: the request fits as above, and ClassReport::needed is at most
  // the capacity.
  bool fragmentation_alone = false;
};

// How exactly a replay computes memory.
enum class MemoryDetail : std::uint8_t {
  exact,
  bounded,   // stop the replay of memory once the verdict is certain and times repeat.
             // Fits: the reserved peak is far enough below the capacity; reserved peaks are then a
             // range (RunReport::bounded). Out of memory: it would run out even with the least
             // unexplained memory.
  estimate,  // as none; the caller takes memory from the closed-form estimate
  none,      // time only: no tensor is placed, and the report has no memory
};
inline constexpr std::string_view memory_details[] = {"exact", "bounded", "estimate", "none"};
constexpr std::string_view name(MemoryDetail detail) {
  return memory_details[static_cast<std::size_t>(detail)];
}
constexpr std::optional<MemoryDetail> memory_detail(std::string_view name) {
  for (std::size_t i = 0; i < std::size(memory_details); ++i)
    if (memory_details[i] == name) return static_cast<MemoryDetail>(i);
  return std::nullopt;
}
constexpr bool places_tensors(MemoryDetail detail) {
  return detail == MemoryDetail::exact || detail == MemoryDetail::bounded;
}

// The result of one rank class.
struct ClassReport {
  int stage = 0, cp_rank = 0;
  int ranks = 1;
  int layers = 0;
  std::int64_t parameters = 0;

  Accounts accounts{};  // of the last step
  Duration busy{};      // compute + optimizer
  double bubble = 0;    // the three pipeline accounts / step time

  Bytes capacity{};  // for the caching allocator: device memory - `outside`
  std::vector<Outside> outside;
  Bytes static_bytes{};  // weights, gradients, master weights, optimizer after step 1
  Bytes peak_allocated{}, peak_reserved{}, peak_active{};
  // The peak of allocated bytes if memory were unlimited. It includes the optimizer state, even if
  // the class ran out of memory before it made that state. If `bounded` stopped early because a
  // class is certain to run out, peaks and `needed` cover the time until then.
  Bytes needed{};
  // An upper bound of peak_reserved if the replay of memory stopped before the end of the step;
  // else peak_reserved.
  Bytes reserved_most{};
  ProgramLocation peak_place;  // of peak_allocated
  Split peak_split{};          // at peak_allocated
  Bytes reserved_at_peak{};
  Bytes largest_free_at_peak{};
  int alloc_retries = 0;  // in all steps that were replayed
  int step_retries = 0;   // in the last step
  std::optional<OutOfMemory> out_of_memory;
};

// The result of a replay.
struct RunReport {
  Duration step_time{};  // of the last step
  Duration warm_up_time{};
  int step = 0;  // number of the last step
  // The last step is as long as the steps after it (rank/steadiness.h). False: driver calls still
  // lengthen it.
  bool steady = true;
  // Of the first whole step. It is longer than step_time by the driver calls that happen once.
  Duration first_step_time{};
  std::vector<ClassReport> classes;
  std::vector<std::size_t> out_of_memory;  // indices of classes, in the order of the events
  double bubble = 0;                       // mean of ClassReport::bubble over all ranks
  double executed_flops = 0;               // of one step on all ranks, recomputation included

  // Effort of the replay.
  std::int64_t events = 0;    // operations of one full step
  std::int64_t replayed = 0;  // instructions that the engine executed one by one
  bool fits() const { return out_of_memory.empty(); }
  // By Options::until_out, least_free, most_retries, or without peaks_if_out.
  bool ended_early = false;
  MemoryDetail memory = MemoryDetail::exact;  // Options::memory
  bool bounded = false;  // the replay of memory stopped early: reserved peaks are a range
};

}  // namespace sim::engine
