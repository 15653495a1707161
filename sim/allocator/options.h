// options.h — the settings of the allocator: PYTORCH_CUDA_ALLOC_CONF, parsed and checked.
//
// Loaders and engines parse the text of a plan once; the allocator then reads the values.
//
// Invariants
//  (1) Options are plain values that can be printed and compared. Parsing never throws.
//  (2) Only round_size, whole_blocks and segment_size turn a request into a size.
//
// Source: PyTorch's CUDA caching allocator, native backend, in two versions of its rules:
// "newer" (about 2.10 to 2.12, the default) and 2.4.0.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "sim/base/result.h"
#include "sim/base/units.h"

namespace sim::allocator {

// The version of PyTorch's allocator to follow.
enum class Rules { newer, v2_4_0 };

inline constexpr std::int64_t kilobyte = 1024;
inline constexpr std::int64_t megabyte = 1024 * kilobyte;
// Constants of CUDACachingAllocator.cpp, in bytes.
inline constexpr std::int64_t minimum_block = 512;
inline constexpr std::int64_t small_size = megabyte;         // largest request of the small pool
inline constexpr std::int64_t small_segment = 2 * megabyte;  // also the page of the small pool
inline constexpr std::int64_t min_large = 10 * megabyte;     // from here on: one segment each
inline constexpr std::int64_t round_large = 2 * megabyte;    // of these segments
inline constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max();
// Larger requests are errors: 1 PiB is far above any device and far below an overflow.
inline constexpr std::int64_t largest_request = std::int64_t{1} << 50;

// Sizes in bytes. Names follow PyTorch's keys.
struct Options {
  std::int64_t max_split_size = unlimited;
  std::int64_t max_non_split_rounding = 0;     // 0: equal to large_segment
  std::int64_t large_segment = 20 * megabyte;  // also the page of the large pool
  // Entry i applies to sizes in [2^i MiB, 2^(i+1) MiB). 0 and 1: multiples of 512 bytes.
  std::array<int, 16> roundup_divisions{};
  double garbage_collection_threshold = 0.0;
  double per_process_memory_fraction = 1.0;
  // Address range of one expandable segment: a fraction of device memory, or bytes. 0: 9/8 of it.
  double expandable_reserve_fraction = 0.0;
  std::int64_t expandable_reserve_bytes = 0;
  bool expandable_segments = false;
  // These settings are accepted and stored for the snapshot. They change no address.
  bool release_lock_on_cudamalloc = false;
  bool graph_capture_record_stream_reuse = false;
  bool throw_on_cudamalloc_oom = false;
  bool pinned_use_cuda_host_register = false;
  int pinned_num_register_threads = 1;
  std::string text;  // as given

  friend bool operator==(const Options&, const Options&) = default;
};

// Parses "key:value,key:value"; "" and "-" mean no options. Each diagnostic starts with `where`;
// columns count from `first_column`. A change at run time passes the present options as `current`:
// keys that are not named keep their values. Exceptions: max_split_size, the divisions and the
// garbage collection threshold return to their defaults.
Result<Options> parse_options(std::string_view conf, Rules rules = Rules::newer,
                              const Options& current = {}, std::string_view where = "options",
                              int first_column = 1);

// The rounded size of a request of `n` bytes: the size of the block to search and to count.
// REQUIRES: 0 < n <= largest_request.
std::int64_t round_size(std::int64_t n, const Options& options);
// The same without roundup_power2_divisions: the next multiple of 512 bytes.
constexpr std::int64_t whole_blocks(std::int64_t n) {
  return (n + minimum_block - 1) & ~(minimum_block - 1);
}

// Bytes to request from cudaMalloc if no free block serves a request of the rounded size `size`.
constexpr std::int64_t segment_size(std::int64_t size, const Options& options) {
  if (size <= small_size) return small_segment;
  if (size < min_large) return options.large_segment;
  return (size + round_large - 1) / round_large * round_large;
}

}  // namespace sim::allocator
