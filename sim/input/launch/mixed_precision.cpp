#include "sim/input/launch/mixed_precision.h"

#include <algorithm>

#include "sim/input/launch/launch_files.h"

namespace sim::input {

LaunchValues with_mixed_precision(LaunchValues values) {
  const auto named = values.find("mixed_precision");
  if (named == values.end()) return values;
  std::string name = named->second.text();
  std::ranges::replace(name, '-', '_');
  const std::optional<LaunchValues> recipe = preset_of("megatron-bridge", name);
  if (!recipe) return values;
  const std::size_t at = named->second.at;
  values.erase(named);
  for (auto [key, value] : *recipe) {
    value.at = at;
    values.emplace(key, std::move(value));
  }
  return values;
}

void add_fp8_parameters(const LaunchValues& values, const std::string& path,
                        MegatronArguments& out) {
  for (const char* key : {"mixed_precision.fp8_param_gather", "mixed_precision.fp8_param"})
    if (const auto found = values.find(key);
        found != values.end() && is_off_word(found->second.text()))
      out.settings.push_back({"fp8_parameters=false", path});
}

}  // namespace sim::input
