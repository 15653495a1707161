// layer_choices.h — reads and writes the choices of layers as text: "keep*2,swap*3,recompute".
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/program/plan/plan.h"

namespace sim::program {

struct LayerChoices {
  std::vector<LayerChoice> choices;
  std::string problem;  // "": none
};
LayerChoices read_layer_choices(std::string_view text);

// Writes a run of equal choices as one item.
std::string text_of(std::span<const LayerChoice> choices);

}  // namespace sim::program
