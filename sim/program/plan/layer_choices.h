// layer_choices.h — choices of layers as text: "keep*2,swap*3,recompute".
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

// Runs of like choices as one word each.
std::string text_of(std::span<const LayerChoice> choices);

}  // namespace sim::program
