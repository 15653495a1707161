// memory_trace.cpp — fuzzes the reader of allocator traces and the replay of what it accepts.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "sim/allocator/recorded/replay.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sim::allocator;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const Rules rules : {Rules::newer, Rules::v2_4_0}) {
    const auto trace = parse_trace(text, "input", rules);
    if (!trace) continue;
    std::size_t lines = 0;
    replay_trace(*trace, rules, [&](std::string_view) { ++lines; });
    if (lines < trace->commands.size()) __builtin_trap();
  }
  return 0;
}
