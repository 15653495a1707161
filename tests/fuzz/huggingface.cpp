// huggingface.cpp — fuzzes the reader of config.json.
#include "sim/input/models/huggingface.h"

#include <cstddef>
#include <cstdint>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto model = sim::input::parse_huggingface(text, "config.json");
  if (!model) {
    if (model.errors().empty()) __builtin_trap();
    return 0;
  }
  if (model->layers <= 0 || model->hidden <= 0 || model->heads <= 0) __builtin_trap();
  return 0;
}
