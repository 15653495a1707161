// records.cpp — fuzzes what a sweep reads back of results.jsonl.
#include "sim/study/sweep/records.h"

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sim::study;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(line.size() == text.size() ? line.size() : line.size() + 1);
    const std::string_view id = record_id(line);
    if (!id.empty() && id.size() != 16) __builtin_trap();
    is_failure(line);
    is_sound(line);
    // What was written is sound, and one that has another end is not.
    if (line.size() < 2 || line.front() != '{' || line.back() != '}') continue;
    const std::string written = sealed(line);
    if (!is_sound(written) || is_sound(written + " ")) __builtin_trap();
  }
  return 0;
}
