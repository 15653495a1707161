// launch_file.cpp — fuzzes the readers of launch scripts and configurations, each with every input.
#include <cstddef>
#include <cstdint>
#include <string>

#include "sim/input/launch/launch.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const char* name : {"input.sh", "input.yaml", "input.json", "input.toml", "input.py"}) {
    const auto file = sim::input::read_launch(text, name);
    for (const auto& setting : file.arguments.settings)
      if (setting.text.find('=') == std::string::npos) __builtin_trap();
  }
  return 0;
}
