// free_entry.h — what lists of free blocks are made of.
#pragma once

#include <cstdint>

namespace sim::memory {

// Index of a block in its allocator; names a block as long as it is allocated.
enum class BlockId : std::int32_t {};
inline constexpr BlockId no_block{-1};

// Sizes of free blocks are multiples of 512 bytes; lists keep them as 32-bit counts.
inline constexpr std::int64_t size_unit = 512;
inline constexpr std::int64_t largest_free_size = size_unit * (INT64_C(0x7fffffff) - 1);

// A place in a list; good until the list changes.
struct FreePosition {
  int group = -1;  // chunk or bin; -1: the end
  int index = 0;
};

}  // namespace sim::memory
