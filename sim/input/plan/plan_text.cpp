#include "sim/input/plan/plan_text.h"

#include <google/protobuf/text_format.h>

#include "sim/input/fields/cluster_fields.h"
#include "sim/input/plan/draft.h"

namespace sim::input {

std::string plan_text(const std::string& name, const std::string& source,
                      const std::vector<std::string>& settings, Diagnostics& problems) {
  rehearse::v1::Plan plan;
  plan.set_name(name);
  if (!source.empty()) plan.add_source(source);
  std::vector<Setting> of_plan;
  for (const std::string& setting : settings) {
    if (is_cluster_setting(setting)) {
      plan.add_cluster_settings(setting);
    } else {
      of_plan.push_back({setting, ""});
    }
  }
  Source none("");
  problems = apply(of_plan, plan, none);
  std::string text;
  google::protobuf::TextFormat::PrintToString(plan, &text);
  return text;
}

}  // namespace sim::input
