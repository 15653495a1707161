// memory_pickle.cpp — fuzzes the reader of memory snapshots and the replay of what it accepts.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "sim/allocator/recorded/recording.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sim::allocator;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto snapshot = read_snapshot(bytes, "input");
  if (!snapshot) return 0;
  for (const Rules rules : {Rules::newer, Rules::v2_4_0}) {
    const auto replay = replay_snapshot(*snapshot, rules, "input");
    if (replay && replay->allocations_at_recorded_address > replay->allocations) __builtin_trap();
  }
  return 0;
}
