// plan_text.h — the text of a plan file that sets given settings. Rows of tables of measured runs
// become plan files with it.
#pragma once

#include <string>
#include <vector>

#include "sim/base/result.h"

namespace sim::input {

// `settings` are "key=value", of the plan or of its cluster; a later one replaces an earlier one.
// `problems` gets those of the settings; the text is then not whole.
std::string plan_text(const std::string& name, const std::string& source,
                      const std::vector<std::string>& settings, Diagnostics& problems);

}  // namespace sim::input
