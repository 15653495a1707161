// report.h — what came out of a replay: time with its accounts, memory with its peak, and the
// out-of-memory events, per rank class and for the run.
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

enum class Account : std::uint8_t {
  compute,
  tp_exposed,
  cp_exposed,
  ep_exposed,
  dp_exposed,
  pp_fill_drain,  // pipeline wait while the pipeline fills or drains
  pp_imbalance,   // pipeline wait between unequal stages
  pp_transfer,    // pipeline messages on the wire that nothing hides
  optimizer,
  host,  // the GPU waits for the CPU
  data,  // a replica waits for its data loader
  other,
  count_,
};
constexpr int account_count = static_cast<int>(Account::count_);
std::string_view name(Account account);
using Accounts = std::array<Duration, account_count>;

// Bytes held per category.
using Split = std::array<std::int64_t, program::category_count>;

// Where in the program something happened.
struct Place {
  int step = 0;  // 1-based; 0: set-up
  int microbatch = -1;
  program::PassKind pass = program::PassKind::setup;
  int chunk = 0;
  int layer = -1;
  std::string block;
  std::string label;  // tensor
};

struct Outside {     // device memory outside the caching allocator
  std::string what;  // "CUDA context", "NCCL tp communicator"
  Bytes bytes;
};

struct OutOfMemory {
  int stage = 0, cp_rank = 0;
  Time when{};  // since the start of the job
  Place place;
  Bytes requested{};  // what the tensor asked for
  Bytes segment{};    // what the allocator asked the driver for
  Bytes device_free{};
  Bytes allocated{}, reserved{};
  // Reserved but not allocated, behind the retry. Only the first can serve the request.
  Bytes cached{};              // free, in the pool and stream of the request
  Bytes cached_elsewhere{};    // free, in another pool or of another stream
  Bytes pending{};             // freed, but another stream has not finished with it
  Bytes largest_free_block{};  // of `cached`
  Split split{};
  int retries = 0;
  // `cached` and the device's free memory would have served the request in one piece.
  bool request_fits_contiguous = false;
  // That, and the run never needs more than the device has: nothing but fragmentation is to blame.
  bool fragmentation_alone = false;
};

// How much of memory a replay looks at.
enum class MemoryDetail : std::uint8_t {
  exact,
  bounded,   // where times repeat: until the reserved peak lies so far below the capacity that the
             // outcome is sure; reserved peaks are then a range (RunReport::bounded). Where it runs
             // out of memory: until none that is unaccounted would help
  estimate,  // as none; whoever asks has a closed form
  none,      // time alone: no tensor is placed; nothing is known of memory
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

struct ClassReport {
  int stage = 0, cp_rank = 0;
  int ranks = 1;
  int layers = 0;
  std::int64_t parameters = 0;

  Accounts accounts{};  // of one steady step
  Duration busy{};      // compute + optimizer
  double bubble = 0;    // pipeline wait / step time

  Bytes capacity{};  // for the caching allocator
  std::vector<Outside> outside;
  Bytes static_bytes{};  // weights, gradients, master weights, optimizer after step 1
  Bytes peak_allocated{}, peak_reserved{}, peak_active{};
  // What it would allocate at most if memory were unlimited. A class that ran out in its first step
  // has not made its optimizer state; it is counted here.
  Bytes needed{};
  // Where `bounded` ended because a class is sure to run out, peaks and `needed` are those up to
  // there.
  // What peak_reserved may be at most, where the replay of memory ended before the step did; else
  // peak_reserved.
  Bytes reserved_most{};
  Place peak_place;    // of peak_allocated
  Split peak_split{};  // at peak_allocated
  Bytes reserved_at_peak{};
  Bytes largest_free_at_peak{};
  int alloc_retries = 0;
  std::optional<OutOfMemory> out_of_memory;
};

struct RunReport {
  Duration step_time{};  // one steady step
  Duration warm_up_time{};
  std::vector<ClassReport> classes;
  std::vector<std::size_t> out_of_memory;  // indices of classes, first in time first
  double bubble = 0;                       // mean over ranks of pipeline wait / step time
  double executed_flops = 0;  // per step, all ranks, as issued (recomputation included)

  // How the answer was found.
  std::int64_t events = 0;    // operations that a full replay executes
  std::int64_t replayed = 0;  // operations that were executed one by one
  bool fits() const { return out_of_memory.empty(); }
  MemoryDetail memory = MemoryDetail::exact;  // what was asked for
  bool bounded = false;  // memory was not replayed to the end: reserved peaks are a range
};

}  // namespace sim::engine
