// other_options.h — replays the requests of a recording under other allocator options.
//
// `rehearse memory replay F allocator_options=...` calls it twice: with the recorded options and
// with the others. The options are then the only difference.
//
// Kept: the order of allocations, frees and completed frees of other streams, with their sizes,
// streams and private pools, and each torch.cuda.empty_cache. Made anew: segments and addresses.
// Blocks that were in use when the recording began are allocated first, in order of address; the
// free blocks between them are not kept. Memory is unlimited, since a snapshot does not have the
// memory of its device: there are no retries, and a request that failed stays left out.
//
// A retry and empty_cache leave the same events. Memory given back is a retry if the request after
// it would have reserved more than the recording ever did; otherwise the process had room.
#pragma once

#include <cstdint>
#include <string>

#include "sim/allocator/recorded/peak_state.h"
#include "sim/allocator/recorded/recording.h"

namespace sim::allocator {

struct RequestsReplay {
  std::int64_t allocations = 0;
  std::int64_t initial_blocks = 0;  // in use when the recording began
  std::int64_t failed = 0;          // requests that failed in the recorded process: left out
  PeakState at_peak;
  Statistics statistics;
};

RequestsReplay replay_requests(const Recording& recording, const Options& options, Rules rules);

// Options whose effect depends on the memory of the device: a reason to refuse them; "" if none.
std::string needs_capacity(const Options& options);

}  // namespace sim::allocator
