// free_entry.h — what lists of free blocks are made of.
#pragma once

#include <cstdint>

namespace sim::allocator {

// Index of a block in its allocator; names a block as long as it is allocated.
enum class BlockId : std::int32_t {};
inline constexpr BlockId no_block{-1};

// Sizes of free blocks are multiples of 512 bytes; lists keep counts of them. 64 bits: no GPU has a
// tebibyte, but a step that ran out of memory goes on without a limit, and its tensors may be
// larger.
inline constexpr std::int64_t size_unit = 512;
using Units = std::int64_t;
inline constexpr std::int64_t largest_free_size = std::int64_t{1} << 62;

// A place in a list; good until the list changes.
struct FreePosition {
  int group = -1;  // chunk or bin; -1: the end
  int index = 0;
};

}  // namespace sim::allocator
