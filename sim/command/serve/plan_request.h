// plan_request.h — the plan that a request of a page describes, checked before a worker gets it.
#pragma once

#include <string>
#include <vector>

#include "sim/base/result.h"

namespace sim::command::web {

struct PlanRequest {
  std::string plan;                   // name of an installed plan; "": settings only
  std::vector<std::string> settings;  // "tp=4"

  // Words for a command: the plan and the settings.
  std::vector<std::string> words() const;
};

// Reads a body. JSON: {"plan": "llama-2-7b-64", "settings": ["tp=4"] or {"tp": 4}}. Other text: one
// plan or setting per line. Refuses names of files: a request reads installed data only.
Result<PlanRequest> plan_request(const std::string& body, bool json);

// The problem of one setting of a request; "" if there is none.
std::string request_problem(const std::string& setting);

// Whether the name could be that of an installed file: no path, no option.
bool is_plain_name(const std::string& name);

}  // namespace sim::command::web
