// options.h — the allocator's settings: PYTORCH_CUDA_ALLOC_CONF, read and checked.
//
// Invariants
//  (1) Options are plain values, printable and comparable; parsing never throws.
//  (2) round_size, whole_blocks and segment_size are the only places where a request becomes a
//      size.
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

enum class Rules { newer, v2_4_0 };

inline constexpr std::int64_t kilobyte = 1024;
inline constexpr std::int64_t megabyte = 1024 * kilobyte;
inline constexpr std::int64_t minimum_block = 512;
inline constexpr std::int64_t small_size = megabyte;         // the small pool's largest size
inline constexpr std::int64_t small_segment = 2 * megabyte;  // also the small pool's page
inline constexpr std::int64_t min_large = 10 * megabyte;     // from here: a segment of its own
inline constexpr std::int64_t round_large = 2 * megabyte;
inline constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max();
// No request above this is considered: far beyond any device, far below overflow.
inline constexpr std::int64_t largest_request = std::int64_t{1} << 50;

struct Options {
  std::int64_t max_split_size = unlimited;
  std::int64_t max_non_split_rounding = 0;     // 0: as large_segment
  std::int64_t large_segment = 20 * megabyte;  // also the large pool's page
  // Entry i holds for sizes in [2^i MiB, 2^(i+1) MiB); 0 and 1 mean multiples of 512.
  std::array<int, 16> roundup_divisions{};
  double garbage_collection_threshold = 0.0;
  double per_process_memory_fraction = 1.0;
  // Address range of one expandable segment: a fraction of device memory or bytes; 0 = 9/8.
  double expandable_reserve_fraction = 0.0;
  std::int64_t expandable_reserve_bytes = 0;
  bool expandable_segments = false;
  // Accepted and remembered for the snapshot; they change no address.
  bool release_lock_on_cudamalloc = false;
  bool graph_capture_record_stream_reuse = false;
  bool throw_on_cudamalloc_oom = false;
  bool pinned_use_cuda_host_register = false;
  int pinned_num_register_threads = 1;
  std::string text;  // as given

  friend bool operator==(const Options&, const Options&) = default;
};

// Reads "key:value,key:value"; "" and "-" are no options. `where` opens each diagnostic, columns
// count from `first_column`. As a change at run time: `current` keeps what it has for keys that
// are not named, except max_split_size, the divisions and the threshold, which start afresh.
Result<Options> parse_options(std::string_view conf, Rules rules = Rules::newer,
                              const Options& current = {}, std::string_view where = "options",
                              int first_column = 1);

// The size that is searched, split and counted for a request of `n` bytes.
// REQUIRES: 0 < n <= largest_request.
std::int64_t round_size(std::int64_t n, const Options& options);
// The same where no option divides powers of two.
constexpr std::int64_t whole_blocks(std::int64_t n) {
  return (n + minimum_block - 1) & ~(minimum_block - 1);
}

// What cudaMalloc is asked for when no free block serves `size`, a rounded size.
constexpr std::int64_t segment_size(std::int64_t size, const Options& options) {
  if (size <= small_size) return small_segment;
  if (size < min_large) return options.large_segment;
  return (size + round_large - 1) / round_large * round_large;
}

}  // namespace sim::allocator
