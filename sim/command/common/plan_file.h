// plan_file.h — `rehearse plan FILE`: turns the question in a file (schema search.proto) into words
// of a command line.
#pragma once

#include <map>
#include <string>

#include "sim/command/common/command.h"

namespace sim::command {

struct PlanWords {
  Arguments arguments;
  std::map<std::string, std::string> places;  // setting of the file -> file:line:column
};

// Replaces the search file in `arguments`, if there is one, by its words. Settings of the command
// line override those of the file.
PlanWords spelled_out(const Options& options, const Arguments& arguments);

// Problems of settings, with their places in the file.
Diagnostics placed(Diagnostics problems, const std::map<std::string, std::string>& places);

}  // namespace sim::command
