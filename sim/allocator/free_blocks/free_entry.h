// free_entry.h — the block ids, size units and positions that all users of free blocks share.
#pragma once

#include <cstdint>

namespace sim::allocator {

// Index of a block in its allocator. It identifies the block as long as the block is allocated.
enum class BlockId : std::int32_t {};
inline constexpr BlockId no_block{-1};

// Sizes of free blocks are multiples of 512 bytes; lists store them in units of 512 bytes. They
// have 64 bits because a step that ran out of memory continues without a limit, and its tensors may
// be larger than any GPU.
inline constexpr std::int64_t size_unit = 512;
using Units = std::int64_t;
inline constexpr std::int64_t largest_free_size = std::int64_t{1} << 62;

// A position in a list of free blocks. It is valid until the list changes.
struct FreePosition {
  int group = -1;  // number of the bin; -1: the end
  int index = 0;
};

}  // namespace sim::allocator
