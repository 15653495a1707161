// dependent_settings.h — settings that say how something is done that the plan does not do: each
// would be taken in silence. What a framework sets by itself is no such setting. A plan that says
// one is refused; of a launch it is left out with a note, for its own program looks past it too.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "sim/input/resolve/resolve.h"

namespace sim::input {

// What is done, or not.
enum class Means {
  latent_attention,
  experts,
  offloaded_modules,
  cpu_optimizer,
  selective_recompute,
};

// What a setting of a plan ("dispatcher", "architecture.v_head_dim") says more of; {}: of nothing
// that a plan may lack.
std::optional<Means> means_of(std::string_view setting);

// Megatron-LM's flags of which one does it; the second may be empty.
const std::array<std::string_view, 2>& flags_of(Means means);

// REQUIRES: `plan` is what `given` becomes, with the network that is trained.
std::vector<PlanProblem> needs(const rehearse::v1::Plan& given, const program::Plan& plan);

}  // namespace sim::input
