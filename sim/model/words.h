// words.h — the words of enumerations of a network, in their order: plans, launch files, families,
// tables and JSON use the same ones.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "sim/model/architecture.h"
#include "sim/model/operation.h"

namespace sim::model {

constexpr std::array<std::string_view, 4> names_of(Norm) {
  return {"rms", "layer", "layer_without_bias", "layer_without_weights"};
}
constexpr std::array<std::string_view, 3> names_of(InputNorms) {
  return {"each", "shared", "no_norm"};
}
constexpr std::array<std::string_view, 3> names_of(Position) {
  return {"rope", "learned", "none"};
}
constexpr std::array<std::string_view, 2> names_of(Activation) {
  return {"swiglu", "gelu"};
}
constexpr std::array<std::string_view, 2> names_of(RouterScore) {
  return {"softmax", "sigmoid"};
}
constexpr std::array<std::string_view, 6> names_of(Precision) {
  return {"fp32", "tf32", "fp16", "bf16", "fp8", "fp4"};
}

template <class Enum>
constexpr std::string_view word(Enum value) {
  return names_of(value)[static_cast<std::size_t>(value)];
}

// Sets `value` to the one that a word names. False: no value has this word.
template <class Enum>
constexpr bool read_word(std::string_view text, Enum& value) {
  const auto names = names_of(Enum{});
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] != text) continue;
    value = static_cast<Enum>(i);
    return true;
  }
  return false;
}

}  // namespace sim::model
