// plan_file.h — `rehearse plan FILE`: what a file asks (schema search.proto), as the words of a
// command line.
#pragma once

#include <map>
#include <string>

#include "sim/command/common/command.h"

namespace sim::command {

struct PlanWords {
  Arguments arguments;
  std::map<std::string, std::string> places;  // of a file's settings: file:line:column
};

// `arguments` with the file in them, if there is one, spelled out. What the command line says
// beside the file takes its place.
PlanWords spelled_out(const Options& options, const Arguments& arguments);

// Problems of settings, at their places.
Diagnostics placed(Diagnostics problems, const std::map<std::string, std::string>& places);

}  // namespace sim::command
