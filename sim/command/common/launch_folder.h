// launch_folder.h — writes launch files beside plan.json.
//
// The command `plan` calls it with -o FOLDER. Each file is whole or not there. A file that is not
// of an earlier plan stays, so a user's own launch.sh is not lost.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/study/plan/launch/launch_writer.h"

namespace sim::command {

using LaunchFiles = std::map<std::string, std::string>;  // text by name

// The launch files that the folder's plan.json lists. Call it before plan.json is declared as an
// output (base/outputs.h): after that it cannot be read.
LaunchFiles listed_launches(const std::string& folder);

// Writes the files, and removes those that `earlier` lists and that nobody changed. With
// `overwrite` a changed file is written over. Returns the names of the written files.
std::vector<std::string> write_launches(const std::string& folder,
                                        const std::vector<planner::LaunchText>& launches,
                                        const LaunchFiles& earlier, bool overwrite);

}  // namespace sim::command
