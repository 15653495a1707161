// result_folder.h — reads the folder of a sweep or of a search back, for `report` and `serve`.
#pragma once

#include <string>
#include <vector>

#include "sim/output/document.h"

namespace sim::command {

// The page of one folder, or of several sweeps or several searches side by side. Stops with the
// problems of a folder that cannot be read.
output::Document folders_page(const std::vector<std::string>& folders);

}  // namespace sim::command
