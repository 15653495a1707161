// dependent_settings.h — settings that have no effect without another setting, and their rejection.
//
// Example: `dispatcher` has no effect on a model without experts. A plan with such a setting is
// refused. A launch script with such a flag is accepted with a note, because Megatron-LM ignores
// the flag too. Defaults of a framework are never refused.
//
// `resolve` calls settings_without_effect() for each plan. The flag translator (launch/) calls
// feature_of and flags_of.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "sim/input/resolve/resolve.h"

namespace sim::input {

// The feature that a setting depends on.
enum class Feature {
  latent_attention,
  experts,
  offloaded_modules,
  cpu_optimizer,
  selective_recompute,
};

// The feature that a setting ("dispatcher", "architecture.v_head_dim") depends on; {} if it depends
// on none.
std::optional<Feature> feature_of(std::string_view setting);

// The Megatron-LM flags that turn the feature on; one is enough. The second may be empty.
const std::array<std::string_view, 2>& flags_of(Feature feature);

// The settings of `given` that have no effect. REQUIRES: `plan` is `given` after copying its
// fields, with the trained network.
Diagnostics settings_without_effect(const rehearse::v1::Plan& given, const program::Plan& plan);

}  // namespace sim::input
